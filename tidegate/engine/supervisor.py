"""Looks after every attempt in flight: what the backends say, how long they may run, who asked them to stop.

One pass: see who needs care (orphans of dead workers, requests to stop), ask the backends in batches, record in one
transaction everything that was learned, and only then act on what is now on record. No thread, task or connection is
held for a running program; a thousand of them cost one entry each in the watch.

Adoption: an attempt whose worker is dead is sealed at the backend. Either the backend has it, and it is looked after
from then on, or it was never started and now never can be, and the run is tried again at once.

What if this process dies: what was recorded is recorded; what was not is asked again by whoever adopts the attempts,
under the same identities, from backends that remember ends until they are told to forget them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.domain.errors import CommitUnknown
from tidegate.domain.ids import AttemptKey, Fence
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.domain.retry import Finish, Tally, Then, after_attempt
from tidegate.domain.runs import State
from tidegate.domain.stopping import KILL_PATIENCE, Ended, Rung, StopReason, climb, run_limit
from tidegate.engine.outcome import Outcome, Topic, earliest
from tidegate.engine.watch import START_TRIES, End, Stage, Watch, Watched, start
from tidegate.ports.engine import AttemptEnd, OpenAttempt, Started, WorkerStore
from tidegate.ports.launching import Launcher, Phase, Report, StopHow


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    batch: int = 500
    """Most ends recorded in one transaction."""
    look: Duration = SECOND
    """How often orphans and requests to stop are looked for, should every wake-up be lost."""
    poll: Duration = SECOND
    """How often backends are asked, should a launcher not say that it has news."""
    doubt: Duration = 30 * SECOND
    """How long an attempt is looked for whose commit got no answer."""
    recount: Duration = 30 * SECOND
    """How often it looks for attempts that are its own on record and not in its watch: a standby that took over without
    the last commits has forgotten their ends."""
    again: Duration = 500 * MILLISECOND
    """When a backend is told once more to stop an attempt, after it did not take the first word."""


class Supervisor:
    name = "supervisor"
    topics = frozenset({Topic.BACKEND, Topic.STOP})

    def __init__(
        self,
        store: WorkerStore,
        fence: Fence,
        launchers: Mapping[str, Launcher],
        watch: Watch,
        host: str,
        settings: SupervisorSettings = SupervisorSettings(),
    ) -> None:
        self._store = store
        self._fence = fence
        self._launchers = launchers
        self._watch = watch
        self._host = host
        self._settings = settings
        self._look_at: Instant = 0
        self._recount_at: Instant = 0
        self._told_at: dict[AttemptKey, Instant] = {}  # backends that did not take a request to stop: not before then
        self._ending = False

    def hear(self, topic: Topic) -> None:
        if topic is Topic.STOP:
            self._look_at = 0

    def stop_all(self) -> None:
        """Shut down for good: ask every attempt to stop. Their runs go back to waiting and run at the next start."""
        self._ending = True

    async def step(self, now: Instant) -> Outcome:
        """Look, ask, record, act."""
        notes: list[str] = []
        adopted = await self._look(now, notes)

        await self._reach(now, notes)
        await self._poll(now, notes)
        self._overrun(now)

        recorded, ended = await self._record(now, notes)
        await self._push(now, notes)

        left = any(entry.end is not None for entry in self._watch)
        wakes = frozenset({Topic.ADMIT, Topic.CLOCK, Topic.EVENTS}) if ended else frozenset[Topic]()
        return Outcome(did=adopted + recorded, left=left, next=self._next_look(now), wakes=wakes, notes=tuple(notes))

    # ── look: whose care is wanted ─────────────────────────────────────────────────────────────────────────────────

    async def _look(self, now: Instant, notes: list[str]) -> int:
        """Adopt orphans, settle doubts, hear who is asked to stop; how many were adopted."""
        if now < self._look_at:
            return 0
        self._look_at = now + self._settings.look  # before anything is awaited: a wake-up that comes meanwhile is kept
        adopted: Sequence[OpenAttempt] = ()
        try:
            async with self._store.transaction(self._fence) as tx:
                adopted = await tx.adopt(self._host, tuple(sorted(self._launchers)), now, self._settings.batch)
        except CommitUnknown:
            self._watch.doubt([one.launch for one in adopted], Stage.ADOPTED, now)
            self._look_at = 0
            raise
        for one in adopted:
            self._watch.adopted(one, now)
            notes.append(f"{one.launch.identity}: its worker is gone; adopted.")
        await self._settle_doubts(now)
        await self._recount(now, notes)
        if len(self._watch):
            for one in await self._store.stop_requests(self._fence):
                self._watch.asked(one, now)
        if len(adopted) >= self._settings.batch:
            self._look_at = 0
        return len(adopted)

    async def _settle_doubts(self, now: Instant) -> None:
        """A commit got no answer: are these attempts ours? A commit can also land late, so keep looking for a while."""
        doubts = self._watch.doubts
        if not doubts:
            return
        for one in await self._store.open_attempts(tuple(doubts)):
            if one.instance_id == self._fence.instance_id:
                self._watch.adopted(one, now, doubts.pop(one.launch.attempt).stage)
        for key, doubt in list(doubts.items()):
            if now - doubt.since > self._settings.doubt:
                del doubts[key]

    async def _recount(self, now: Instant, notes: list[str]) -> None:
        """Take up what is this instance's on record and not in its watch. What began within `doubt` may still be on its
        way into it."""
        settings = self._settings
        if now < self._recount_at:
            return
        self._recount_at = now + settings.recount
        held = await self._store.held_attempts(self._fence, now - settings.doubt)
        unknown = [key for key in held if key not in self._watch.attempts and key not in self._watch.doubts]
        if not unknown:
            return
        for one in await self._store.open_attempts(unknown[: settings.batch]):
            if one.instance_id == self._fence.instance_id:
                self._watch.adopted(one, now)
                notes.append(f"{one.launch.identity}: on record as this worker's, which does not know it; taken up.")

    # ── ask the backends ───────────────────────────────────────────────────────────────────────────────────────────

    async def _reach(self, now: Instant, notes: list[str]) -> None:
        """Ask about attempts of which the backend's side is not known."""
        for entry in [one for one in self._watch if one.stage in _UNREACHED and one.end is None]:
            if now < entry.again_at:
                continue
            launcher = self._launchers[entry.launch.program.kind]
            if entry.stage is Stage.CLAIMED and entry.asked is None and entry.tries < START_TRIES:
                note = await start(self._watch, entry, launcher, now)
            else:
                note = await self._seal(entry, launcher, now)
            if note:
                notes.append(note)

    async def _seal(self, entry: Watched, launcher: Launcher, now: Instant) -> str | None:
        try:
            report = await launcher.seal(entry.launch)
        except Exception as fault:
            entry.try_later(now)
            return f"{entry.launch.identity}: the backend cannot say whether it runs: {fault!r}"
        if report is None and entry.stage is Stage.CLAIMED:
            message = "The backend did not answer when it was asked to start this; nothing was started."
            entry.close(Ended.REFUSED, now, ran=False, error=_error("launch.unanswered", message))
        elif report is None:
            message = "Its worker was lost before the backend had taken it; nothing was started."
            entry.close(Ended.LOST, now, ran=False, error=_error("worker.lost", message))
        else:
            entry.stage = Stage.LAUNCHED
            self._hear_report(entry, report, now)
        return None

    async def _poll(self, now: Instant, notes: list[str]) -> None:
        """Ask each launcher about all of its attempts at once. One that fails does not keep the others from it."""
        attempts = self._watch.attempts
        for launcher, keys in self._by_launcher(one for one in attempts.values() if _polled(one)):
            try:
                reports = {report.attempt: report for report in await launcher.poll(keys)}
            except Exception as fault:
                notes.append(f"{'/'.join(sorted(launcher.kinds))}: the backend did not answer a poll: {fault!r}")
                continue
            for key in keys:
                if (entry := attempts.get(key)) is not None:
                    self._hear_report(entry, reports.get(key), now)

    def _hear_report(self, entry: Watched, report: Report | None, now: Instant) -> None:
        """What a backend says, or its silence, which means that nothing changed: what it took runs."""
        if report is not None:
            entry.backend_id = report.backend_id or entry.backend_id
        match report.phase if report is not None else Phase.RUNNING:
            case Phase.STARTING:
                return
            case Phase.GONE:
                message = "Its process, driver or host ended without saying how."
                error = (report.error if report else None) or _error("program.crashed", message)
                entry.close(Ended.CRASHED, now - (report.ago if report else 0), ran=True, error=error)
            case Phase.FINISHED:
                assert report is not None
                entry.close(_said(report), now - report.ago, ran=report.ran, error=report.error)
        if entry.started_at is None:
            entry.started_at = now

    # ── stop what overruns ─────────────────────────────────────────────────────────────────────────────────────────

    def _overrun(self, now: Instant) -> None:
        """Who has run too long, whose window closes, or who is stopped by a shutdown: to be put on record before the
        backend is told."""
        for entry in self._watch:
            if entry.asked is not None or entry.end is not None:
                continue
            limit = _limit(entry)
            if limit is not None and limit <= now:
                entry.ask_to_stop(StopReason.TIMEOUT, now, on_record=False)
            elif entry.launch.stop_by is not None and entry.launch.stop_by <= now:
                entry.ask_to_stop(StopReason.WINDOW, now, on_record=False)
            elif self._ending and entry.stage is not Stage.ASKING:
                entry.ask_to_stop(StopReason.SHUTDOWN, now, on_record=False)

    async def _push(self, now: Instant, notes: list[str]) -> None:
        """Up the ladder, for those whose stopping is on record: politely, by force, and at last without them."""
        for entry in [one for one in self._watch if _pushable(one)]:
            assert entry.asked is not None
            rung = climb(entry.asked, grace=entry.launch.grace, now=now).rung
            if rung is Rung.GIVE_UP:
                seconds = KILL_PATIENCE // SECOND
                message = f"It did not end within {seconds} s of being killed: fenced and given up."
                entry.close(Ended.CRASHED, now, ran=True, error=_error("stop.gave_up", message))
                notes.append(f"{entry.launch.identity}: {message}")
            elif rung > entry.rung and now >= self._told_at.get(entry.key, 0):
                how = StopHow.POLITE if rung is Rung.POLITE else StopHow.KILL
                try:
                    await self._launchers[entry.launch.program.kind].stop(entry.key, how)
                    entry.rung = rung
                    self._told_at.pop(entry.key, None)
                except Exception as fault:
                    self._told_at[entry.key] = now + self._settings.again
                    notes.append(f"{entry.launch.identity}: the backend did not take the request to stop: {fault!r}")

    # ── record ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _record(self, now: Instant, notes: list[str]) -> tuple[int, int]:
        """Put on record what runs, what ended and what is being stopped; how many changes, and how many ends."""
        ending = [one for one in self._watch if one.end is not None][: self._settings.batch]
        # What began and ended between two looks is recorded as one: its end says that it ran.
        starting = [one for one in self._watch if one.started_at is not None and not one.recorded and one.end is None]
        marking = [one for one in self._watch if one.asked is not None and not one.marked and one.end is None]
        if not (ending or starting or marking):
            return 0, 0
        ends = await self._judge(ending, now)

        async with self._store.transaction(self._fence) as tx:
            if starting:
                await tx.started([Started(attempt=one.key, backend_id=one.backend_id) for one in starting], now)
            if marking:
                await tx.stopping([(one.key, one.asked.reason.value) for one in marking if one.asked], now)
            if ends:
                await tx.ended(ends, now)

        for one in starting:
            one.recorded = True
        for one in marking:
            one.marked = True
        await self._let_go(ending, notes)
        return len(starting) + len(marking) + len(ending), len(ending)

    async def _judge(self, ending: Sequence[Watched], now: Instant) -> list[AttemptEnd]:
        """What each end means for its run. Only of those that did not succeed does the store have to be asked."""
        ends: list[AttemptEnd] = []
        unsuccessful: dict[AttemptKey, tuple[Watched, End]] = {}
        for one in ending:
            assert one.end is not None
            if one.end.ended is Ended.SUCCEEDED:
                ends.append(_attempt_end(one, one.end, Finish(outcome=State.SUCCEEDED, reason=""), now))
            else:
                unsuccessful[one.key] = (one, one.end)
        if unsuccessful:
            for open_one in await self._store.open_attempts(tuple(unsuccessful)):
                if open_one.instance_id != self._fence.instance_id:
                    continue
                entry, end = unsuccessful[open_one.launch.attempt]
                then = after_attempt(
                    entry.key,
                    end.ended,
                    stop=StopReason(open_one.stop) if open_one.stop else entry.asked.reason if entry.asked else None,
                    retry=open_one.spec.retry,
                    tally=Tally(failures=open_one.failures, lost=open_one.lost),
                    now=now,
                    permanent=end.permanent,
                    why=end.why,
                    orphan=entry.orphan,
                )
                ends.append(_attempt_end(entry, end, then, now))
        return ends

    async def _let_go(self, ended: Sequence[Watched], notes: list[str]) -> None:
        """Their ends are on record (or not ours to record): nobody has to remember them."""
        for one in ended:
            self._watch.attempts.pop(one.key, None)
            self._told_at.pop(one.key, None)
        for launcher, keys in self._by_launcher(ended):
            try:
                await launcher.forget(keys)
            except Exception as fault:  # it keeps a little more than it must
                notes.append(f"{'/'.join(sorted(launcher.kinds))}: {len(keys)} ends were not forgotten: {fault!r}")

    def _by_launcher(self, entries: Iterable[Watched]) -> list[tuple[Launcher, list[AttemptKey]]]:
        keys: dict[int, list[AttemptKey]] = defaultdict(list)
        launchers: dict[int, Launcher] = {}
        for one in entries:
            launcher = self._launchers[one.launch.program.kind]  # one launcher may serve several kinds
            launchers[id(launcher)] = launcher
            keys[id(launcher)].append(one.key)
        return [(launchers[which], found) for which, found in keys.items()]

    def _next_look(self, now: Instant) -> Instant:
        """When the earliest of all deadlines comes; each attempt has its own."""
        soonest, poll = self._look_at, now + self._settings.poll
        for one in self._watch:
            if one.stage is Stage.ASKING or one.end is not None:
                continue
            soonest = min(soonest, poll)
            if one.stage in _UNREACHED:
                soonest = min(soonest, max(one.again_at, now + MILLISECOND))
            elif one.asked is not None:
                rung = climb(one.asked, grace=one.launch.grace, now=now).next
                soonest = min(soonest, earliest((rung, self._told_at.get(one.key))) or poll)
            else:
                soonest = min(soonest, earliest((_limit(one), one.launch.stop_by)) or poll)
        return soonest


_UNREACHED = (Stage.CLAIMED, Stage.ADOPTED)


def _polled(entry: Watched) -> bool:
    return entry.stage is Stage.LAUNCHED and entry.end is None


def _pushable(entry: Watched) -> bool:
    return entry.asked is not None and entry.marked and _polled(entry)


def _limit(entry: Watched) -> Instant | None:
    return run_limit(timeout=entry.launch.timeout, created_at=entry.created_at, started_at=entry.started_at)


def _said(report: Report) -> Ended:
    """A backend's word for an end. One that is not known says as little as none."""
    try:
        return Ended(report.outcome or "")
    except ValueError:
        return Ended.CRASHED


def _attempt_end(entry: Watched, end: End, then: Then, now: Instant) -> AttemptEnd:
    return AttemptEnd(
        attempt=entry.key,
        outcome=end.ended.value,
        error=end.error,
        ago=max(0, now - end.at),
        ran=end.ran,
        then=then,
    )


def _error(code: str, message: str) -> dict[str, str | None]:
    return {"code": code, "message": message, "exit_status": None}
