"""Why an operation on a table runs or does not, in one line for people."""

from __future__ import annotations

from typing import assert_never

from tidegate.domain.instants import format_instant
from tidegate.domain.maintenance.decision import Because, Block, Decision, Finding, Verdict
from tidegate.domain.maintenance.health import shown


def why(one: Decision) -> str:
    """Every reason, the weightiest first."""
    if one.verdict is Verdict.RUN:
        met = ", ".join(map(_met, one.met))
        if one.forced:
            return "It was put off for as long as it may be, and is forced."
        if one.ignored:
            return f"It is due by its schedule. {_ignored(one)}"
        return f"It is due: {met}." if met else "It is due by its schedule."
    reasons = [sentence(block) for block in one.blocks]
    if one.ignored:
        reasons.append(_ignored(one))
    elif one.unmet and not one.forced:
        lacking = ", ".join(map(_unmet, one.unmet))
        reasons.append(f"Not reached: {lacking}.")
    return " ".join(reasons) or "It is not due."


def sentence(block: Block) -> str:
    """A reason against."""
    until = "" if block.until is None else f" until {format_instant(block.until)}"
    match block.because:
        case Because.BY_HAND:
            return "It has neither a schedule nor conditions, so it runs by hand only."
        case Because.NOT_DUE:
            return "It is not due by its schedule" + (
                "." if block.until is None else f"; the next fire is {format_instant(block.until)}."
            )
        case Because.SCHEDULE_OFF:
            return "Its schedule is switched off."
        case Because.CONDITIONS_OFF:
            return "It has no schedule, so it runs by hand only while conditions do not count."
        case Because.WINDOW_CLOSED:
            return f"Its window is closed{until}."
        case Because.FAILING:
            return f"It failed {_times(block.detail)} and rests{until}."
        case Because.UNCHANGED:
            return f"It changed nothing {_times(block.detail)} and comes less often: not{until}."
        case Because.NO_ROOM:
            return f"The budget has no room{until}. {block.detail}".strip()
        case Because.SWITCHED_OFF:
            return "Automatic maintenance is switched off (tidegate policies enable)."
        case Because.DISABLED:
            return "The policy disables it."
        case Because.BUSY:
            return f"The table is busy: {block.detail}."
        case Because.UNREADABLE:
            return f"The table cannot be read: {block.detail.rstrip('.')}."
        case Because.REFUSED:
            return f"It could not be started, and is not tried again{until}: {block.detail.rstrip('.')}."
        case Because.MIN_INTERVAL:
            return f"It ran a short while ago; not{until}."
        case Because.ANOTHER_FIRST:
            return f"Another operation goes first: {block.detail}."
        case Because.NOTHING_TO_DO:
            return f"It would change nothing: {block.detail}"
        case Because.IMPOSSIBLE:
            return block.detail
        case _:
            assert_never(block.because)


def _times(count: str) -> str:
    return "the last time" if count == "1" else f"{count} times in a row"


def _ignored(one: Decision) -> str:
    lacking = ", ".join(map(_unmet, one.unmet))
    return "Conditions do not count (setting maintenance.conditions)" + (f": {lacking}." if lacking else ".")


def _met(one: Finding) -> str:
    value = "unknown" if one.value is None else shown(one.metric, one.value)
    return f"{one.metric.value} is {value}, at least {shown(one.metric, one.limit)}"


def _unmet(one: Finding) -> str:
    value = "unknown" if one.value is None else shown(one.metric, one.value)
    return f"{one.metric.value} is {value}, not yet {shown(one.metric, one.limit)}"
