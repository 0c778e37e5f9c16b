"""What happened, as laws see it: values only, with nothing of how the store keeps them.

Three witnesses are put side by side: what is declared (revisions), what is on record (runs, stretches, counters,
statistics), and what really ran (executions, as the backend saw them). `observe` takes the testimony.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tidegate.domain.backfills import Asked, BackfillState, Counts
from tidegate.domain.calendars import Calendar
from tidegate.domain.collected import Deadline, Topic
from tidegate.domain.constraints import Gauge
from tidegate.domain.evidence import Owed
from tidegate.domain.ids import AttemptKey, RunKey
from tidegate.domain.instants import Duration, Instant, format_instant
from tidegate.domain.runs import LIVE, Cause, State
from tidegate.domain.schedules import JsonObject, Mode, Revision
from tidegate.domain.triggers import Trigger
from tidegate.ports.collecting import Collecting, NewEvent, Receipt
from tidegate.sim.backend import Execution
from tidegate.sim.memory.collect import read_collecting
from tidegate.sim.memory.event_rows import ArrivalRow, Reset, SubscriptionRow
from tidegate.sim.memory.rows import DecisionRow, PostponedRow
from tidegate.sim.sink_facts import SinkFact, sink_facts

if TYPE_CHECKING:
    from tidegate.sim.world import Simulation


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that does not hold, and where."""

    law: str
    what: str

    def __str__(self) -> str:
        return f"{self.law}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFact:
    id: int
    name: str  # namespace/name
    program_id: int
    created_at: Instant
    deleted_at: Instant | None
    revisions: tuple[Revision, ...]
    cursor: Instant
    next_due: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFact:
    key: AttemptKey
    outcome: str | None
    code: str
    fence: int
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFact:
    key: RunKey
    cause: Cause
    state: State
    reason: str
    fire_time: Instant | None
    priority: int
    created_at: Instant
    ready_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    wake_at: Instant | None
    wake_key: str | None
    wake_limit: int | None
    held: tuple[str, ...]
    slot_held: bool
    pool: str
    borrower: str | None
    program_id: int
    stop: str | None
    attempts: tuple[AttemptFact, ...]
    rev: int  # when its input was closed; before that when it was made
    again: str | None  # of a rerun: the run that it repeats
    evidence: JsonObject | None
    inputs: Mapping[str, JsonObject] | None
    moved: bool
    by: str = ""  # who or what asked

    @property
    def live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillFact:
    id: int
    schedule_id: int
    trigger: Trigger
    asked: Asked
    state: BackfillState
    total: int
    counts: Counts
    in_hand: int
    finished_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchFact:
    schedule_id: int
    first: Instant
    last: Instant
    n: int
    outcome: State
    decided_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFact:
    name: str
    slots: int
    used: int
    borrow: tuple[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsFact:
    total_runs: int
    total_successes: int
    total_failures: int
    total_crashes: int
    total_timeouts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFact:
    """A schedule that collects or did. `collecting`: its tree with everything that came for it up to the end; None
    where it does not collect any more. Places are (node, topic)."""

    schedule_id: int
    name: str
    collecting: Collecting | None
    deadlines: tuple[Deadline, ...]  # stored
    places: Mapping[tuple[int, int], SubscriptionRow]
    resets: tuple[Reset, ...]  # ascending; the last is in force
    owed: Mapping[str, Owed]
    set_aside: bool
    modes: frozenset[Mode]  # of its revisions since the last reset


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Live runs at one instant: what has not moved between two of them is looked at by `nothing_stuck`."""

    at: Instant
    runs: Mapping[RunKey, RunFact]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The whole testimony. `begin` to `end`; no faults from `calm_since` on."""

    seed: int
    begin: Instant
    end: Instant
    calm_since: Instant | None
    schedules: tuple[ScheduleFact, ...]
    runs: tuple[RunFact, ...]
    stretches: tuple[StretchFact, ...]
    backfills: tuple[BackfillFact, ...]
    executions: tuple[Execution, ...]
    counters: Mapping[str, int]
    pools: tuple[PoolFact, ...]
    most_slots: Mapping[str, int]  # of each pool, the most it ever had
    most_borrowed: Mapping[str, int]  # of each pool, the most it might ever borrow
    stats: Mapping[int, StatsFact]
    events: tuple[tuple[Instant, str, RunKey | None], ...]
    writes: tuple[tuple[str, int, int], ...]  # in order: ("wrote" or "retired", instance, epoch)
    grants: tuple[tuple[str, int, int, Instant, Instant], ...]  # duty, token, instance, from, until
    resyncs: tuple[tuple[int, Instant, tuple[Any, ...]], ...]  # token, when, drifts
    cancels: tuple[tuple[RunKey, Instant], ...]  # runs that people cancelled, and when they were answered
    snapshots: tuple[Snapshot, ...]
    queues: Mapping[str, Instant]  # the instants of queues that have one
    decisions: tuple[DecisionRow, ...]  # of admitters, in the order of their commits
    postponed: tuple[PostponedRow, ...]
    freezes: tuple[tuple[Instant, bool], ...]  # from when on everything was frozen, or not
    calendars: tuple[tuple[Instant, str, Calendar | None], ...]  # as they were put and deleted
    readings: tuple[tuple[Instant, str, Gauge], ...]  # as they were recorded
    trees: tuple[TreeFact, ...]
    topics: Mapping[int, tuple[ArrivalRow, ...]]  # the log of each topic
    topic_names: Mapping[int, Topic]
    published: tuple[tuple[NewEvent, Receipt], ...]  # what publishers were told
    logged: Mapping[int, tuple[str, str | None]]  # position -> source and id of events that somebody published
    schedulers: tuple[tuple[int, Instant, Instant | None], ...]  # instance, up since, until
    crash_wait: Duration
    faults: tuple[str, ...]  # what parts raised that they should not
    injected: Mapping[str, int]
    log: tuple[tuple[int, Instant, str], ...] = ()
    """Every event: its position, when, and its type."""
    sinks: tuple[SinkFact, ...] = ()
    looked: Mapping[RunKey, Sequence[Instant]] = field(default_factory=dict)
    """When each run began to be judged, also by who died over it."""
    appeared: Mapping[RunKey, Instant] = field(default_factory=dict)
    """When each run was committed."""
    losses: tuple[tuple[Instant, Instant], ...] = ()
    """What was committed after the one and before the other was lost when a standby took over."""
    deadlocks: int = 0
    """How often transactions waited for each other and one of them had to try again: a nuisance, not a fault."""
    digest: str = field(default="")


def observe(sim: Simulation, snapshots: tuple[Snapshot, ...] = ()) -> History:
    """Everything there is to know about a simulation now."""
    data = sim.store.data
    runs = tuple(run_fact(sim, key) for key in sorted(data.run.rows))
    stretches = tuple(
        StretchFact(
            schedule_id=row.schedule_id,
            first=row.from_fire,
            last=row.to_fire,
            n=row.n,
            outcome=row.outcome,
            decided_at=row.decided_at,
        )
        for _, row in sorted(data.stretch.rows.items())
    )
    history = History(
        seed=sim.seed,
        begin=sim.begin,
        end=sim.clock.instant,
        calm_since=sim.calm_since,
        schedules=_schedules(sim),
        runs=runs,
        stretches=stretches,
        backfills=_backfills(sim),
        executions=tuple(sim.backend.history),
        counters={key: row.held for key, row in sorted(data.counter.rows.items())},
        pools=tuple(
            PoolFact(name=row.name, slots=row.slots, used=row.used, borrow=row.borrow)
            for _, row in sorted(data.pool.rows.items())
        ),
        most_slots=dict(sim.most_slots),
        most_borrowed=dict(sim.most_borrowed),
        stats={
            number: StatsFact(
                total_runs=row.total_runs,
                total_successes=row.total_successes,
                total_failures=row.total_failures,
                total_crashes=row.total_crashes,
                total_timeouts=row.total_timeouts,
            )
            for number, row in sorted(data.stats.rows.items())
        },
        events=tuple((event.at, event.type, event.run) for event in data.events),
        writes=tuple(sim.writes),
        grants=tuple(sim.grants),
        resyncs=tuple(sim.resyncs),
        cancels=tuple(sim.cancels),
        snapshots=snapshots,
        queues=dict(sim.store.queue_instants()),
        decisions=tuple(data.decisions),
        postponed=tuple(data.postponed),
        freezes=tuple(sim.freezes),
        calendars=tuple(sim.calendars),
        readings=tuple(sim.readings),
        trees=_trees(sim),
        topics={number: tuple(log) for number, log in data.arrivals.items()},
        topic_names={number: topic for topic, number in data.topic_ids.items()},
        published=tuple(sim.published),
        logged={event.pos: (event.source, event.id) for event in data.events if event.run is None},
        schedulers=tuple(
            (row.id, row.up_since, row.ended_at)
            for _, row in sorted(data.instance.rows.items())
            if row.role in ("scheduler", "all")
        ),
        crash_wait=sim.pace.admitter.crash_wait,
        faults=tuple(sim.faults),
        injected=dict(sorted(sim.tally.counts.items())),
        log=tuple((event.pos, event.at, event.type) for event in data.events) if sim.targets else (),
        sinks=sink_facts(sim),
        looked=data.looked,
        appeared=sim.appeared,
        losses=tuple(sim.losses),
        deadlocks=data.deadlocks,
    )
    object.__setattr__(history, "digest", _digest(history))
    return history


def snapshot(sim: Simulation) -> Snapshot:
    return Snapshot(at=sim.clock.instant, runs={key: run_fact(sim, key) for key in sorted(sim.store.data.live)})


def run_fact(sim: Simulation, key: RunKey) -> RunFact:
    data = sim.store.data
    row = data.run.rows[key]
    attempts = []
    for number in range(1, row.attempts + 1):
        attempt = data.attempt.rows.get(AttemptKey(key, number))
        if attempt is not None:
            attempts.append(
                AttemptFact(
                    key=attempt.key,
                    outcome=attempt.outcome,
                    code=str((attempt.error or {}).get("code", "")),
                    fence=attempt.fence,
                    created_at=attempt.created_at,
                    started_at=attempt.started_at,
                    finished_at=attempt.finished_at,
                )
            )
    return RunFact(
        key=key,
        cause=row.cause,
        state=row.state,
        reason=row.reason,
        fire_time=row.fire_time,
        priority=row.priority,
        created_at=row.created_at,
        ready_at=row.ready_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        wake_at=row.wake_at,
        wake_key=row.wake_key,
        wake_limit=row.wake_limit,
        held=row.held,
        slot_held=row.slot_held,
        pool=row.pool,
        borrower=row.borrower,
        program_id=row.program.id,
        stop=row.stop,
        attempts=tuple(attempts),
        rev=row.input_rev or row.rev,
        again=row.caused_by if row.cause is Cause.RERUN else None,
        evidence=row.evidence,
        inputs=row.inputs,
        moved=row.moved,
        by=row.caused_by,
    )


def _schedules(sim: Simulation) -> tuple[ScheduleFact, ...]:
    data = sim.store.data
    return tuple(
        ScheduleFact(
            id=row.id,
            name=row.name,
            program_id=data.clock.rows[number].program_id,
            created_at=row.created_at,
            deleted_at=row.deleted_at,
            revisions=tuple(written.revision for written in row.revisions),
            cursor=data.clock.rows[number].cursor,
            next_due=data.clock.rows[number].next_due,
        )
        for number, row in sorted(data.schedule.rows.items())
    )


def _backfills(sim: Simulation) -> tuple[BackfillFact, ...]:
    data = sim.store.data
    return tuple(
        BackfillFact(
            id=number,
            schedule_id=row.schedule_id,
            trigger=data.schedule.rows[row.schedule_id].revisions[row.rev - 1].revision.spec.trigger,
            asked=row.asked,
            state=row.state,
            total=row.total,
            counts=row.counts,
            in_hand=len(data.items_of.get(number, ())),
            finished_at=row.finished_at,
        )
        for number, row in sorted(data.backfill.rows.items())
    )


def _trees(sim: Simulation) -> tuple[TreeFact, ...]:
    data = sim.store.data
    resets: dict[int, list[Reset]] = {}
    for reset in data.resets:
        resets.setdefault(reset.schedule_id, []).append(reset)
    found = []
    for number, made in sorted(resets.items()):
        keys = sorted(data.subscriptions_of.get(number, ()))
        read = read_collecting(data, lambda table, key: table.rows.get(key), keys, number, sim.clock.instant)
        stored = data.deadline.rows.get(number)
        found.append(
            TreeFact(
                schedule_id=number,
                name=data.schedule.rows[number].name,
                collecting=None if read is None else read[0],
                deadlines=stored.deadlines if stored else (),
                places={key[1:]: data.subscription.rows[key] for key in keys},
                resets=tuple(made),
                owed={place[1]: owed for place, owed in sorted(data.owed.rows.items()) if place[0] == number},
                set_aside=any(row.schedule_id == number for row in data.set_aside.rows.values()),
                modes=frozenset(
                    one.revision.mode
                    for one in data.schedule.rows[number].revisions
                    if one.revision.rev >= made[-1].rev
                ),
            )
        )
    return tuple(found)


def _digest(history: History) -> str:
    """A fingerprint of everything that happened, the same for the same seed wherever it runs."""
    digest = blake2b(digest_size=16)
    lines: list[object] = [history.injected, history.writes, history.grants, history.faults]
    lines += history.events
    lines += history.stretches
    lines += history.runs
    lines += [(one.attempt, one.fence, one.started_at, one.ended_at, one.outcome) for one in history.executions]
    for line in lines:
        digest.update(repr(line).encode())
    return digest.hexdigest()


def when(instant: Instant) -> str:
    return format_instant(instant)
