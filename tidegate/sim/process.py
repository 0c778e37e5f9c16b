"""One simulated process: the engine's own parts, cranked by the rules of `engine.loop`, on virtual time.

A process registers, makes its parts under the fence it got, and steps each of them when the instant it asked for
comes, when a topic it listens to is heard, and at least once in every `poll`. What a step raises is backed off, except
`Fenced`, which ends the process; whoever started it starts a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tidegate.control.pausing import pause
from tidegate.domain.errors import Fenced, TidegateError
from tidegate.domain.ids import Fence
from tidegate.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant
from tidegate.engine.admitter import Admitter, AdmitterSettings
from tidegate.engine.backfiller import Backfiller
from tidegate.engine.deadlines import Deadlines
from tidegate.engine.dispatcher import Dispatcher
from tidegate.engine.janitor import Janitor, JanitorSettings
from tidegate.engine.matcher import Matcher
from tidegate.engine.membership import Membership, MembershipSettings
from tidegate.engine.outcome import SHARED, Outcome, Part, Topic
from tidegate.engine.pauser import Pauser
from tidegate.engine.prober import Prober, ProberSettings
from tidegate.engine.publisher import Publisher
from tidegate.engine.reconciler import Reconciler, ReconcilerSettings
from tidegate.engine.relay import Relay, RelaySettings
from tidegate.engine.supervisor import Supervisor, SupervisorSettings
from tidegate.engine.timekeeper import Timekeeper, TimekeeperSettings
from tidegate.engine.watch import Watch
from tidegate.sim.backend import SimLauncher
from tidegate.sim.drive import Sleep, finish
from tidegate.sim.faults import FaultyStore, Gate
from tidegate.sim.sinks import SimSinks

if TYPE_CHECKING:
    from tidegate.sim.world import Simulation

KINDS = ("command", "python", "spark_sql", "pyspark", "spark_submit", "http")
BACKOFF, BACKOFF_MOST = 100 * MILLISECOND, 5 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often parts look by themselves. Slower than in production: virtual hours should cost little."""

    poll: Duration = 10 * SECOND
    pause: Duration = 10 * MILLISECOND
    membership: MembershipSettings = MembershipSettings(heartbeat=4 * SECOND, look=5 * SECOND, patience=12 * SECOND)
    supervisor: SupervisorSettings = SupervisorSettings(look=8 * SECOND, poll=8 * SECOND)
    timekeeper: TimekeeperSettings = TimekeeperSettings()
    admitter: AdmitterSettings = AdmitterSettings(crash_wait=40 * SECOND, patience=12 * SECOND)
    reconciler: ReconcilerSettings = ReconcilerSettings()
    janitor: JanitorSettings = JanitorSettings()
    relay: RelaySettings = RelaySettings(look=2 * SECOND)
    prober: ProberSettings = ProberSettings(look=5 * SECOND, term=20 * SECOND)


IDLE = Pace(
    poll=60 * SECOND,
    membership=MembershipSettings(heartbeat=10 * SECOND, look=10 * SECOND, patience=30 * SECOND),
    supervisor=SupervisorSettings(look=10 * SECOND, poll=10 * SECOND),
    admitter=AdmitterSettings(crash_wait=5 * MINUTE, patience=30 * SECOND),
)
"""A calm system with a heartbeat every 10 s."""


