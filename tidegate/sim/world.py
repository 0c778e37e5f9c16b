"""The simulated world: processes that run the real engine on one in-memory store, a backend, people, and faults.

    sim = Simulation(seed=7)
    sim.start()
    sim.run(2 * HOUR)        # people ask for things, processes die, time jumps
    sim.calm(10 * MINUTE)    # no more faults: everything must come to rest

Everything is drawn from the seed: the same seed does the same things in the same order, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import Gauge
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.engine.outcome import Topic
from tidegate.ports.collecting import NewEvent, Receipt
from tidegate.ports.probing import Probes
from tidegate.ports.records import Freeze
from tidegate.ports.sinks import SinkRecord
from tidegate.sim.backend import CALM, ROUGH, Backend, Habits, SimLauncher
from tidegate.sim.clock import VirtualClock
from tidegate.sim.drive import Blocked, Driver
from tidegate.sim.faults import NONE, USUAL, Gate, Rates, Tally
from tidegate.sim.memory import MemoryStore
from tidegate.sim.memory.image import go_on_from, image
from tidegate.sim.memory.rows import CalendarRow, GaugeRow, PoolRow
from tidegate.sim.memory.tables import Transaction
from tidegate.sim.process import KINDS, Pace, Parts, Process, new_rng
from tidegate.sim.sinks import Targets

EPOCH: Instant = 1_774_699_200 * SECOND
"""Where virtual time begins: 2026-03-28T12:00:00Z, half a day before Europe's clocks change."""


