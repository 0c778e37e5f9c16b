"""What the engine asks of a store. Each part names the narrow protocol that it uses.

A store hands out transactions. `store.transaction(fence)` is an async context manager: entering begins and share-locks
the instance row of `fence` (raising `Fenced` when its epoch has moved on); leaving normally commits, leaving by an
exception rolls back. Rows named "claimed" are locked until then and skipped by everybody else. `now` is always the
database's, read once at the top of a step by `store.now()` and passed down; no method reads a clock.

Any call raises `Unavailable` when the database is away, or when its answer was lost: then a commit is in doubt, and
what was to be written is looked up by its key before it is repeated. The timekeeper's and the admitter's transactions
also collect: their stores are in `ports.collecting`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from tidegate.domain.admission import Admit, Candidate, Discard, Hold
from tidegate.domain.clocks import Due
from tidegate.domain.constraints import AdmissionFacts, Needs
from tidegate.domain.ids import AttemptKey, Fence
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.planning import Plan
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject, ScheduleSpec
from tidegate.ports.launching import Launch

# ── time and membership ────────────────────────────────────────────────────────────────────────────────────────────


class Clock(Protocol):
    async def now(self) -> Instant:
        """The database's time."""


class Wakes(Protocol):
    """Wake-ups between processes (`engine.outcome.SHARED`). Any may be lost, none are in order."""

    async def announce(self, topics: Collection[str]) -> None:
        """Tell the other processes. Raises Unavailable."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with every topic that another process announces, and with "" once it listens: what was said
        before that is lost. Returns only by an exception: Unavailable when the connection is lost."""


class Neighbours(Protocol):
    """Deaths, as soon as the database sees them. May be lost, and may be told of somebody who lives."""

    async def await_ends(
        self, fence: Fence, ended: Callable[[], None], begun: Callable[[], None] = lambda: None
    ) -> None:
        """Call `begun` once it waits, `ended` whenever the session of the next living instance after this one has
        gone, in a ring of all.
        Returns only by an exception: Unavailable when the connection is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: int
    role: str
    name: str
    host: str
    pid: int
    epoch: int
    up_since: Instant
    heartbeat: Instant


class Membership(Clock, Protocol):
    """Who is here. `host` names a machine and home: only its workers can reach its local attempts."""

    async def register(self, *, role: str, name: str, host: str, pid: int, now: Instant) -> Fence:
        """A new instance of this process (`pid`, for people to find it), and the fence that it writes under."""

    async def beat(self, fence: Fence, now: Instant) -> None:
        """Renew the heartbeat. Raises Fenced when this instance was declared dead."""

    async def alive(self) -> Sequence[Instance]:
        """Those that have not ended, by id."""

    async def silent(self, now: Instant, patience: Duration) -> Sequence[Instance]:
        """Instances not ended whose session lock is gone (dead at once) or whose heartbeat is older than `patience`."""

    async def retire(self, instance: Instance, now: Instant) -> bool:
        """Raise the epoch and end it, if it still has the epoch seen: it is fenced from then on. False: race lost."""

    async def leave(self, fence: Fence, now: Instant) -> None:
        """Clean shutdown: ended, leases given up. Safe to repeat."""

    async def acquire(self, duty: str, fence: Fence, now: Instant, term: Duration) -> int | None:
        """The fencing token when this instance holds the duty's lease afterwards (taken or renewed), else None.

        Renewal needs mine AND unexpired AND same epoch; an expired lease, also one's own, is taken anew with a higher
        token. The holder trusts itself for `term` from the moment it asked. Raises Fenced.
        """

    async def release(self, duty: str, fence: Fence, token: int) -> None:
        """Give up a lease, if it is still this one: somebody else may have it at once. Safe to repeat."""


class Reports(Protocol):
    """What each process counts, for people to look at."""

    async def report(self, fence: Fence, meters: JsonObject, now: Instant) -> None:
        """Replace what was told before: part -> its counters."""


# ── timekeeper ─────────────────────────────────────────────────────────────────────────────────────────────────────


class TimekeeperTx(Protocol):
    async def claim_due(self, now: Instant, limit: int) -> Sequence[Due]:
        """Clock rows with next_due <= now, earliest first, claimed, with every revision from the cursor's on."""

    async def record(self, plans: Sequence[Plan], now: Instant) -> None:
        """Runs (waiting, wake_at = now), missed stretches, cursors, events: all or none.

        A run or stretch that is on record already is left as it is (a repeat after an ambiguous commit).
        """


# ── admitter ───────────────────────────────────────────────────────────────────────────────────────────────────────


