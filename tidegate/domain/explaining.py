"""Why a trigger has not fired yet: its tree with what each part has, what it lacks, and when silence will decide.

Made by the code that decides (`folding.Fold`), so that it cannot say anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.domain.collected import NOTHING, Deadline, Facts, Node, Progress, Tally
from tidegate.domain.fires import next_fire
from tidegate.domain.folding import Fold
from tidegate.domain.instants import Instant, format_duration, format_instant
from tidegate.domain.latches import FOREVER, latched_until
from tidegate.domain.plugins import plugin_of
from tidegate.domain.triggers import (
    TIME_TRIGGERS,
    All,
    AnyOf,
    Custom,
    DataSize,
    Elapsed,
    Happened,
    Never,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    Then,
    TimeTrigger,
    Trigger,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One node. `value` against `threshold`: counts, bytes and rows by name, or microseconds; None where neither is.

    `decides_at`: when it will be looked at although nothing comes.
    """

    node: Node
    type: str
    satisfied: bool
    value: Any
    threshold: Any
    why: str
    decides_at: Instant | None
    children: tuple[Explained, ...]


def explain(
    trigger: Trigger, progress: Progress, facts: Facts, now: Instant, deadlines: Sequence[Deadline] = ()
) -> Explained:
    """The tree as it is at an instant. `progress` as `advance` left it; `deadlines`: those that are stored."""
    fold = Fold(trigger, progress, facts)
    fold.now = max(fold.now, now)
    answer = fold.satisfied()
    upcoming = {one.node: one.at for one in deadlines if one.at > now}
    upcoming |= {node: at for at, node in (*fold.ticks(), *fold.moments()) if at > now}
    return _Telling(fold, answer, upcoming).node(0)


@dataclass(frozen=True, slots=True)
class _Telling:
    fold: Fold
    answer: Sequence[bool]
    upcoming: Mapping[Node, Instant]

    def node(self, node: Node) -> Explained:
        trigger = self.fold.tree.nodes[node]
        value, threshold, why = self.tell(node, trigger)
        return Explained(
            node=node,
            type=trigger.plugin if isinstance(trigger, Custom) else trigger.TYPE,
            satisfied=self.answer[node],
            value=value,
            threshold=threshold,
            why=why,
            decides_at=self.upcoming.get(node),
            children=tuple(self.node(child) for child in self.fold.tree.children[node]),
        )

    def tell(self, node: Node, trigger: Trigger) -> tuple[Any, Any, str]:
        """(value, threshold, why) of one node."""
        tally = self.fold.tallies.get(node, NOTHING)
        match trigger:
            case Partition():
                what = "new or changed" if trigger.changed else "new"
                names = f": {', '.join(tally.names[:10])}" if tally.names else ""
                why = f"{len(tally.names):,} of {trigger.count:,} {what} partitions of {trigger.dataset}{names}"
                return len(tally.names), trigger.count, why + _came(tally)
            case DataSize():
                return self.size(trigger, tally)
            case Happened():
                about = f" of {trigger.key}" if trigger.key is not None else ""
                why = f"{tally.amount.n:,} of {trigger.count:,} {trigger.event} events{about}{_came(tally)}"
                return tally.amount.n, trigger.count, why
            case ProgramStatus():
                ended = " or ".join(trigger.outcomes)
                why = f"{tally.amount.n:,} of {trigger.count:,} runs of {trigger.program} {ended}{_came(tally)}"
                return tally.amount.n, trigger.count, why
            case Elapsed():
                return self.elapsed(node, trigger)
            case Custom():
                plugin = plugin_of(trigger.plugin)
                state = plugin.start(trigger.parameters) if tally.state is None else tally.state
                return None, None, plugin.why(trigger.parameters, state)
            case Never():
                return None, None, "by hand only"
            case Quiet():
                return self.quiet(node, trigger)
            case All() | AnyOf() | NOf():
                return self.composite(node, trigger)
            case _:
                assert isinstance(trigger, TIME_TRIGGERS)
                return tally.tick, None, self.time(node, trigger, tally)

    def size(self, leaf: DataSize, tally: Tally) -> tuple[Any, Any, str]:
        wanted = {name: most for name in ("bytes", "rows") if (most := getattr(leaf, name)) is not None}
        have = {name: getattr(tally.amount, name) for name in wanted}
        told = " and ".join(f"{have[name]:,} of {most:,} new {name}" for name, most in wanted.items())
        return have, wanted, f"{told} of {leaf.dataset}{_came(tally)}"

    def elapsed(self, node: Node, leaf: Elapsed) -> tuple[Any, Any, str]:
        at = self.fold.elapsed_at(node, leaf)
        span = format_duration(leaf.after)
        since = "the last run" if leaf.since is Since.LAST_RUN else f"the last {leaf.event} event"
        if at is None:
            why = "silent while a run waits or works" if leaf.since is Since.LAST_RUN else "until the next event: fired"
            return None, leaf.after, f"{span} since {since}: {why}"
        value = min(max(self.fold.now - (at - leaf.after), 0), leaf.after)
        when = "since" if self.answer[node] else "will have passed at"
        return value, leaf.after, f"{span} since {since}: {when} {format_instant(at)}"

    def quiet(self, node: Node, trigger: Quiet) -> tuple[Any, Any, str]:
        if node not in self.fold.settled:
            return None, trigger.silence, "there is nothing yet that could fall silent"
        at = self.fold.quiet_at(node, trigger)
        value = min(max(self.fold.now - (at - trigger.silence), 0), trigger.silence)
        if self.answer[node]:
            return trigger.silence, trigger.silence, f"quiet since {format_instant(min(at, self.fold.now))}"
        return value, trigger.silence, f"if nothing more comes, satisfied at {format_instant(at)}"

    def composite(self, node: Node, trigger: All | AnyOf | NOf) -> tuple[Any, Any, str]:
        children = self.fold.tree.children[node]
        have = sum(self.answer[child] for child in children)
        wanted = trigger.n if isinstance(trigger, NOf) else len(children) if isinstance(trigger, All) else 1
        why = f"{have} of {wanted} satisfied"
        if not isinstance(trigger, All):
            return have, wanted, why
        if node in self.fold.forced:
            return have, wanted, f"{why}; waited its longest, and goes on with what there is"
        if node in self.fold.kept:
            return have, wanted, f"{why}; complete, and stays so"
        over = self.fold.wait_over(node, trigger)
        if over is not None and not self.answer[node]:
            then = "goes on with what there is" if trigger.then is Then.RUN else "is given up"
            why += f"; {then} at {format_instant(over)}"
        return have, wanted, why

    def time(self, node: Node, leaf: TimeTrigger, tally: Tally) -> str:
        coming = next_fire(leaf, self.fold.now)
        later = "no more to come" if coming is None else f"next at {format_instant(coming)}"
        if tally.tick is None or not self.answer[node]:
            return later
        until = latched_until(leaf, tally.tick)
        held = "" if until >= FOREVER else f", holds until {format_instant(until)}"
        return f"since {format_instant(tally.tick)}{held}; {later}"


def _came(tally: Tally) -> str:
    """When the first and the last came."""
    if tally.first_at is None or tally.last_at is None:
        return ""
    if tally.first_at == tally.last_at:
        return f"; came at {format_instant(tally.last_at)}"
    return f"; the first at {format_instant(tally.first_at)}, the last at {format_instant(tally.last_at)}"
