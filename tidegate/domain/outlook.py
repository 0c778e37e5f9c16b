"""When a run that waits can go at the earliest, and which of the things that it lacks matters most.

Asked by people, answered with the questions that the admitter asks (`admission.questions`): what is known of time is
followed to where nothing but other runs, readings and people is left to be waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain.admission import FROZEN, SLOT, SUSPENDED, Candidate, Question, questions
from tidegate.domain.constraints import AdmissionFacts, Met, Never, Wait
from tidegate.domain.instants import Instant

_ROUNDS = 50
"""Window and blackout may push each other on; what does not settle by then is said to be no earlier than that."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """`asked`: every question with its answer now. `blocker`: the unmet one that matters; None: nothing is. `skips`:
    as things stand it is skipped, not started. `earliest`: no earlier than this, by what is known of time; None when
    no instant is known to matter."""

    asked: tuple[Question, ...]
    blocker: Question | None
    skips: bool
    earliest: Instant | None


def outlook(candidate: Candidate, facts: AdmissionFacts, now: Instant) -> Outlook:
    """What keeps a run waiting, judged now."""
    asked = tuple(questions(candidate, facts, now))
    unmet = [one for one in asked if not isinstance(one.verdict, Met)]
    waits = [one for one in unmet if isinstance(one.verdict, Wait) and not one.skips and one.name != SLOT]
    refused = [one for one in unmet if one.skips or isinstance(one.verdict, Never)]
    skips = not waits and bool(refused)
    return Outlook(
        asked=asked,
        blocker=refused[0] if skips else _weightiest(waits or unmet),
        skips=skips,
        earliest=None if skips else _earliest(candidate, facts, now),
    )


def _weightiest(unmet: Sequence[Question]) -> Question | None:
    """What a person must do comes before what time does, the latest first, and that before the ends of other runs."""
    people = [one for one in unmet if one.name in (FROZEN, SUSPENDED)]
    timed = [(one.verdict.until, one) for one in unmet if isinstance(one.verdict, Wait) and one.verdict.until]
    if people:
        return people[0]
    if timed:
        return max(timed, key=lambda pair: pair[0])[1]
    return unmet[0] if unmet else None


def _earliest(candidate: Candidate, facts: AdmissionFacts, now: Instant) -> Instant | None:
    at = now
    for _ in range(_ROUNDS):
        waits = (one.verdict for one in questions(candidate, facts, at) if not one.skips)
        later = max((one.until for one in waits if isinstance(one, Wait) and one.until), default=at)
        if later <= at:
            break
        at = later
    return at if at > now else None
