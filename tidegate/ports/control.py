"""What people's requests ask of a store: declarations, runs, the ledger. Used by `tidegate.control` only.

`store.changing()` is a transaction without a fence, since people do not own duties: entering begins, leaving commits.
What is locked stays locked until then (docs/explanation/locks.md). Lists answer newest first and take an opaque
position `before` to go on from; one that no answer ever gave raises Invalid. Any call raises Unavailable when the
database is away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import AdmissionFacts, Needs
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.planning import Stretch
from tidegate.domain.programs import ProgramRef, ProgramSpec
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import JsonObject, Mode, Revision, ScheduleSpec
from tidegate.ports.backfills import BackfillControlTx, BackfillReads
from tidegate.ports.collecting import EventControlTx, EventReads
from tidegate.ports.engine import Clock, Instance
from tidegate.ports.lake import DatasetReads, DatasetTx
from tidegate.ports.pausing import PausingTx
from tidegate.ports.records import (
    Book,
    Change,
    ClockState,
    Freeze,
    Metadata,
    PoolRecord,
    ProgramRecord,
    RunRecord,
    ScheduleRecord,
    Stats,
)
from tidegate.ports.sinks import SinkReads, SinkTx
from tidegate.ports.sources import SourceReads, SourceTx
from tidegate.ports.tables import TablesReads, TablesTx


class ControlTx(EventControlTx, DatasetTx, BackfillControlTx, SinkTx, SourceTx, TablesTx, PausingTx, Protocol):
    async def now(self) -> Instant:
        """The database's time at this very statement (not at the transaction's start)."""

    # namespaces, applications, pools
    async def ensure_namespace(self, name: str, now: Instant) -> bool:
        """Make it unless it is there; True when it is new."""

    async def put_namespace(self, name: str, document: JsonObject, now: Instant) -> bool:
        """Make it, or replace its document; True when it is new."""

    async def delete_namespace(self, name: str) -> bool:
        """False: there was none. Raises Conflict while something lives in it."""

    async def lock_application(self, namespace: str, name: str) -> JsonObject | None:
        """Its document; None: there is none. Serialises deployments of one application, also of one not yet there."""

    async def put_application(self, namespace: str, name: str, document: JsonObject, now: Instant) -> None:
        """Make it, or replace its document. Its name is locked."""

    async def delete_application(self, namespace: str, name: str) -> bool:
        """False: there was none. What belonged to it is left as it is."""

    async def put_pool(
        self, name: str, slots: int, rate: tuple[int, Duration, int] | None, borrow: tuple[str, int] | None = None
    ) -> bool:
        """`rate`: at most so many launches in such a span, with such a burst; None: no limit. `borrow`: of which pool,
        and how many slots at most; None: of none. Runs that wait for a slot are judged again. True when it is new."""

    async def delete_pool(self, name: str) -> bool:
        """False: there was none. Raises Conflict while a program names it or a run holds a slot of it."""

    # calendars and the freeze
    async def put_calendar(self, calendar: Calendar, document: JsonObject, now: Instant) -> bool:
        """Make it, or replace it; True when it is new. Runs that wait for it are judged again."""

    async def delete_calendar(self, name: str, now: Instant) -> bool:
        """False: there was none. Runs that name it wait, and say so."""

    async def freeze(self, who: str, reason: str, now: Instant) -> bool:
        """From the commit on nothing is admitted; False when it was so already (who and reason stay)."""

    async def unfreeze(self, now: Instant) -> bool:
        """What waited for it is judged again, first in rank first; False when nothing was frozen."""

    # programs
    async def lock_programs(self, namespace: str, names: Collection[str]) -> Sequence[ProgramRecord]:
        """Locks living programs in ascending id; unknown names are left out."""

    async def write_program(
        self, metadata: Metadata, spec: ProgramSpec, document: JsonObject, author: str, now: Instant
    ) -> ProgramRef:
        """Create it, or add a revision to the living one of that name."""

    async def delete_program(self, program: ProgramId, now: Instant) -> None:
        """Mark deleted. Its schedules are to be removed before, in the same transaction; its history stays."""

    # schedules
    async def lock_schedules(self, namespace: str, names: Collection[str]) -> Sequence[ScheduleRecord]:
        """Locks schedule and clock rows in ascending id; unknown names are left out."""

    async def lock_schedules_of(
        self, namespace: str, *, application: str | None = None, program: ProgramId | None = None
    ) -> Sequence[ScheduleRecord]:
        """The same for the living schedules of an application, or of a program."""

    async def revisions_from(self, schedule: ScheduleId, rev: int) -> Sequence[Revision]:
        """Its revisions from this one on, oldest first."""

    async def create_schedule(
        self,
        metadata: Metadata,
        spec: ScheduleSpec,
        document: JsonObject,
        *,
        program: ProgramId,
        mode: Mode,
        reason: str,
        author: str,
        now: Instant,
        clock: ClockState,
    ) -> ScheduleId:
        """Revision 1, valid from `now`. Raises Conflict when the name is taken."""

    async def revise_schedule(
        self,
        schedule: ScheduleId,
        spec: ScheduleSpec,
        document: JsonObject,
        *,
        program: ProgramId,
        mode: Mode,
        reason: str,
        author: str,
        valid_from: Instant,
        clock: ClockState,
        held_expires: bool = False,
    ) -> int:
        """Add a revision and set the clock; the new revision's number. Its waiting runs are judged again, since their
        limits may have changed. `held_expires`: while it is suspended (backlog, hold), runs expire all the same.
        Otherwise the waiting time of what a suspension held stands still until it ends: the revision that ends it
        moves each `expires_at` on by as long as the run was held."""

    async def describe_schedule(self, schedule: ScheduleId, metadata: Metadata) -> None:
        """Change what is said about it; no new revision."""

    async def remove_schedule(self, schedule: ScheduleId, now: Instant) -> None:
        """Mark deleted and stop its clock. Its history stays."""

    async def record_stretches(self, schedule: ScheduleId, stretches: Sequence[Stretch], now: Instant) -> None:
        """Put fires that do not run on record, one row and one event for each stretch."""

    async def end_waiting(self, schedule: ScheduleId, outcome: State, reason: str, now: Instant) -> int:
        """End its waiting and ready runs that have not begun an attempt in flight; how many. Gives back what they held
        and wakes whom that lets go on."""

    # runs
    async def add_run(
        self,
        schedule: ScheduleId,
        *,
        cause: Cause,
        caused_by: str,
        fire_time: Instant | None,
        previous_fire: Instant | None,
        given: JsonObject | None,
        priority: int,
        now: Instant,
        like: RunKey | None = None,
    ) -> RunKey:
        """A waiting run that is no clock fire: slot = now, ord = next of the clock. `like`: with the closed input and
        evidence of that run. What it crowds out ends (`domain.waiting`). Raises NotFound."""

    async def request_stop(self, run: RunKey, by: str, now: Instant) -> State:
        """Cancel: a waiting or ready run ends cancelled at once; one in flight becomes stopping. The state afterwards
        (an end when it had ended before). Raises NotFound."""

    async def record_change(self, change: Change, now: Instant) -> None:
        """Add a line to the audit log; its `at` and `id` are given here."""

    async def remember(self, key: str, request: str, notes: JsonObject, now: Instant) -> bool:
        """That the request of this Idempotency-Key was carried out, by this very transaction; its answer follows
        (`ControlStore.remember`), and can be made from the notes should it never come. False when the key is used
        already: then this transaction must not commit."""


class ControlStore(EventReads, DatasetReads, BackfillReads, SinkReads, SourceReads, TablesReads, Clock, Protocol):
    """Reads see what is committed and lock nothing. `namespace` None: of all namespaces."""

    def changing(self) -> AbstractAsyncContextManager[ControlTx]:
        """A transaction. Raises Unavailable when its commit is in doubt, too: look before you repeat."""

    async def namespaces(self) -> Sequence[tuple[str, JsonObject]]:
        """(name, document), by name."""

    async def applications(self, namespace: str | None) -> Sequence[tuple[str, str, JsonObject]]:
        """(namespace, name, document), by both."""

    async def pools(self) -> Sequence[PoolRecord]:
        """All, by name."""

    async def calendars(self) -> Sequence[tuple[Calendar, JsonObject]]:
        """All with their documents, by name."""

    async def frozen(self) -> Freeze | None:
        """None when work may start."""

    async def admission_facts(self, needs: Needs) -> AdmissionFacts:
        """What the admitter would see now, nothing locked: for people who ask why."""

    async def programs(self, namespace: str | None, before: str | None, limit: int) -> Sequence[ProgramRecord]:
        """A page of the living ones; `before`: the id of the last one seen."""

    async def program(self, namespace: str, name: str) -> ProgramRecord | None:
        """The living one of that name."""

    async def schedule(self, namespace: str, name: str) -> ScheduleRecord | None:
        """The living one of that name."""

    async def schedules(self, namespace: str | None, before: str | None, limit: int) -> Sequence[ScheduleRecord]:
        """A page of the living ones; `before`: the id of the last one seen."""

    async def revisions(self, schedule: ScheduleId) -> Sequence[tuple[Revision, JsonObject, str, str]]:
        """Every revision, newest first, each with document, author and reason."""

    async def stats(self, schedule: ScheduleId) -> Stats:
        """What its attempts and runs add up to; all nothing when it never ran."""

    async def stats_of(self, schedules: Collection[ScheduleId]) -> Mapping[ScheduleId, Stats]:
        """Of many at once; a schedule that has none may be missing."""

    async def run(self, key: RunKey) -> RunRecord | None:
        """A run, or the stretch that begins at this slot (ord 0)."""

    async def runs(
        self,
        namespace: str | None,
        *,
        schedule: str | None,
        states: Collection[State],
        since: Instant | None,
        before: str | None,
        limit: int,
    ) -> tuple[Sequence[RunRecord], str | None]:
        """A page of runs and stretches, newest first by slot, and the position to go on from (None: the end)."""

    async def live_counts(self) -> dict[tuple[str, str], int]:
        """(namespace, state) -> live runs, for the metrics."""

    async def queue(
        self, namespace: str | None, before: str | None, limit: int
    ) -> tuple[Sequence[RunRecord], str | None]:
        """Waiting runs, first in rank first (`admission.rank`); the position is `rank:slot.schedule.ord`."""

    async def ahead(self, wake_key: str, rank: int, run: RunKey) -> int:
        """How many runs wait in a queue and come before this one, which has this rank."""

    async def holders(self, counter: str, limit: int = 10) -> Sequence[RunKey]:
        """Live runs that hold a counter: what explain names as the blocker."""

    async def changes(self, namespace: str | None, before: int | None, limit: int) -> Sequence[Change]:
        """A page of the audit log, newest first; `before`: the id of the last one seen."""

    async def instances(self) -> Sequence[Instance]:
        """Those that have not ended."""

    async def reports(self) -> Sequence[tuple[Instance, Instant, JsonObject]]:
        """What the processes that are alive count: part -> counters, and when each told it."""

    async def leases(self) -> Sequence[JsonObject]:
        """`{duty, instance_id, token, expires}` of each duty; whoever holds an expired one has lost it."""

    async def books(
        self, namespace: str | None, since: Instant, until: Instant, after: ScheduleId | None, limit: int
    ) -> Sequence[Book]:
        """Schedules (deleted ones too) by ascending id after `after`, with their ledger from `since` to `until`."""

    async def remembered(self, key: str) -> tuple[str, int, Any] | None:
        """An Idempotency-Key's (request digest, status, answer); status 0: carried out, the answer is the notes."""

    async def remember(self, key: str, request: str, status: int, answer: Any, now: Instant) -> None:
        """Keep the answer, unless there is one."""
