"""The timekeeper's transaction: clocks that are due, and what was decided about their fires."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.clocks import Due, Gap
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.planning import Plan, Stretch
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Waiting
from tidegate.domain.waiting import policy_under, why_joined
from tidegate.sim.memory.deadlines import watch_deadline
from tidegate.sim.memory.engine import EngineTransaction, RunTransaction
from tidegate.sim.memory.rows import ClockRow, PostponedRow, RunRow, StretchRow
from tidegate.sim.memory.waiting import WaitingTransaction


class TimekeeperTransaction(EngineTransaction, WaitingTransaction):
    __slots__ = ()

    async def claim_due(self, now: Instant, limit: int) -> Sequence[Due]:
        self.check()
        data = self.data
        found: list[Due] = []
        for at, schedule_id in data.due.keys:
            if at > now or len(found) >= limit:
                break
            if self.try_lock(data.clock, schedule_id):
                clock = self.get(data.clock, schedule_id)
                if clock is not None and clock.next_due is not None and clock.next_due <= now:
                    found.append(self._due(clock))
        return found

    def _due(self, clock: ClockRow) -> Due:
        schedule = self.get(self.data.schedule, clock.schedule_id)
        assert schedule is not None and clock.next_due is not None
        return Due(
            schedule_id=clock.schedule_id,
            name=schedule.name,
            revisions=tuple(
                [written.revision for written in schedule.revisions if written.revision.rev >= clock.cursor_rev]
            ),
            program=program_of(self, clock),
            cursor=clock.cursor,
            next_due=clock.next_due,
            last_fire=clock.last_fire,
            gap=None if clock.gap_to is None else Gap(to=clock.gap_to, left=clock.gap_left or 0),
        )

    async def record(self, plans: Sequence[Plan], now: Instant) -> None:
        self.check()
        data = self.data
        for plan in plans:
            schedule_id = plan.due.schedule_id
            newest = plan.due.revisions[-1]
            program = plan.due.program
            for fire in plan.fires:
                key = RunKey(fire.fire_time, schedule_id, 0)
                if not self.try_lock(data.run, key):
                    await self.lock(data.run, key)
                if self.get(data.run, key) is None:
                    spec = newest.spec
                    run = RunRow(
                        key, newest.rev, program, Cause.FIRE, "", fire.fire_time, fire.previous_fire,
                        spec.priority, now,
                    )  # fmt: skip
                    policy = policy_under(newest)
                    runs = policy.runs
                    older = await self.survivor(schedule_id) if runs is Waiting.MERGE else None
                    if older is not None:
                        merge(run, older, why_joined(newest, older.key), now)
                        self.put(data.run, key, run)
                        self.tell(now, "run.merged", key)
                        continue
                    if spec.waiting.timeout is not None:
                        run.expires_at = now + spec.waiting.timeout
                    watch_deadline(run, spec, fire.fire_time)
                    self.put(data.run, key, run)
                    self.tell(now, "run.waiting", key)
                    self.topics["admit"] = None
                    if runs is Waiting.LATEST or len(data.live_of.get(schedule_id, ())) >= spec.waiting.max:
                        await self.make_room(run, policy, now)
            for stretch in plan.missed:
                place = (schedule_id, stretch.from_fire)
                if not self.try_lock(data.stretch, place):
                    await self.lock(data.stretch, place)
                if self.get(data.stretch, place) is None:
                    self.put(data.stretch, place, stretch_row(schedule_id, stretch, now))
                    self.tell(now, f"run.{stretch.outcome}", None, schedule_id)
            clock = self.edit(data.clock, schedule_id)
            clock.cursor = plan.cursor
            clock.cursor_rev = plan.cursor_rev
            clock.next_due = plan.next_due
            clock.last_fire = plan.last_fire
            clock.gap_to = None if plan.gap is None else plan.gap.to
            if plan.gap is not None:
                self.append(data.postponed, PostponedRow(schedule_id, plan.gap.to, now))
            clock.gap_left = None if plan.gap is None else plan.gap.left
        await self.wake_others(now)


def merge(run: RunRow, survivor: RunRow, why: str, now: Instant) -> None:
    """This fire has a row of its own that names the older waiting run, and never lives."""
    run.state = State.MERGED
    run.merged_into = str(survivor.key)
    run.reason = why
    run.finished_at = now
    run.wake_at = None


def stretch_row(schedule_id: ScheduleId, stretch: Stretch, now: Instant) -> StretchRow:
    return StretchRow(
        schedule_id, stretch.from_fire, stretch.to_fire, stretch.rev, stretch.n, stretch.outcome, stretch.reason, now
    )


def program_of(tx: RunTransaction, clock: ClockRow) -> ProgramRef:
    """The newest revision of a schedule's program."""
    program = tx.get(tx.data.program, clock.program_id)
    assert program is not None
    return program.ref