class Slot:
    """A part and when it goes next."""

    __slots__ = ("part", "process", "at", "heard", "running", "failures", "rests_until", "topics")

    def __init__(self, part: Part, process: Process) -> None:
        self.part = part
        self.process = process
        self.topics = part.topics
        self.at: Instant | None = None
        self.heard = False
        self.running = False
        self.failures = 0
        self.rests_until = 0

    def wake_at(self, when: Instant) -> None:
        if self.at is None or when < self.at:
            self.at = when
            self.process.sim.driver.at(when, self.ring)

    def hear(self, topic: Topic) -> None:
        self.part.hear(topic)
        self.heard = True
        if not self.running:
            self.wake_at(max(self.process.sim.clock.instant, self.rests_until))

    def ring(self) -> None:
        process = self.process
        now = process.sim.clock.instant
        if self.running or self.at is None or self.at > now or not process.alive or process.leaving:
            return
        self.at = None
        if process.frozen_until > now:
            self.wake_at(process.frozen_until)
            return
        self.running, self.heard = True, False
        if process.gate is None:
            self._stepped((now, finish(self.part.step(now))), None)
        else:
            process.sim.driver.spawn(self._step(process.gate), process, self._stepped)

    async def _step(self, gate: Gate) -> tuple[Instant, Outcome]:
        gate.at = "now"
        await gate  # asking the database for its time
        now = self.process.sim.clock.instant
        return now, await self.part.step(now)

    def _stepped(self, result: tuple[Instant, Outcome] | None, error: BaseException | None) -> None:
        process, sim = self.process, self.process.sim
        self.running = False
        if not process.alive:
            return
        if result is None:
            if isinstance(error, Fenced):
                process.end("fenced")
                return
            if not isinstance(error, TidegateError):
                sim.fault(self.part.name, error)
            self.failures += 1
            delay = min(BACKOFF_MOST, BACKOFF << min(self.failures - 1, 16))
            self.rests_until = sim.clock.instant + delay
            self.wake_at(self.rests_until)
            return
        self.failures = 0
        now, outcome = result
        if outcome.notes:
            sim.note(self.part.name, outcome.notes)
        if outcome.wakes:
            process.spread(outcome.wakes)
        if outcome.left or self.heard:
            self.wake_at(sim.clock.instant)
            return
        pace = process.pace
        latest = now + pace.poll
        wanted = outcome.next
        if wanted is None or wanted > latest:
            wanted = latest
        if not outcome.did and wanted < now + pace.pause:
            wanted = now + pace.pause
        self.wake_at(wanted)