class AdmitterTx(Protocol):
    """Queues: a run that is held under a key waits in the queue of that name, in order of `admission.rank`. A queue has
    at most one instant, the earliest that any of its runs was held until; when it comes, the first of the queue are
    woken, a batch of them, and the instant stays until the queue has been gone through or they are held anew."""

    async def claim_waiting(self, now: Instant, limit: int) -> Sequence[Candidate]:
        """Waiting runs with wake_at <= now or expires_at <= now, by rank, claimed. Before, the heads of queues whose
        instant has come are woken."""

    async def oldest_scheduler(self, now: Instant, patience: Duration) -> Instant:
        """When the scheduler came up that has been up longest of those that live: not ended, heard of within
        `patience` and, where they hold a session, with it. The one that asks counts in any case."""

    async def admission_facts(self, needs: Needs, now: Instant) -> AdmissionFacts:
        """Everything that is asked for: counters and pools locked, in ascending order, until the end of the
        transaction; starts, readings, calendars and the freeze as committed. Whose starts are asked for keeps them
        from now on. Pools and calendars that do not exist are left out."""

    async def settle(self, verdicts: Sequence[Admit | Hold | Discard], now: Instant) -> None:
        """Apply. Afterwards, wherever a counter that somebody waits for, or a pool, has capacity left, the next
        waiting runs under its key get wake_at = now (first in rank first, no more than there is capacity). Admitted
        runs count as pending starts of their counters until their first attempt begins, which is then a start. A hold's
        `restart_at` stays with the run until its next attempt has ended."""


# ── dispatcher and supervisor ──────────────────────────────────────────────────────────────────────────────────────


class DispatcherTx(Protocol):
    async def claim_ready(self, kinds: Collection[str], now: Instant, limit: int) -> Sequence[Launch]:
        """Ready runs of these program kinds, first in rank first, claimed; within their pools' launch rates, whose
        tokens are taken. Each becomes `starting` with an open attempt of this instance: the possible crash, which is
        on record once the transaction commits and before any backend is touched."""

    async def next_token(self, kinds: Collection[str], now: Instant) -> Instant | None:
        """When a ready run that a launch rate holds back may start; None when none is held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The backend has it."""

    attempt: AttemptKey
    backend_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, and what that means for the run.

    `outcome`: succeeded, failed, timed_out, cancelled, crashed; or lost (the worker's or host's doing), refused (the
    backend took nothing). `ago`: how long before now it ended. `then`: `RetryAt` or `Finish`. One that `ran` and is
    not on record as started began and ended between two looks: it counts as started when the attempt was made.
    """

    attempt: AttemptKey
    outcome: str
    error: JsonObject | None
    ago: Duration
    ran: bool  # the program itself may have run (counts in the statistics)
    then: RetryAt | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAttempt:
    """An attempt that has not ended, with what is needed to judge its end."""

    launch: Launch
    state: State  # starting, running or stopping
    spec: ScheduleSpec
    failures: int
    lost: int
    stop: str | None  # cancel, timeout, window, shutdown
    stop_at: Instant | None
    created_at: Instant
    started_at: Instant | None
    instance_id: int


class SupervisorTx(Protocol):
    async def started(self, starts: Sequence[Started], now: Instant) -> None:
        """starting -> running (a stopping one stays stopping). Attempts that ended meanwhile are passed over."""

    async def ended(self, ends: Sequence[AttemptEnd], now: Instant) -> None:
        """Close attempts; retry (one that `crashed` is judged at once) or finish their runs; give back slot and
        counters and wake whom that lets go on; statistics; next_due of after_finish clocks; events. An attempt that is
        closed already is passed over."""

    async def stopping(self, attempts: Sequence[tuple[AttemptKey, str]], now: Instant) -> None:
        """Mark as stopping for a reason (`timeout`, `window`, `shutdown`); one that is stopping already keeps its
        reason."""

    async def adopt(self, host: str, kinds: Collection[str], now: Instant, limit: int) -> Sequence[OpenAttempt]:
        """Open attempts of this host and these kinds whose instance has ended or moved on, claimed and made this
        instance's own."""


class WorkerStore(Clock, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[WorkerTx]: ...
    async def open_attempts(self, attempts: Collection[AttemptKey]) -> Sequence[OpenAttempt]:
        """Those of the named attempts that are still open: how the supervisor sees what others asked for (stop)."""

    async def stop_requests(self, fence: Fence) -> Sequence[OpenAttempt]:
        """This instance's open attempts that somebody asked to stop."""

    async def held_attempts(self, fence: Fence, before: Instant) -> Sequence[AttemptKey]:
        """This instance's open attempts that were made before that."""


class WorkerTx(DispatcherTx, SupervisorTx, Protocol):
    """The dispatcher's and the supervisor's, which share a worker's store."""


# ── reconciler and janitor ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One thing that the resync found out of step and mended; an empty list is the normal answer."""

    what: str  # clock, counter, pool, run
    name: str
    found: str
    mended: str


class ReconcilerStore(Clock, Protocol):
    async def resync(self, fence: Fence, token: int, now: Instant) -> Sequence[Drift]:
        """Compare clocks with revisions, counters and pools with live runs, and mend; lower the due scan's floor.
        `token` is of the lease for this duty. Raises Fenced when that has passed to somebody else."""


class JanitorStore(Clock, Protocol):
    async def ensure_partitions(self, now: Instant, ahead: Duration) -> Sequence[str]:
        """Create and ATTACH the missing daily (UTC) partitions from yesterday to `now + ahead`; their names."""

    async def drop_expired(self, now: Instant, retention: Mapping[str, Duration]) -> Sequence[str]:
        """Detach concurrently and drop partitions wholly past retention that hold no open run; their names.

        `retention` has the keys of the settings: `runs` (runs and their attempts, and what was measured of tables and
        done to them) and `events`.
        """