class Simulation:
    """N schedulers and M workers. `rates` None: no faults, no interleaving, as fast as it goes."""

    def __init__(
        self,
        seed: int,
        *,
        schedulers: int = 2,
        workers: int = 2,
        rates: Rates | None = USUAL,
        habits: Habits | None = None,
        pace: Pace = Pace(),
        parts: Parts = Parts(),
        store: Callable[[VirtualClock], MemoryStore] = MemoryStore,
        begin: Instant = EPOCH,
        together: bool = False,
    ) -> None:
        self.seed = seed
        self.begin = begin
        self.clock = VirtualClock(begin)
        self.rng = new_rng(seed, "faults")
        self.driver = Driver(self.clock, self.rng)
        self.store = store(self.clock)
        self.store.data.wait = Blocked
        self.store.data.listeners.append(self._said)
        self.store.data.told_of_end = self._told_of_end
        self.faulty = rates is not None
        self.rates = rates or NONE
        self.tally = Tally()
        self.pace = pace
        self.parts = parts
        self.backend = Backend(self.driver, new_rng(seed, "programs"), habits or (ROUGH if rates else CALM))
        self.outage_until: Instant = 0
        self.late: dict[Transaction, None] = {}
        """Commits under way whose answer was lost."""
        self.losses: list[tuple[Instant, Instant]] = []
        """What was committed after the one and before the other is lost."""
        self._failing_over = False
        self.processes: list[Process] = []
        self.gates: list[Gate] = []  # of people
        self.calm_since: Instant | None = None
        self.writes: list[tuple[str, int, int]] = []
        self.grants: list[tuple[str, int, int, Instant, Instant]] = []
        self.appeared: dict[RunKey, Instant] = {}
        """When each run was really there, whatever `now` the step had that made it."""
        self.store.data.born = self._born
        self.resyncs: list[tuple[int, Instant, tuple[Any, ...]]] = []
        self.cancels: list[tuple[RunKey, Instant]] = []
        self.published: list[tuple[NewEvent, Receipt]] = []
        self.pauses = False
        """Whether schedules pause that say `retry.then: pause`."""
        self.on_pool: Callable[[PoolRow], None] | None = None
        self.probes: Probes | None = None
        """What reads resources; None: nobody does."""
        self.targets: Targets | None = None
        """Where sinks deliver to; None: nobody relays."""
        self.sinks_since: dict[str, int] = {}
        self.store.data.sink.follow = self._sink_changed
        self.backfills = False
        """Whether anybody asks for backfills: then schedulers walk them."""
        self.freezes: list[tuple[Instant, bool]] = []
        self.calendars: list[tuple[Instant, str, Calendar | None]] = []
        self.readings: list[tuple[Instant, str, Gauge]] = []
        self.faults: list[str] = []
        self.notes = 0
        self.most_slots = {name: pool.slots for name, pool in self.store.data.pool.rows.items()}
        self.most_borrowed: dict[str, int] = {}
        self.store.data.pool.follow = self._pool_changed
        self.store.data.frozen.follow = self._freeze_changed
        self.store.data.calendar.follow = self._calendar_changed
        self.store.data.gauge.follow = self._gauge_changed
        self._count = 0
        roles = ["all"] if together else ["scheduler"] * schedulers + ["worker"] * workers
        self._places = [
            (role, f"host-{1 + place % 2 if workers > 2 else 1}", f"{role}-{place + 1}")
            for place, role in enumerate(roles)
        ]

    def start(self) -> None:
        for role, host, name in self._places:
            self._start(role, host, name)

    def _start(self, role: str, host: str, name: str) -> None:
        self._count += 1
        process = Process(self, role, host, name, self._count, self.pace)
        self.processes.append(process)
        process.start()

    def stop(self) -> None:
        """Every process leaves, cleanly; nobody comes up again before `start`."""
        processes, self.processes = self.processes, []
        for process in processes:
            process.leave()

    def replace(self, dead: Process) -> None:
        """A supervisor of processes starts another one, at once or after a while."""
        self.processes.remove(dead)
        delay = int(self.rng.choice(self.rates.restarts) * self.rng.random() * SECOND) + MILLISECOND
        self.driver.at(
            self.clock.instant + delay, lambda: self._start(dead.role, dead.host, dead.name)
        )  # fmt: skip

    def make_launchers(self, process: Process) -> list[SimLauncher]:
        if process.role == "scheduler":
            return []
        return [SimLauncher(self.backend, process.host, KINDS, process.gate)]

    def run(self, span: Duration) -> None:
        """Let that much virtual time pass."""
        self.driver.run(self.clock.instant + span)

    def calm(self, span: Duration) -> None:
        """No new faults from here on (what is frozen or out still has to come back), for that long."""
        self.rates = NONE
        self.calm_since = self.clock.instant
        for gate in [*self.gates, *(process.gate for process in self.processes)]:
            if gate is not None:
                gate.set_rates(NONE)
        self.driver.run(self.clock.instant + span)

    def _born(self, run: RunKey) -> None:
        self.appeared[run] = self.clock.instant

    def _pool_changed(self, old: PoolRow | None, new: PoolRow | None) -> None:
        """Remember the most slots each pool ever had, and might ever borrow."""
        for pool in (old, new):
            if pool is not None:
                self.most_slots[pool.name] = max(self.most_slots.get(pool.name, 0), pool.slots)
                most = pool.borrow[1] if pool.borrow else 0
                self.most_borrowed[pool.name] = max(self.most_borrowed.get(pool.name, 0), most)
        if new is not None and self.on_pool is not None:
            self.on_pool(new)

    def _sink_changed(self, old: SinkRecord | None, new: SinkRecord | None) -> None:
        if old is None and new is not None:
            self.sinks_since[new.name] = new.spot.pos

    def _freeze_changed(self, old: Freeze | None, new: Freeze | None) -> None:
        self.freezes.append((self.clock.instant, new is not None))

    def _calendar_changed(self, old: CalendarRow | None, new: CalendarRow | None) -> None:
        row = new or old
        if row is not None:
            self.calendars.append((self.clock.instant, row.calendar.name, None if new is None else new.calendar))

    def _gauge_changed(self, old: GaugeRow | None, new: GaugeRow | None) -> None:
        if new is not None:
            self.readings.append((self.clock.instant, new.resource, new.gauge))

    # wake-ups
    def announce(self, topics: frozenset[Topic], by: Process | None) -> None:
        """Between processes: late by a few milliseconds, and sometimes lost, where there are faults at all."""
        for process in self.processes:
            if process is by:
                continue
            if not self.faulty:
                process.wake(topics)
            elif self.rates is NONE or self.rng.random() > 0.05:
                delay = int(self.rng.random() * 20 * MILLISECOND)
                self.driver.at(self.clock.instant + delay, _waker(process, topics))

    def _told_of_end(self, instance_id: int) -> None:
        """The session of the next in the ring has gone: it hears of it at once, or, where there are faults, of every
        eighth not at all and finds it by looking."""
        for process in self.processes:
            here = process.alive and process.fence is not None and process.fence.instance_id == instance_id
            if here and not (self.faulty and instance_id % 8 == 0):
                self.driver.at(self.clock.instant + MILLISECOND, _waker(process, frozenset({Topic.GONE})))

    def _said(self, topic: str) -> None:
        """A transaction of people's committed."""
        self.announce(frozenset({Topic(topic)}), None)

    # faults of the whole
    def outage(self, span: Duration) -> None:
        """The database is restarted, or cannot be reached: every open transaction is gone."""
        self.outage_until = self.clock.instant + span
        for gate in [*self.gates, *(process.gate for process in self.processes)]:
            for transaction in list(gate.open) if gate is not None else ():
                transaction.kill()

    def failover(self, lag: Duration, span: Duration) -> None:
        """After `lag` a standby takes over that lacks what was committed in it; it takes `span` to be there."""
        if self._failing_over:
            return
        self._failing_over = True
        since, has = self.clock.instant, image(self.store.data) if lag else None

        def take_over() -> None:
            self._failing_over = False
            self.outage(span)
            for transaction in list(self.late):
                transaction.kill()
            self.store.data.server += 1
            if has is not None:
                go_on_from(self.store.data, has)
                self.losses.append((since, self.clock.instant))

        self.driver.at(since + lag, take_over)

    def reboot(self, host: str) -> None:
        """A machine goes down with everything that runs on it."""
        for process in [one for one in self.processes if one.host == host and one.gate is not None]:
            process.crash(at_once=True)
        self.backend.reboot(host)

    def fault(self, part: str, error: BaseException | None) -> None:
        """A part raised what it should not have: always worth a look."""
        self.faults.append(f"{part}: {error!r}")

    def note(self, part: str, notes: tuple[str, ...]) -> None:
        self.notes += len(notes)


def _waker(process: Process, topics: frozenset[Topic]) -> Callable[[], None]:
    def wake() -> None:
        if process.alive:
            process.wake(topics)

    return wake
