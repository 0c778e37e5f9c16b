"""The timekeeper's side: clocks that are due, and what became of their fires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from tidegate.domain.clocks import Due, Gap
from tidegate.domain.fires import after_finish_due
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.planning import Fire, Plan, Stretch
from tidegate.domain.schedules import Revision, Waiting
from tidegate.domain.triggers import AfterFinish
from tidegate.domain.waiting import policy_under, why_joined
from tidegate.store.arrays import Ints, Texts
from tidegate.store.connection import Cursor
from tidegate.store.deadlines import first_looks
from tidegate.store.partitions import day_of
from tidegate.store.sql import load
from tidegate.store.transactions import FencedTx, Parts, Tx
from tidegate.store.waiting import make_room

Q = load("clocks")
COLLECTING = load("collecting")


class ClocksTx(FencedTx):
    """See `ports.engine.TimekeeperTx`."""

    async def claim_due(self, now: Instant, limit: int) -> Sequence[Due]:
        floor = self.parts.due.look(now)
        rows = await self.fetch(Q.claim_due, floor=floor, now=now, limit=limit)
        if not rows:
            return []
        learn = self.parts.definitions
        span = [
            (row[0], row[2]) for row in rows
        ]  # and where an older revision is not done with, that one and all since
        span += [(row[0], rev) for row in rows if row[3] < row[2] for rev in range(row[3], row[2])]
        revisions = await learn.revisions(self.session, span)
        programs = await learn.programs(self.session, {(row[1], row[9]) for row in rows})
        names = await learn.names(self.session, [row[0] for row in rows])
        found = []
        for schedule, program, rev, cursor_rev, cursor, next_due, last_fire, gap_to, gap_left, program_rev in rows:
            ruling: tuple[Revision, ...] = (revisions[schedule, rev],)
            if cursor_rev < rev:
                ruling = tuple(revisions[schedule, one] for one in range(cursor_rev, rev + 1))
            name = "/".join(names[schedule])
            gap = None if gap_to is None else Gap(to=gap_to, left=gap_left or 0)
            found.append(Due(schedule, name, ruling, programs[program, program_rev], cursor, next_due, last_fire, gap))
        return found

    async def record(self, plans: Sequence[Plan], now: Instant) -> None:
        if not plans:
            return
        plans = sorted(plans, key=lambda plan: plan.due.schedule_id)
        fires = [(fire.fire_time, plan.due, fire) for plan in plans for fire in plan.fires]
        fires.sort(key=_fire_time)  # stable: by schedule within one instant
        await self.ready_for(now, {fire_time for fire_time, _, _ in fires})
        if fires:
            lone, joining = await self._joining(fires)
            if lone:
                await self._record_fires(lone, now)
            if joining:
                await self._record_joined(joining, now)
            await make_room(self, {due.schedule_id: policy_under(due.revisions[-1]) for _, due, _ in lone}, now)
        await record_stretches(self, [(plan.due.schedule_id, one) for plan in plans for one in plan.missed], now)
        dues, _, _, cursors, cursor_revs, next_dues, last_fires, gaps, _ = zip(*plans, strict=True)
        await self.session.send(
            Q.advance,
            schedules=Ints(due.schedule_id for due in dues),
            cursors=Ints(cursors),
            cursor_revs=Ints(cursor_revs),
            next_dues=Ints(next_dues),
            last_fires=Ints(last_fires),
            gap_tos=Ints(gap.to if gap else None for gap in gaps),
            gap_lefts=Ints(gap.left if gap else None for gap in gaps),
        )
        earliest = min((at for at in next_dues if at is not None), default=None)
        if earliest is not None:
            self.parts.due.lower(earliest)

    async def _record_fires(self, fires: Sequence[tuple[Instant, Due, Fire]], now: Instant) -> None:
        slots, dues, made = zip(*fires, strict=True)
        newest = [due.revisions[-1] for due in dues]
        timeouts = [revision.spec.waiting.timeout for revision in newest]
        programs = {id(due.program): due.program for due in dues}  # few are distinct
        kinds = {which: program.kind for which, program in programs.items()}
        pools = {which: program.pool for which, program in programs.items()}
        of = [id(due.program) for due in dues]
        await self.session.send(
            Q.record_fires,
            slots=Ints(slots),
            schedules=Ints(due.schedule_id for due in dues),
            revs=Ints(revision.rev for revision in newest),
            programs=Ints(due.program.id for due in dues),
            previous=Ints(fire.previous_fire for fire in made),
            priorities=Ints(revision.spec.priority for revision in newest),
            expires=Ints(None if timeout is None else now + timeout for timeout in timeouts),
            kinds=Texts(map(kinds.__getitem__, of)),
            pools=Texts(map(pools.__getitem__, of)),
            **first_looks((revision.spec.deadline, slot) for revision, slot in zip(newest, slots, strict=True)),
            now=now,
            day=day_of(now),
        )
        self.parts.wake.lower(now)
        self.tell("admit")

    async def _joining(
        self, fires: Sequence[tuple[Instant, Due, Fire]]
    ) -> tuple[Sequence[tuple[Instant, Due, Fire]], list[tuple[Instant, Due, Fire, RunKey]]]:
        """Fires that become runs of their own, and those that join a run which waits (`waiting: merge`)."""
        merging = {due.schedule_id for _, due, _ in fires if policy_under(due.revisions[-1]).runs is Waiting.MERGE}
        if not merging:
            return fires, []
        rows = await self.fetch(COLLECTING.survivors, schedules=Ints(sorted(merging)))
        into = {row[1]: RunKey(row[0], ScheduleId(row[1]), row[2]) for row in rows}
        lone: list[tuple[Instant, Due, Fire]] = []
        joining: list[tuple[Instant, Due, Fire, RunKey]] = []
        for slot, due, fire in fires:
            key = into.get(due.schedule_id)
            if due.schedule_id not in merging or key is None or key.slot == slot:
                lone.append((slot, due, fire))
                into[due.schedule_id] = RunKey(slot, due.schedule_id, 0)
            else:
                joining.append((slot, due, fire, key))
        return lone, joining

    async def _record_joined(self, fires: Sequence[tuple[Instant, Due, Fire, RunKey]], now: Instant) -> None:
        """Each has a row of its own that names the older run, and never lives."""
        await self.session.send(
            COLLECTING.merged,
            slots=Ints(slot for slot, *_ in fires),
            schedules=Ints(due.schedule_id for _, due, *_ in fires),
            revs=Ints(due.revisions[-1].rev for _, due, *_ in fires),
            programs=Ints(due.program.id for _, due, *_ in fires),
            previous=Ints(fire.previous_fire for _, _, fire, _ in fires),
            priorities=Ints(due.revisions[-1].spec.priority for _, due, *_ in fires),
            reasons=Texts(why_joined(due.revisions[-1], key) for _, due, _, key in fires),
            intos=Texts(str(key) for *_, key in fires),
            now=now,
            day=day_of(now),
        )


_fire_time = itemgetter(0)


async def record_stretches(tx: Tx, stretches: Sequence[tuple[int, Stretch]], now: Instant) -> None:
    """Stretches of fires that do not run, as one ledger row and one event each."""
    if not stretches:
        return
    await tx.ready_for(now)
    await tx.session.send(
        Q.record_stretches,
        schedules=Ints(schedule for schedule, _ in stretches),
        froms=Ints(one.from_fire for _, one in stretches),
        tos=Ints(one.to_fire for _, one in stretches),
        revs=Ints(one.rev for _, one in stretches),
        counts=Ints(one.n for _, one in stretches),
        outcomes=Texts(one.outcome.value for _, one in stretches),
        reasons=Texts(one.reason for _, one in stretches),
        now=now,
        day=day_of(now),
    )


async def lock_after_finish(tx: Tx, schedules: Iterable[int]) -> Cursor:
    """Lock the clocks that begin to count when a run of these schedules ends. Answered by `set_after_finish`."""
    return await tx.session.send(Q.lock_after_finish, schedules=Ints(sorted(set(schedules))))


async def set_after_finish(tx: Tx, locked: Cursor, ended: Mapping[int, Instant]) -> None:
    """Start the clocks that count from a run's end: schedule -> when its last run ended. Such trees are looked at."""
    if ended:
        tx.tell("events", if_rows=await tx.session.send(COLLECTING.tell_ends, schedules=Ints(sorted(ended))))
    rows = [row for row in await locked.fetchall() if row[0] in ended]
    if not rows:
        return
    revisions = await tx.parts.definitions.revisions(tx.session, {(row[0], row[1]) for row in rows})
    names = await tx.parts.definitions.names(tx.session, [row[0] for row in rows])
    fires: dict[int, Instant] = {}
    for schedule, rev, cursor in rows:
        trigger = revisions[schedule, rev].spec.trigger
        if isinstance(trigger, AfterFinish):
            at = after_finish_due(trigger, max(ended[schedule], cursor + 1), name="/".join(names[schedule]))
            if at is not None:
                fires[schedule] = at
    if fires:
        sent = await tx.session.send(Q.set_after_finish, schedules=Ints(fires), ats=Ints(fires.values()))
        tx.tell("clock", if_rows=sent)
        tx.parts.due.lower(min(fires.values()))


async def next_due(parts: Parts) -> Instant | None:
    """The earliest due instant of all clocks; also raises the floor to just below it."""
    row = await parts.database.row(Q.next_due, floor=parts.due.look())
    parts.due.rise(row[0] if row else None)
    return row[0] if row else None
