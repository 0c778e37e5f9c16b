"""The worker's transaction: claiming what is ready, and what is known of attempts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import assert_never

from tidegate.domain.crashes import Crash
from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import Instant
from tidegate.domain.retry import Finish, RetryAt
from tidegate.domain.runs import State
from tidegate.domain.statistics import Tally
from tidegate.ports.engine import AttemptEnd, OpenAttempt, Started
from tidegate.ports.launching import Launch
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import EngineTransaction
from tidegate.sim.memory.rows import AttemptRow, PoolRow, RunRow


class WorkerTransaction(EngineTransaction):
    __slots__ = ()

    # dispatcher
    async def claim_ready(self, kinds: Collection[str], now: Instant, limit: int) -> Sequence[Launch]:
        self.check()
        data = self.data
        host = data.instance.rows[self.fence.instance_id].host
        launches: list[Launch] = []
        for ready in ready_runs(data, kinds):
            if len(launches) >= limit:
                break
            if self.try_lock(data.run, ready.key):
                run = self.get(data.run, ready.key)
                if run is None or run.state is not State.READY:
                    continue
                pool = self.get(data.pool, run.pool)
                if pool is None or pool.rate_max is None or await self._take_token(run.pool, now):
                    launches.append(self._begin(run, host, now))
        return launches

    async def _take_token(self, name: str, now: Instant) -> bool:
        """One token of the pool's launch rate, if it has one."""
        table = self.data.pool
        await self.lock(table, name)
        pool = self.edit(table, name)
        pool.refill(now)
        if pool.tokens < 1:
            return False
        pool.tokens -= 1
        return True

    def _begin(self, ready: RunRow, host: str, now: Instant) -> Launch:
        """Write down the possible crash."""
        data = self.data
        run = self.edit(data.run, ready.key)
        run.attempts += 1
        run.state = State.STARTING
        if run.attempts == 1:
            run.first_at = now
            self.first_attempt(run, now)
        data.fencing_token += 1
        key = AttemptKey(run.key, run.attempts)
        fence = self.fence
        attempt = AttemptRow(
            key, fence.instance_id, fence.epoch, host, data.fencing_token, run.program.kind, now
        )  # fmt: skip
        self.put(data.attempt, key, attempt)
        return launch_of(data, run, attempt)

    async def next_token(self, kinds: Collection[str], now: Instant) -> Instant | None:
        self.check()
        data, earliest = self.data, None
        seen: dict[str, None] = {}
        for run in ready_runs(data, kinds):
            mine = self.get(data.run, run.key)
            if mine is not None and mine.state is State.READY and mine.pool not in seen:
                seen[mine.pool] = None
                pool = self.get(data.pool, mine.pool)
                if pool is not None and pool.rate_max is not None:
                    at = token_at(pool, now)
                    earliest = at if earliest is None else min(at, earliest)
        return earliest

    # supervisor
    async def started(self, starts: Sequence[Started], now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock_all("run", [start.attempt.run for start in starts])
        for start in starts:
            attempt = self.get(data.attempt, start.attempt)
            if attempt is None or attempt.finished_at is not None:
                continue
            attempt = self.edit(data.attempt, start.attempt)
            attempt.backend_id = start.backend_id
            if attempt.started_at is not None:
                continue
            attempt.started_at = now
            run = self.edit(data.run, start.attempt.run)
            if run.state is State.STARTING:
                run.state = State.RUNNING
            if run.started_at is None:
                run.started_at = now
                self.tell(now, "run.started", run.key)

    async def stopping(self, attempts: Sequence[tuple[AttemptKey, str]], now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock_all("run", [key.run for key, _ in attempts])
        for key, why in attempts:
            attempt = self.get(data.attempt, key)
            run = self.get(data.run, key.run)
            if attempt is None or attempt.finished_at is not None or run is None or run.stop is not None:
                continue
            run = self.edit(data.run, key.run)
            run.state = State.STOPPING
            run.stop, run.stop_at = why, now
            self.tell(now, "run.stopping", run.key)

    async def ended(self, ends: Sequence[AttemptEnd], now: Instant) -> None:
        self.check()
        data = self.data
        await self.lock_clocks_of([end.attempt.run for end in ends])
        await self.lock_all("run", [end.attempt.run for end in ends])
        still_open: list[tuple[AttemptEnd, RunRow]] = []
        for end in ends:
            attempt, run = self.get(data.attempt, end.attempt), self.get(data.run, end.attempt.run)
            if attempt is not None and attempt.finished_at is None and run is not None:
                still_open.append((end, run))
        await self.lock_holdings([run for _, run in still_open])
        await self.lock_all("stats", [run.key.schedule_id for _, run in still_open])
        for end, run in still_open:
            self._close(end, self.edit(data.run, run.key), now)
        pauses = [end for end, _ in still_open if isinstance(end.then, Finish) and end.then.pauses]
        await self.lock_all("pausing", [end.attempt.run.schedule_id for end in pauses])
        for end in pauses:
            if isinstance(end.then, Finish) and self.get(data.pausing, end.attempt.run.schedule_id) is None:
                self.put(data.pausing, end.attempt.run.schedule_id, end.then.reason)
                self.topics["clock"] = None
        self.wake_released(now)

    def _close(self, end: AttemptEnd, run: RunRow, now: Instant) -> None:
        data = self.data
        attempt = self.edit(data.attempt, end.attempt)
        finished_at = max(now - end.ago, attempt.started_at or attempt.created_at)
        attempt.finished_at, attempt.outcome, attempt.error = finished_at, end.outcome, end.error
        stats = self.locked_stats(run.key.schedule_id)
        if end.ran:
            if attempt.started_at is None:
                attempt.started_at = attempt.created_at
            if run.started_at is None:
                run.started_at = attempt.started_at
                self.tell(now, "run.started", run.key)
            tally = Tally()
            tally.attempt(end.outcome, attempt.started_at, finished_at)
            stats.add(tally)
        then = end.then
        match then:
            case RetryAt():
                self._retry(run, then, now)
            case Finish():
                self.finish(run, then.outcome, then.reason, now, finished_at)
            case _:
                assert_never(then)
        if run.finished_at is not None:
            if run.started_at is not None:
                stats.total_runs += 1
            self.set_next_after_finish(run.key.schedule_id, finished_at)

    def _retry(self, run: RunRow, then: RetryAt, now: Instant) -> None:
        """Back to waiting, unless a person has asked meanwhile that it end."""
        run.failures += then.failures
        run.lost += then.lost
        if run.stop == "cancel":
            self.finish(run, State.CANCELLED, f"cancelled by {run.stop_by}", now, now)
            return
        self.give_back(run, counters=False)
        run.state = State.WAITING
        run.wake_at, run.wake_key = (now if then.crashed else then.at), None
        run.crash = Crash(retry_at=then.at) if then.crashed else None
        run.expires_at = run.window_end = None
        run.stop = run.stop_at = None
        run.stop_by = ""
        self.topics["admit"] = None

    async def adopt(self, host: str, kinds: Collection[str], now: Instant, limit: int) -> Sequence[OpenAttempt]:
        self.check()
        data = self.data
        found: list[OpenAttempt] = []
        for instance_id, attempts in sorted(data.open_of.items()):
            if not attempts or instance_id == self.fence.instance_id:
                continue
            for key in sorted(attempts):
                row = self.get(data.attempt, key)
                if row is None or row.host != host or row.backend not in kinds or row.finished_at is not None:
                    continue
                if len(found) >= limit:
                    return found
                if not deserted(data, row) or not self.try_lock(data.run, key.run):
                    continue
                row = self.edit(data.attempt, key)
                row.instance_id, row.epoch = self.fence.instance_id, self.fence.epoch
                run = self.get(data.run, key.run)
                assert run is not None
                found.append(open_attempt(data, run, row))
        return found


def ready_runs(data: Data, kinds: Collection[str]) -> list[RunRow]:
    """Committed ready runs of these kinds, first in rank first."""
    queues = [data.ready[kind].keys for kind in kinds if kind in data.ready and data.ready[kind].keys]
    order = queues[0] if len(queues) == 1 else sorted(item for queue in queues for item in queue)
    return [data.run.rows[key] for _, key in order]


def token_at(pool: PoolRow, now: Instant) -> Instant:
    """When the pool has a whole token."""
    assert pool.rate_max is not None and pool.rate_per is not None
    gained = max(0, now - pool.refilled_at) * pool.rate_max / pool.rate_per
    missing = 1 - min(float(pool.rate_burst or pool.rate_max), pool.tokens + gained)
    return now if missing <= 0 else now + int(missing * pool.rate_per / pool.rate_max) + 1


def deserted(data: Data, attempt: AttemptRow) -> bool:
    """Whether nobody alive looks after this open attempt."""
    owner = data.instance.rows.get(attempt.instance_id)
    return owner is None or owner.ended_at is not None or owner.epoch != attempt.epoch


def launch_of(data: Data, run: RunRow, attempt: AttemptRow) -> Launch:
    schedule = data.schedule.rows[run.key.schedule_id]
    timeout = schedule.revisions[run.rev - 1].revision.spec.timeout
    return Launch(
        attempt=attempt.key,
        fence=attempt.fence,
        namespace=schedule.metadata.namespace,
        schedule=schedule.metadata.name,
        program=run.program,
        arguments=run.arguments or {},
        cause=run.cause,
        caused_by=run.caused_by,
        fire_time=run.fire_time,
        previous_fire_time=run.previous_fire,
        timeout=timeout.run,
        grace=timeout.grace,
        evidence=run.evidence,
        inputs=run.inputs or {},
        stop_by=run.window_end,
    )


def open_attempt(data: Data, run: RunRow, attempt: AttemptRow) -> OpenAttempt:
    return OpenAttempt(
        launch=launch_of(data, run, attempt),
        state=run.state,
        spec=data.schedule.rows[run.key.schedule_id].revisions[run.rev - 1].revision.spec,
        failures=run.failures,
        lost=run.lost,
        stop=run.stop,
        stop_at=run.stop_at,
        created_at=attempt.created_at,
        started_at=attempt.started_at,
        instance_id=attempt.instance_id,
    )
