"""Known mistakes about gates, put back one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mistakes import Bug, _parts, _store

from tidegate.domain.admission import Admit, Candidate, Decision, Discard, Hold, subject_of
from tidegate.domain.constraints import AdmissionFacts, Met, Needs, Unmet, Window, judge
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import MINUTE, SECOND, Instant
from tidegate.domain.runs import Cause, State
from tidegate.domain.windows import is_open
from tidegate.engine.admitter import Admitter
from tidegate.sim.memory import MemoryTransaction
from tidegate.sim.memory.rows import RunRow, StartRow
from tidegate.sim.run import Scenario
from tidegate.sim.workload import Size


def _gated(change: Callable[[Scenario], Scenario], gates: float = 0.25) -> Callable[[Scenario], Scenario]:
    """People who declare every kind of gate."""

    def changed(scenario: Scenario) -> Scenario:
        size = Size(schedules=8, programs=4, every=15 * SECOND, gates=gates)
        return replace(change(scenario), size=size, span=6 * MINUTE, settle=MINUTE)

    return changed


class SkipsEarly(Admitter):
    """A `skip` is judged before what waits is met."""

    def _judge(self, candidates: Sequence[Candidate], facts: AdmissionFacts, now: Instant) -> list[Decision]:
        found = []
        for decision in super()._judge(candidates, facts, now):
            one = next(one for one in candidates if one.key == decision.key)
            skips = [limit for limit in one.spec.constraints if limit.unmet is Unmet.SKIP]
            obeys = one.cause is not Cause.MANUAL and not one.attempts
            if isinstance(decision, Hold) and obeys and not all(_met(limit, one, facts, now) for limit in skips):
                decision = Discard(key=one.key, outcome=State.SKIPPED, reason="")
            found.append(decision)
        return found


def _met(limit: Any, one: Candidate, facts: AdmissionFacts, now: Instant) -> bool:
    return isinstance(judge(limit, subject_of(one), facts, now), Met)


class WindowAtCreation(MemoryTransaction):
    """Whether the window is open is asked for the instant at which the run was made."""

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        return [_windowless(one) for one in await super().claim_waiting(now, limit)]


def _windowless(one: Candidate) -> Candidate:
    left = [it for it in one.spec.constraints if not (isinstance(it, Window) and is_open(it.span, one.created_at))]
    return replace(one, spec=replace(one.spec, constraints=tuple(left)))


class RateAtCreation(MemoryTransaction):
    """A start counts from when its run was made."""

    def first_attempt(self, run: RunRow, now: Instant) -> None:
        for counter in self.data.counters_of.get(run.key, ()):
            self.put(self.data.start_log, (counter, run.key), StartRow(counter, run.key, run.created_at))


class GroupsUncounted(MemoryTransaction):
    """Admission takes the counters of schedule and program only."""

    async def settle(self, verdicts: Any, now: Instant) -> None:
        taken = [
            one._replace(take=tuple(key for key in one.take if not key.startswith("g")))
            if isinstance(one, Admit)
            else one
            for one in verdicts
        ]
        await super().settle(taken, now)


class FreezeUnseen(MemoryTransaction):
    """The admitter does not look whether everything is frozen."""

    async def admission_facts(self, needs: Needs, now: Instant) -> AdmissionFacts:
        return replace(await super().admission_facts(needs, now), frozen=None)


class InstantsLost(MemoryTransaction):
    """Who is held again does not say until when."""

    def held_until(self, key: str, until: Instant | None, now: Instant) -> None:
        super().held_until(key, None, now)


class LastFirst(MemoryTransaction):
    """A free slot wakes who came last."""

    def queue_of(self, key: str) -> list[RunKey]:
        return list(reversed(super().queue_of(key)))


GATE_BUGS = (
    Bug(name="skips-early", laws=("gates_kept",), change=_gated(_parts(admitter=SkipsEarly))),
    Bug(name="window-at-creation", laws=("gates_kept",), change=_gated(_store(WindowAtCreation), 0.5)),
    Bug(name="rate-at-creation", laws=("rates_kept",), change=_gated(_store(RateAtCreation), 0.6)),
    Bug(name="groups-uncounted", laws=("limits_kept",), change=_gated(_store(GroupsUncounted))),
    Bug(name="freeze-unseen", laws=("gates_kept",), change=_gated(_store(FreezeUnseen))),
    Bug(name="instants-lost", laws=("nothing_stuck",), change=_gated(_store(InstantsLost))),
    Bug(name="last-first", laws=("order_kept",), change=_gated(_store(LastFirst), 0.02)),
)
