"""What goes wrong, how often, and where: at every call of a port, drawn from the seed.

A `Gate` stands before each call that a process makes. It lets others go first, then perhaps crashes the process (its
coroutines are dropped, the server rolls back), freezes it (it goes on much later, as if nothing had happened), breaks
its connection before or after the effect, or delays the call. Nothing here knows what the calls mean.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, fields, replace
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.domain.errors import CommitUnknown, Unavailable
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.sim.drive import TURN, Gone, Sleep
from tidegate.sim.memory.tables import Transaction

if TYPE_CHECKING:
    from tidegate.sim.world import Simulation

YIELDING = 0.6
"""At two calls in five others may go first; at each would find no more, and takes longer."""
NOTHING: Generator[Any, None, None] = (one for one in tuple[Any]())
"""What is awaited at the others."""
IDLE_LIMIT = 2 * SECOND
"""What `idle_in_transaction_session_timeout` is: a silent transaction does not live longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How likely each fault is at one call of a port."""

    crash: float = 0.0
    vanish: float = 0.0
    """The machine goes dark: the server keeps what it held until it gives up on it."""
    freeze: float = 0.0
    lost: float = 0.0
    """No connection: nothing happened."""
    ambiguous: float = 0.0
    """The connection broke while committing: it happened, or not, or happens in a moment."""
    slow: float = 0.0
    session: float = 0.0
    """The server forgets the session of a process that lives."""
    leave: float = 0.0
    """It is shut down cleanly."""
    reboot: float = 0.0
    """Its machine goes down with everything that runs there."""
    outage: float = 0.0
    """Nobody reaches the database for a while."""
    failover: float = 0.0
    """A standby takes over from the database. What the standby lacks of it is lost: see `lag`."""
    backend: float = 0.0
    """A backend refuses, does not answer, or answers after the effect that it failed."""
    first: float = 0.0
    """No connection at the first call of its kind in a history, so that rare ones meet something, too."""

    lag: Duration = 0
    """How far at most a standby is behind. 0: it has every commit, as under synchronous replication."""

    freezes: tuple[float, ...] = (0.5, 3.0, 8.0, 40.0)
    """How long, in seconds, up to half as much more or less."""
    restarts: tuple[float, ...] = (0.1, 1.0, 8.0, 30.0)
    """How long at most, in seconds, until a dead process has a successor."""

    def scaled(self, factor: float) -> Rates:
        """The same faults more or less often."""
        chances = [one.name for one in fields(self) if isinstance(one.default, float)]
        return replace(self, **{name: getattr(self, name) * factor for name in chances})


USUAL = Rates(
    crash=0.002, vanish=0.0005, freeze=0.001, lost=0.003, ambiguous=0.03, slow=0.01, session=0.0003, leave=0.0003,
    reboot=0.0001, outage=0.0001, failover=0.0001,
    backend=0.05,
)  # fmt: skip
NONE = Rates()


@dataclass(slots=True)
class Tally:
    """How many faults of each kind were injected."""

    counts: dict[str, int] = field(default_factory=dict)
    points: dict[tuple[str, str], int] = field(default_factory=dict)
    """The same by kind and the call of a port at which it struck."""
    made: dict[str, int] = field(default_factory=dict)
    """Every call of a port that was made while faults were about, struck or not, and how often."""

    def add(self, kind: str, call: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.points[kind, call] = self.points.get((kind, call), 0) + 1


class Client(Protocol):
    """Who makes calls: a process, or people."""

    sim: Simulation
    alive: bool
    frozen_until: Instant

    def crash(self, *, at_once: bool) -> None: ...
    def freeze(self, span: Duration) -> None: ...
    def lose_session(self) -> None: ...
    def leave_politely(self) -> None: ...
    def reboot(self) -> None: ...
    def wrote(self, transaction: Any) -> None: ...
    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None: ...


class Gate:
    """Before each call of one process."""

    __slots__ = ("process", "sim", "rng", "open", "at", "_draw", "_ladder", "_any", "_made", "_rates", "_tally")

    def __init__(self, process: Client, rng: Random, rates: Rates, tally: Tally) -> None:
        self.process = process
        self.sim = process.sim
        self.rng = rng
        self._draw = rng.random
        self.open: dict[Transaction, None] = {}
        self.at = ""
        """The call that is being made, by its name."""
        self._tally = tally
        self.set_rates(rates)

    def set_rates(self, rates: Rates) -> None:
        self._rates = rates
        self._made = {} if rates is NONE else self._tally.made
        ladder, height = [], 0.0
        for kind in ("crash", "vanish", "freeze", "lost", "slow", "session", "leave", "reboot", "outage", "failover"):
            if rate := getattr(rates, kind):
                height += rate
                ladder.append((height, kind))
        self._ladder = ladder
        self._any = height

    def __await__(self) -> Generator[Any, None, None]:
        """Perhaps let others go first; then the call of the database may happen. Raises Unavailable."""
        drawn, made, at = self._draw(), self._made, self.at
        made[at] = count = made.get(at, 0) + 1
        if count == 1:
            self._meet(at)
        if drawn > YIELDING or drawn < self._any:
            return self._pass(drawn, at)
        if self.sim.outage_until > self.sim.clock.instant:
            raise Unavailable("the database does not answer")
        return NOTHING

    def _pass(self, drawn: float, at: str) -> Generator[Any, None, None]:
        if drawn > YIELDING:
            yield None
        if self.sim.outage_until > self.sim.clock.instant:
            raise Unavailable("the database does not answer")
        if drawn < self._any:
            yield from self._strike(drawn, at).__await__()

    def _meet(self, at: str) -> None:
        """The first call of its kind."""
        if self._rates.first and self._draw() < self._rates.first:
            self._tally.add("lost", at)
            raise Unavailable("the connection was lost")

    async def backend_call(self, call: str) -> None:
        """The same before a call of a backend, which an outage of the database does not concern."""
        self.at = call
        self._made[call] = count = self._made.get(call, 0) + 1
        if count == 1:
            self._meet(call)
        drawn = self._draw()
        if drawn > YIELDING:
            await TURN
        if drawn < self._any:
            await self._strike(drawn, call)
        self.at = call  # others may have gone first, and a gate serves all calls of its process

    async def _strike(self, drawn: float, at: str) -> None:
        process, rng = self.process, self.rng
        kind = next(kind for height, kind in self._ladder if drawn < height)
        self._tally.add(kind, at)
        match kind:
            case "crash":
                process.crash(at_once=True)
                await Gone()
            case "vanish":
                process.crash(at_once=False)
                await Gone()
            case "freeze":
                process.freeze(int(rng.choice(self._rates.freezes) * (0.5 + rng.random()) * SECOND))
                await TURN
            case "lost":
                raise Unavailable("the connection was lost")
            case "slow":
                pause = int(rng.choice((5, 50, 500, 4000)) * rng.random() * MILLISECOND)
                if pause > IDLE_LIMIT:
                    self.idle()
                await Sleep(pause)
            case "session":
                process.lose_session()
            case "leave":
                process.leave_politely()
                await TURN
            case "reboot":
                process.reboot()
                await Gone()
            case "outage":
                process.sim.outage(int(rng.choice((0.2, 2.0, 20.0)) * rng.random() * SECOND))
                raise Unavailable("the server closed the connection")
            case "failover":
                process.sim.failover(int(rng.random() * self._rates.lag), int(rng.random() * 10 * SECOND))
                await TURN

    def idle(self) -> None:
        """This process says nothing for long: the server ends its open transactions."""
        sim = self.process.sim
        for transaction in self.open:
            sim.driver.at(sim.clock.instant + IDLE_LIMIT, self._killer(transaction))

    def _killer(self, transaction: Transaction) -> Callable[[], None]:
        """One that waits for a lock is not idle; it is from when it gets the lock, unless its owner is back by then."""
        sim, process = self.process.sim, self.process

        def kill() -> None:
            if transaction.over:
                return
            if transaction.blocked_by is None:
                transaction.kill()
            elif not process.alive or process.frozen_until > sim.clock.instant:
                sim.driver.at(sim.clock.instant + IDLE_LIMIT, kill)

        return kill

    def ambiguous(self) -> str | None:
        """What becomes of a commit whose answer is lost; None: the answer comes."""
        if self._rates.ambiguous and self.rng.random() < self._rates.ambiguous:
            kind = self.rng.choice(("done", "undone", "late"))
            self._tally.add(f"ambiguous.{kind}", self.at)
            return kind
        return None

    def backend(self, kinds: tuple[str, ...]) -> str | None:
        """What goes wrong with a call of a backend."""
        if self._rates.backend and self.rng.random() < self._rates.backend:
            kind = self.rng.choice(kinds)
            self._tally.add(f"backend.{kind}", self.at)
            return kind
        return None


class FaultyTransaction:
    """A transaction behind a gate: it may fail at each call, and at its commit in every way."""

    __slots__ = ("_gate", "_inner")

    def __init__(self, gate: Gate, inner: Any) -> None:
        self._gate = gate
        self._inner = inner

    async def __aenter__(self) -> FaultyTransaction:
        self._gate.at = "begin"
        await self._gate
        await self._inner.__aenter__()
        self._gate.open[self._inner] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gate, inner = self._gate, self._inner
        if kind is GeneratorExit:
            return  # the process is dead: the server does what it does
        try:
            if kind is not None:
                inner.release()
                return
            try:
                gate.at = "commit"
                await gate
                inner.check()
                if inner.unwritten:
                    await inner.flush()
            except Exception:
                inner.release()
                raise
            await self._commit()
        finally:
            gate.open.pop(inner, None)

    async def _commit(self) -> None:
        gate, inner, sim = self._gate, self._inner, self._gate.process.sim
        gate.at = "commit"  # others may have gone first
        match gate.ambiguous():
            case None:
                await self._end()
            case "done":
                await self._end()
                raise CommitUnknown("the connection was lost while committing")
            case "undone":
                inner.release()
                raise CommitUnknown("the connection was lost while committing")
            case _:
                delay = int(gate.rng.random() * SECOND)
                sim.late[inner] = None
                sim.driver.at(sim.clock.instant + delay, self._late)
                raise CommitUnknown("the connection was lost while committing")

    async def _end(self) -> None:
        await self._inner.__aexit__(None, None, None)
        self._gate.process.wrote(self._inner)

    def _late(self) -> None:
        """A commit that was under way arrives."""
        self._gate.process.sim.late.pop(self._inner, None)
        if not self._inner.over:
            self._inner.commit()
            self._gate.process.wrote(self._inner)

    def __getattr__(self, name: str) -> Any:
        """A call of the transaction; the method is made once for all of them."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def call(self: FaultyTransaction, *args: Any, **named: Any) -> Any:
            self._gate.at = name
            await self._gate
            self._inner.check()
            return await getattr(self._inner, name)(*args, **named)

        setattr(FaultyTransaction, name, call)
        return call.__get__(self)