@dataclass(eq=False)
class Process:
    """A role on a host. After its end another takes its place."""

    sim: Simulation
    role: str
    host: str
    name: str
    number: int
    pace: Pace
    gate: Gate | None = None
    store: Any = None
    alive: bool = True
    frozen_until: Instant = 0
    fence: Fence | None = None
    slots: list[Slot] = field(default_factory=list)
    launchers: list[SimLauncher] = field(default_factory=list)
    local: frozenset[Topic] = frozenset()
    leaving: bool = False

    def start(self) -> None:
        sim = self.sim
        self.store = sim.store
        if sim.faulty:
            self.gate = Gate(self, sim.rng, sim.rates, sim.tally)
            self.store = FaultyStore(self.gate, sim.store)
            sim.driver.spawn(self._boot(), self, self._booted)
        else:
            self._booted(finish(self._boot()), None)

    async def _boot(self) -> Fence:
        now = await self.store.now()
        fence: Fence = await self.store.register(
            role=self.role, name=self.name, host=self.host, pid=1000 + self.number, now=now
        )  # fmt: skip
        self.fence = fence
        for launcher in self.sim.make_launchers(self):
            await launcher.open()
            launcher.on_change = self.backend_news
            self.launchers.append(launcher)
        return fence

    def _booted(self, fence: Fence | None, error: BaseException | None) -> None:
        if not self.alive:
            return
        if fence is None:
            self.sim.driver.at(self.sim.clock.instant + SECOND, self._again)
            return
        self.slots = [Slot(part, self) for part in self.make_parts(fence)]
        self.local = frozenset(topic for slot in self.slots for topic in slot.topics)
        for slot in self.slots:
            slot.wake_at(self.sim.clock.instant)

    def _again(self) -> None:
        if self.alive:
            self.sim.driver.spawn(self._boot(), self, self._booted)

    def make_parts(self, fence: Fence) -> list[Part]:
        """The engine's, in the roles of the product's processes."""
        pace, store, sim = self.pace, self.store, self.sim
        parts: list[Part] = []
        if self.role in ("scheduler", "all"):
            parts += [
                sim.parts.timekeeper(store, fence, pace.timekeeper),
                sim.parts.admitter(store, fence, pace.admitter),
                sim.parts.publisher(store, fence),
                sim.parts.matcher(store, fence),
                sim.parts.deadlines(store, fence),
                sim.parts.reconciler(store, fence, pace.reconciler),
                sim.parts.janitor(store, fence, pace.janitor),
            ]
            if sim.backfills:
                parts.append(sim.parts.backfiller(store, fence))
            if sim.pauses:
                parts.append(Pauser(store, partial(pause, store), HOUR))
            if sim.targets is not None:
                parts.append(sim.parts.relay(store, SimSinks(sim.targets, self), fence, pace.relay))
            if sim.probes is not None:
                parts.append(sim.parts.prober(store, sim.probes, fence, pace.prober))
        if self.role in ("worker", "all"):
            launchers = {kind: one for one in self.launchers for kind in sorted(one.kinds)}
            watch = Watch()
            parts += [
                sim.parts.dispatcher(store, fence, launchers, watch),
                sim.parts.supervisor(store, fence, launchers, watch, self.host, pace.supervisor),
            ]
        parts.append(sim.parts.membership(store, fence, pace.membership))
        return parts

    # wake-ups
    def wake(self, topics: Sequence[Topic] | frozenset[Topic]) -> None:
        for slot in self.slots:
            for topic in slot.topics:
                if topic in topics:
                    slot.hear(topic)

    def spread(self, topics: frozenset[Topic]) -> None:
        self.wake(topics)
        elsewhere = (topics & SHARED) - self.local
        if elsewhere:
            self.sim.announce(elsewhere, self)

    def backend_news(self) -> None:
        """A launcher or a sink has something to say."""
        for slot in self.slots:
            if Topic.BACKEND in slot.topics:
                slot.hear(Topic.BACKEND)

    # ends
    def leave(self) -> None:
        """A clean shutdown, where nothing goes wrong: attempts are left to whoever comes next."""
        assert self.gate is None and self.fence is not None
        finish(self.store.leave(self.fence, self.sim.clock.instant))
        self.alive = False
        for launcher in self.launchers:
            self.sim.backend.launchers.remove(launcher)

    def freeze(self, span: Duration) -> None:
        self.frozen_until = self.sim.clock.instant + span
        if self.gate is not None:
            self.gate.idle()

    def crash(self, *, at_once: bool) -> None:
        """`at_once`: the server sees the connections close; else it finds out when they time out."""
        gate = self.gate
        assert gate is not None
        if at_once:
            for transaction in gate.open:
                transaction.release()
            self.lose_session()
        else:
            gate.idle()
            self.sim.driver.at(self.sim.clock.instant + int(gate.rng.random() * 20 * SECOND), self.lose_session)
        self.end("crashed")

    def reboot(self) -> None:
        self.sim.reboot(self.host)

    def leave_politely(self) -> None:
        """SIGTERM: steps under way end, nothing new begins, then it says goodbye. Attempts are left for adoption."""
        if self.fence is not None and not self.leaving:
            self.leaving = True
            self.sim.driver.spawn(self._goodbye(self.fence), self, self._gone)

    async def _goodbye(self, fence: Fence) -> None:
        while any(slot.running for slot in self.slots):
            await Sleep(50 * MILLISECOND)
        await self.store.leave(fence, self.sim.clock.instant)

    def _gone(self, result: Any, error: BaseException | None) -> None:
        self.end("left")

    def lose_session(self) -> None:
        if self.fence is not None:
            self.sim.store.lose_session(self.fence.instance_id)

    def end(self, why: str) -> None:
        """Its coroutines are dropped; a successor comes up in a while."""
        if self.alive:
            self.alive = False
            for launcher in self.launchers:
                self.sim.backend.launchers.remove(launcher)
            self.launchers = []
            if why == "fenced" and self.gate is not None:
                for transaction in list(self.gate.open):
                    transaction.release()
            if why != "crashed":
                self.lose_session()
            self.sim.replace(self)

    # what laws want to know
    def wrote(self, transaction: Any) -> None:
        fence = getattr(transaction, "fence", None)
        if fence is not None:
            self.sim.writes.append(("wrote", fence.instance_id, fence.epoch))

    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        match name:
            case "retire" if answer:
                self.sim.writes.append(("retired", args[0].id, args[0].epoch))
            case "acquire" if answer is not None and self.fence is not None:
                self.sim.grants.append((args[0], answer, self.fence.instance_id, args[2], args[2] + args[3]))
            case "resync":
                self.sim.resyncs.append((args[1], self.sim.clock.instant, tuple(answer)))
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Parts:
    """Which classes play the parts: tests put broken ones in."""

    timekeeper: type[Timekeeper] = Timekeeper
    admitter: type[Admitter] = Admitter
    publisher: type[Publisher] = Publisher
    matcher: type[Matcher] = Matcher
    deadlines: type[Deadlines] = Deadlines
    reconciler: type[Reconciler] = Reconciler
    janitor: type[Janitor] = Janitor
    backfiller: type[Backfiller] = Backfiller
    prober: type[Prober] = Prober
    relay: type[Relay] = Relay
    dispatcher: type[Dispatcher] = Dispatcher
    supervisor: type[Supervisor] = Supervisor
    membership: type[Membership] = Membership


def new_rng(seed: int, purpose: str) -> Random:
    """A source of its own for each purpose, so that more draws for one do not shift another's."""
    return Random(f"tidegate {purpose} {seed}")
