"""What the in-memory store holds: its tables, and the indices that the engine's questions are answered from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.domain.admission import rank
from tidegate.domain.collected import Topic
from tidegate.domain.evidence import Owed
from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.domain.instants import DAY, Instant
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject
from tidegate.ports.records import Change, Freeze
from tidegate.ports.sinks import RefusedEvent, SinkRecord
from tidegate.ports.sources import SetAsideMessage, SourceRecord
from tidegate.ports.tables import CareRecord, Measured, PolicyRecord, Switch, TableRecord
from tidegate.sim.memory.event_rows import (
    ArrivalRow,
    DeadlineRow,
    ProgressRow,
    Reset,
    SetAsideRow,
    SubscriptionRow,
    TopicRow,
)
from tidegate.sim.memory.rows import (
    Answer,
    AttemptRow,
    BackfillItemRow,
    BackfillRow,
    CalendarRow,
    ClockRow,
    CounterRow,
    CursorRow,
    DatasetRow,
    DecisionRow,
    DocumentRow,
    Event,
    FaultRow,
    GaugeRow,
    InstanceRow,
    LeaseRow,
    PoolRow,
    PostponedRow,
    ProgramRow,
    QueueRow,
    RunRow,
    ScheduleRow,
    StartRow,
    StatsRow,
    StretchRow,
)
from tidegate.sim.memory.tables import Database, Ordered, Table, Transaction

WAITING, READY = State.WAITING, State.READY
ASKED_FOR = (Cause.BACKFILL, Cause.RERUN)
FLYING = (State.STARTING, State.RUNNING, State.STOPPING)


class Data(Database):
    """Every table and index. The numbers of sequences do not roll back, as in PostgreSQL."""

    def __init__(self, time: Callable[[], Instant]) -> None:
        super().__init__()
        self.time = time
        self.instance: Table[int, InstanceRow] = self.table("instance")
        self.lease: Table[str, LeaseRow] = self.table("lease")
        self.namespace: Table[str, DocumentRow] = self.table("namespace")
        self.application: Table[tuple[str, str], DocumentRow] = self.table("application")
        self.pool: Table[str, PoolRow] = self.table("pool")
        self.program: Table[int, ProgramRow] = self.table("program")
        self.program_name: Table[tuple[str, str], int] = self.table("program_name")
        self.schedule: Table[int, ScheduleRow] = self.table("schedule")
        self.schedule_name: Table[tuple[str, str], int] = self.table("schedule_name")
        self.clock: Table[int, ClockRow] = self.table("clock", self._clock_changed)
        self.run: Table[RunKey, RunRow] = self.table("run", self._run_changed)
        self.stretch: Table[tuple[int, Instant], StretchRow] = self.table("fire_range")
        self.attempt: Table[AttemptKey, AttemptRow] = self.table("attempt", self._attempt_changed)
        self.counter: Table[str, CounterRow] = self.table("limit_counter")
        self.queue_wake: Table[str, QueueRow] = self.table("queue_wake", self._queue_changed)
        self.start_log: Table[tuple[str, RunKey], StartRow] = self.table("start_log", self._start_changed)
        self.calendar: Table[str, CalendarRow] = self.table("calendar")
        self.frozen: Table[str, Freeze] = self.table("freeze")  # one row, under ""
        self.gauge: Table[str, GaugeRow] = self.table("gauge")
        self.stats: Table[int, StatsRow] = self.table("schedule_stats")
        self.pausing: Table[int, str] = self.table("pausing")  # schedule -> why
        self.idempotency: Table[str, Answer] = self.table("idempotency")
        self.dataset: Table[str, DatasetRow] = self.table("dataset")
        self.sink: Table[str, SinkRecord] = self.table("sink")
        self.sink_refusal: Table[tuple[str, int], RefusedEvent] = self.table("sink_refusal")
        self.source: Table[str, SourceRecord] = self.table("source")
        self.source_misfit: Table[tuple[str, int], SetAsideMessage] = self.table("source_misfit")
        self.dataset_cursor: Table[str, CursorRow] = self.table("dataset_cursor")
        self.catalog_fault: Table[str, FaultRow] = self.table("catalog_fault")
        self.maintenance_off: Table[str, Switch] = self.table("maintenance_off")  # one row, under ""
        self.policy: Table[str, PolicyRecord] = self.table("policy")  # no document: deleted
        self.policy_revision: Table[tuple[str, int], PolicyRecord] = self.table("policy_revision")
        self.lake_table: Table[str, TableRecord] = self.table("lake_table")
        self.table_health: Table[tuple[str, Instant], Measured] = self.table("table_health")
        self.table_care: Table[tuple[str, str], tuple[int, JsonObject]] = self.table("table_care")
        self.maintenance: Table[RunKey, CareRecord] = self.table("maintenance")
        self.topic: Table[int, TopicRow] = self.table("event_key")
        self.subscription: Table[tuple[int, int, int], SubscriptionRow] = self.table(
            "subscription", self._subscription_changed
        )
        self.inbox: Table[int, int] = self.table("event_inbox")  # position -> topic
        self.dedup: Table[tuple[str, str], tuple[str, int]] = self.table("event_dedup")
        self.progress: Table[int, ProgressRow] = self.table("progress")
        self.deadline: Table[int, DeadlineRow] = self.table("deadline", self._deadline_changed)
        self.owed: Table[tuple[int, str], Owed] = self.table("owed")
        self.set_aside: Table[int, SetAsideRow] = self.table("set_aside")
        self.backfill: Table[int, BackfillRow] = self.table("backfill")
        self.backfill_item: Table[tuple[int, Instant], BackfillItemRow] = self.table(
            "backfill_item", self._backfill_item_changed
        )
        self.items_of: dict[int, dict[tuple[int, Instant], None]] = {}  # backfill -> its items
        self.asked_runs: dict[int, dict[RunKey, None]] = {}  # schedule -> runs asked for that stand for a fire time
        self.backfill_ids = 0
        self.arrivals: dict[int, list[ArrivalRow]] = {}  # topic -> its log; number n is at n - 1
        self.topic_ids: dict[Topic, int] = {}
        self.topics_of: dict[str, dict[str | None, list[int]]] = {}  # type -> key -> topics
        self.subscriptions_of: dict[int, dict[tuple[int, int, int], None]] = {}  # schedule -> its rows
        self.subscribers: dict[int, dict[tuple[int, int, int], None]] = {}  # topic -> rows
        self.deadlines: Ordered[tuple[Instant, int]] = Ordered()
        self.resets: list[Reset] = []
        self.server = 1  # which one this is: another takes over as the next
        self.event_pos = 0
        self.drawing: dict[Transaction, int] = {}  # open transactions that drew positions, and the first of each
        self.inbox_pos = 0
        self.set_aside_ids = 0
        self.misfit_ids = 0
        self.events: list[Event] = []
        self.changes: list[Change] = []
        self.decisions: list[DecisionRow] = []
        self.postponed: list[PostponedRow] = []
        # indices
        self.looked: dict[RunKey, list[Instant]] = {}  # when somebody began to judge a run, also in vain: for a law
        self.born: Callable[[RunKey], None] | None = None  # told of each run when it is committed
        self.due: Ordered[tuple[Instant, int]] = Ordered()
        self.wake: Ordered[tuple[Instant, RunKey]] = Ordered()
        self.expiry: Ordered[tuple[Instant, RunKey]] = Ordered()
        self.terms: Ordered[tuple[Instant, RunKey]] = Ordered()  # when deadlines of live runs are to be looked at
        self.queues: dict[str, Ordered[tuple[int, RunKey]]] = {}  # wake_key -> (rank, run)
        self.queue_due: Ordered[tuple[Instant, str]] = Ordered()
        self.starts_of: dict[str, dict[RunKey, None]] = {}  # counter -> runs of its start_log
        self.counters_of: dict[RunKey, dict[str, None]] = {}  # run -> counters in whose start_log it is
        self.ready: dict[str, Ordered[tuple[int, RunKey]]] = {}  # kind -> (rank, run)
        self.days: dict[int, dict[RunKey, None]] = {}  # day of the slot -> its runs
        self.live: dict[RunKey, None] = {}
        self.live_of: dict[int, dict[RunKey, None]] = {}
        self.open: dict[AttemptKey, None] = {}
        self.open_of: dict[int, dict[AttemptKey, None]] = {}  # instance -> its open attempts
        self.stops: dict[RunKey, None] = {}
        self.clocks_of_program: dict[int, dict[int, None]] = {}
        self.here: dict[int, None] = {}  # instances that have not ended
        # what is no row
        self.sharers: dict[int, dict[Transaction, None]] = {}  # instance -> transactions that share its row
        self.reports: dict[int, tuple[Instant, JsonObject]] = {}  # what instances count
        self.sessions: dict[int, None] = {}  # instances whose session lock is held
        self.told_of_end: Callable[[int], None] = lambda _: None  # which instance hears that another's session ended
        self.instance_ids = 0
        self.schedule_ids = 0
        self.program_ids = 0
        self.fencing_token = 0
        self.change_ids = 0
        self.table_versions = 0
        self.care_versions = 0

    def _clock_changed(self, old: ClockRow | None, new: ClockRow | None) -> None:
        before = old.next_due if old else None
        after = new.next_due if new else None
        if before != after:
            if old is not None and before is not None:
                self.due.discard((before, old.schedule_id))
            if new is not None and after is not None:
                self.due.add((after, new.schedule_id))
        if new is not None and (old is None or old.program_id != new.program_id):
            if old is not None:
                del self.clocks_of_program[old.program_id][old.schedule_id]
            self.clocks_of_program.setdefault(new.program_id, {})[new.schedule_id] = None

    def _run_changed(self, old: RunRow | None, new: RunRow | None) -> None:
        before = None if old is None else old.deadline_at
        after = None if new is None else new.deadline_at
        if before != after:
            if old is not None and before is not None:
                self.terms.discard((before, old.key))
            if new is not None and after is not None:
                self.terms.add((after, new.key))
        if old is not None and new is not None and old.state in FLYING and new.state in FLYING:
            if new.stop is not None:
                self.stops[new.key] = None
            return
        if old is not None:
            if old.state is WAITING:
                self._forget_waiting(old)
            elif old.state is READY:
                self.ready[old.program.kind].discard((rank(old.priority, old.created_at), old.key))
        if new is None:
            if old is not None:
                self._forget_live(old.key)
            return
        if new.state is WAITING:
            if new.wake_at is not None:
                self.wake.add((new.wake_at, new.key))
            if new.expires_at is not None and not new.overdue:
                self.expiry.add((new.expires_at, new.key))
            if new.wake_key is not None:
                queue = self.queues.get(new.wake_key)
                if queue is None:
                    queue = self.queues[new.wake_key] = Ordered()
                queue.add((rank(new.priority, new.created_at), new.key))
        elif new.state is READY:
            ready = self.ready.get(new.program.kind)
            if ready is None:
                ready = self.ready[new.program.kind] = Ordered()
            ready.add((rank(new.priority, new.created_at), new.key))
        if old is None:
            if self.born is not None:
                self.born(new.key)
            day = new.key.slot // DAY
            runs = self.days.get(day)
            if runs is None:
                runs = self.days[day] = {}
            runs[new.key] = None
            if new.cause in ASKED_FOR and new.fire_time is not None:
                self.asked_runs.setdefault(new.key.schedule_id, {})[new.key] = None
            if new.live:
                self.live[new.key] = None
                mine = self.live_of.get(new.key.schedule_id)
                if mine is None:
                    mine = self.live_of[new.key.schedule_id] = {}
                mine[new.key] = None
        elif new.finished_at is not None and old.finished_at is None:
            self._forget_live(new.key)
        if new.stop is not None and new.finished_at is None:
            self.stops[new.key] = None
        elif old is not None and old.stop is not None:
            self.stops.pop(new.key, None)

    def _backfill_item_changed(self, old: BackfillItemRow | None, new: BackfillItemRow | None) -> None:
        if old is not None:
            _drop(self.items_of, old.backfill, (old.schedule_id, old.fire_time))
        if new is not None:
            self.items_of.setdefault(new.backfill, {})[new.schedule_id, new.fire_time] = None

    def _queue_changed(self, old: QueueRow | None, new: QueueRow | None) -> None:
        if old is not None:
            self.queue_due.discard((old.at, old.key))
        if new is not None:
            self.queue_due.add((new.at, new.key))

    def _start_changed(self, old: StartRow | None, new: StartRow | None) -> None:
        if old is None and new is not None:
            self.starts_of.setdefault(new.counter, {})[new.run] = None
            self.counters_of.setdefault(new.run, {})[new.counter] = None
        elif old is not None and new is None:
            _drop(self.starts_of, old.counter, old.run)
            _drop(self.counters_of, old.run, old.counter)

    def _subscription_changed(self, old: SubscriptionRow | None, new: SubscriptionRow | None) -> None:
        row = new or old
        if row is None or (old is None) is (new is None):
            return
        for index, at in ((self.subscriptions_of, row.place[0]), (self.subscribers, row.place[2])):
            if new is not None:
                index.setdefault(at, {})[row.place] = None
            else:
                del index[at][row.place]

    def _deadline_changed(self, old: DeadlineRow | None, new: DeadlineRow | None) -> None:
        if old is not None and old.deadlines:
            self.deadlines.discard((old.deadlines[0].at, old.schedule_id))
        if new is not None and new.deadlines:
            self.deadlines.add((new.deadlines[0].at, new.schedule_id))

    def topic_of(self, topic: Topic) -> int:
        """Its number; made when nobody listened to it before, and never unmade: as if in a transaction of its own."""
        found = self.topic_ids.get(topic)
        if found is None:
            found = self.topic_ids[topic] = len(self.topic_ids) + 1
            self.topic.rows[found] = TopicRow(found, topic)
            self.arrivals[found] = []
            self.topics_of.setdefault(topic.type, {}).setdefault(topic.key, []).append(found)
        return found

    def _forget_waiting(self, old: RunRow) -> None:
        if old.wake_at is not None:
            self.wake.discard((old.wake_at, old.key))
        if old.expires_at is not None and not old.overdue:
            self.expiry.discard((old.expires_at, old.key))
        if old.wake_key is not None:
            queue = self.queues[old.wake_key]
            queue.discard((rank(old.priority, old.created_at), old.key))
            if not queue.keys:
                del self.queues[old.wake_key]

    def _forget_live(self, key: RunKey) -> None:
        if key in self.live:
            del self.live[key]
            mine = self.live_of[key.schedule_id]
            del mine[key]
            if not mine:
                del self.live_of[key.schedule_id]

    def forget_asked(self, run: RunRow) -> None:
        """A run is past retention."""
        if run.cause in ASKED_FOR:
            self.asked_runs.get(run.key.schedule_id, {}).pop(run.key, None)

    def _attempt_changed(self, old: AttemptRow | None, new: AttemptRow | None) -> None:
        if old is not None and old.finished_at is None:
            del self.open[old.key]
            del self.open_of[old.instance_id][old.key]
        if new is not None and new.finished_at is None:
            self.open[new.key] = None
            mine = self.open_of.get(new.instance_id)
            if mine is None:
                mine = self.open_of[new.instance_id] = {}
            mine[new.key] = None

    # what several parts ask
    def schedule_id(self, namespace: str, name: str) -> ScheduleId | None:
        found = self.schedule_name.rows.get((namespace, name))
        return None if found is None else ScheduleId(found)

    def earliest(self, index: Ordered[Any]) -> Instant | None:
        """The instant of the first entry of an index of (instant, key)."""
        return index.keys[0][0] if index.keys else None


def _drop(index: dict[Any, dict[Any, None]], at: Any, what: Any) -> None:
    """Take one entry out of an index of sets; an empty set goes."""
    del index[at][what]
    if not index[at]:
        del index[at]