READS = frozenset(
    {
        "now",
        "next_due",
        "next_wake",
        "open_attempts",
        "stop_requests",
        "sinks",
        "settled",
        "outgoing",
        "held_attempts",
        "alive",
        "silent",
        "inbox_waits",
        "next_deadline",
        "next_term",
        "awaited",
        "frozen",
        "calendars",
        "backfills_live",
        "backfill",
        "backfills",
        "standings_in",
    }
)
"""Calls that change nothing: their answer is lost or not, which is the same."""


class FaultyStore:
    """A store behind a gate. Calls outside of transactions that change something may have an unknown end too."""

    def __init__(self, gate: Gate, inner: Any) -> None:
        self._gate = gate
        self._inner = inner

    def transaction(self, fence: Any) -> FaultyTransaction:
        return FaultyTransaction(self._gate, self._inner.transaction(fence))

    def changing(self) -> FaultyTransaction:
        return FaultyTransaction(self._gate, self._inner.changing())

    def __getattr__(self, name: str) -> Any:
        method, gate = getattr(self._inner, name), self._gate
        changes = name not in READS

        async def call(*args: Any, **named: Any) -> Any:
            gate.at = name
            await gate
            gate.at = name
            unknown = gate.ambiguous() if changes else None
            if unknown == "undone":
                raise CommitUnknown("the connection was lost while committing")
            answer = await method(*args, **named)
            gate.process.called(name, args, answer)
            if unknown is not None:
                raise CommitUnknown("the connection was lost while committing")
            return answer

        self.__dict__[name] = call
        return call
