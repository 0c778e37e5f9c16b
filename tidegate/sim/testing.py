"""`World`: the real engine on a virtual clock, for tests of what people declare. The pytest fixture `world` is one.

    def test_it_counts_twice_a_minute(world):
        world.deploy(app, at="2026-03-29T00:00Z")
        world.advance("1h")
        assert len(world.runs("count")) == 120

Programs are recorded, not run: each attempt succeeds at once, unless `behave` says otherwise. With `execute` set,
plain Python functions of a deployed `App` are really called. Nothing sleeps, nothing leaves the process.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from tidegate.control import apply, freezing, runs, schedules
from tidegate.control import events as publishing
from tidegate.documents import declared, parse
from tidegate.documents.events import parse_event
from tidegate.domain.constraints import LOAD, Gauge
from tidegate.domain.errors import NotFound, Refused
from tidegate.domain.events import qualified
from tidegate.domain.instants import HOUR, Duration, Instant, from_datetime, parse_duration, parse_instant, to_datetime
from tidegate.domain.runs import State
from tidegate.domain.schedules import Mode
from tidegate.engine.janitor import JanitorSettings
from tidegate.engine.membership import MembershipSettings
from tidegate.engine.outcome import Topic
from tidegate.engine.reconciler import ReconcilerSettings
from tidegate.engine.supervisor import SupervisorSettings
from tidegate.ports.launching import Launch
from tidegate.ports.records import AttemptRecord, RunRecord
from tidegate.sdk.data import Event
from tidegate.sdk.inputs import Inputs
from tidegate.sdk.triggers import When
from tidegate.sim.backend import Execution
from tidegate.sim.calls import call, outbox
from tidegate.sim.drive import finish
from tidegate.sim.memory.rows import PoolRow
from tidegate.sim.process import Pace
from tidegate.sim.world import Simulation

WHO = "test"
BEGIN = "2026-01-01T00:00Z"
QUIET = Pace(
    poll=24 * HOUR,
    membership=MembershipSettings(heartbeat=6 * HOUR, look=6 * HOUR, patience=48 * HOUR),
    supervisor=SupervisorSettings(look=6 * HOUR, poll=6 * HOUR),
    reconciler=ReconcilerSettings(every=24 * HOUR, term=72 * HOUR),
    janitor=JanitorSettings(every=24 * HOUR, term=24 * HOUR),
)
"""Nothing goes wrong here, so nobody has to look: virtual months cost little."""


@runtime_checkable
class Declares(Protocol):
    """What can be deployed besides documents: an `App`."""

    def documents(self) -> Sequence[Mapping[str, Any]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a program's attempts go: how long they take, and how the first ones end (the rest succeed)."""

    takes: Duration = 0
    outcomes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRun:
    """A run as tests see it. Times are aware and in UTC; states and outcomes are words."""

    id: str
    namespace: str
    schedule: str
    program: str
    state: str
    reason: str
    fire_time: datetime | None
    previous_fire_time: datetime | None
    cause: str
    arguments: Mapping[str, Any]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    waiting_for: tuple[Mapping[str, Any], ...]
    attempts: tuple[AttemptRecord, ...] = field(repr=False)
    inputs: Inputs = field(default_factory=Inputs)
    """What the run was given of each dataset that its trigger names: `inputs[orders].rows`."""
    timed_out_waiting: bool = False


class World:
    """A Tidegate of one's own, in virtual time. `now` moves by `advance` only."""

    def __init__(self, *, at: str | datetime = BEGIN, execute: bool = False) -> None:
        self.execute = execute
        """Call the Python functions of a deployed `App`; what they raise fails their attempt."""
        self._begin(_instant(at))

    def _begin(self, at: Instant) -> None:
        self._functions: dict[tuple[str, str], Callable[..., Any]] = {}
        self._behaviour: dict[str, Behaviour] = {}
        self._sim = Simulation(0, rates=None, pace=QUIET, together=True, begin=at)
        self._sim.backend.script = self._script
        self._sim.on_pool = self._pool_used
        self._sim.pauses = True
        self._sim.start()
        self._started = False

    # ── doing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return to_datetime(self._sim.clock.instant)

    def deploy(
        self,
        what: Declares | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        at: str | datetime | None = None,
        enable: bool = True,
    ) -> None:
        """Deploy an `App`, a document, or several documents as in a YAML file.

        `at` moves the clock there first (the first deployment may go anywhere, later ones only forward). Schedules that
        do not say whether they are enabled are, unless `enable` is false. Raises Invalid, Conflict.
        """
        if at is not None:
            self._go(_instant(at))
        self._started = True
        documents = what.documents() if isinstance(what, Declares) else [what] if isinstance(what, Mapping) else what
        declarations = [parse({"apiVersion": "tidegate/v1", **document}) for document in documents]
        self._do(apply.apply(self._sim.store, declarations, who=WHO))
        for one in declarations:
            if isinstance(one, declared.Schedule) and one.enabled is None and enable:
                self.enable(one.metadata.name, namespace=one.metadata.namespace)
        for name, program in getattr(what, "programs", {}).items():
            if getattr(program, "function", None) is not None:
                self._functions[(getattr(what, "namespace", "default"), name)] = program.function

    def advance(self, span: str | Duration) -> None:
        """Let time pass: `"1h"`, `"PT90S"`, or microseconds."""
        self._started = True
        self._sim.run(parse_duration(span) if isinstance(span, str) else span)

    def trigger(self, schedule: str, *, namespace: str | None = None, **arguments: Any) -> WorldRun:
        """Ask for a run now, by hand."""
        at = self._find(schedule, namespace)
        record = self._do(runs.trigger(self._sim.store, *at, who=WHO, arguments=arguments))
        return self.run(str(record.key))

    def publish(self, *events: Event | Mapping[str, Any], namespace: str = "default") -> None:
        """Publish events, all in one transaction; what waits for them looks at this very instant.

        A key without a namespace is one of `namespace`. Raises Invalid for what may not be published.
        """
        self._started = True
        now = self._sim.clock.instant
        new = []
        for one in events:
            document = dict(one) if isinstance(one, Mapping) else one.document()
            document["key"] = qualified(document["type"], document["key"], namespace)
            new.append(parse_event(document, now))
        self._do(publishing.publish(self._sim.store, new))

    def enable(self, schedule: str, *, namespace: str | None = None) -> None:
        self._do(schedules.enable(self._sim.store, *self._find(schedule, namespace), who=WHO))

    def disable(self, schedule: str, *, namespace: str | None = None, mode: str = "drop", expire: bool = False) -> None:
        """Let it rest: `drop`, `keep`, `backlog` or `hold`; with `expire`, runs that are held expire all the same."""
        at = self._find(schedule, namespace)
        self._do(schedules.disable(self._sim.store, *at, who=WHO, mode=Mode(mode), expire=expire))

    def schedule(
        self,
        name: str,
        *,
        when: When | Mapping[str, Any] | None = None,
        only: Sequence[Mapping[str, Any]] | None = None,
        program: str | None = None,
        namespace: str = "default",
        **spec: Any,
    ) -> None:
        """Declare and enable a schedule, of a program that is made where there is none: `program`, or of its own name.

        `when` None: it runs when it is triggered by hand. `only`: its constraints. What else stands in the `spec` of a
        document may be given, too. Raises Invalid.
        """
        trigger = when.in_zone("UTC") if isinstance(when, When) else dict(when or {"type": "never"})
        known = (namespace, program or name) in self._sim.store.data.program_name.rows
        made = {"kind": "Program", "metadata": {"namespace": namespace, "name": program or name}}
        said = {"program": program or name, "trigger": trigger, **spec}
        if only is not None:
            said["constraints"] = [dict(one) for one in only]
        declared = {"kind": "Schedule", "metadata": {"namespace": namespace, "name": name}, "spec": said}
        self.deploy([declared] if known else [{**made, "spec": {"type": "command", "argv": ["true"]}}, declared])

    def calendar(self, name: str, **spec: Any) -> None:
        """Declare a blackout calendar: what stands in the `spec` of its document."""
        self.deploy({"kind": "Calendar", "metadata": {"name": name}, "spec": spec})

    def freeze(self, reason: str = "") -> None:
        """From now on nothing starts."""
        self._do(freezing.freeze(self._sim.store, who=WHO, reason=reason))

    def unfreeze(self) -> None:
        """What waited for it starts, the first in rank first."""
        self._do(freezing.unfreeze(self._sim.store, who=WHO))

    def read(self, resource: str, value: float | None) -> None:
        """The next reading of a resource that `load` constraints ask for; None: it could not be read."""
        self._record(resource, value)
        self._sim.run(0)

    def _record(self, resource: str, value: float | None) -> None:
        sim = self._sim
        gauge = Gauge(value, sim.clock.instant, "" if value is not None else "no answer")
        fence = next(one.fence for one in sim.processes if one.fence is not None)
        finish(sim.store.record_gauge(fence, resource, gauge, sim.clock.instant))
        sim.announce(frozenset({Topic.ADMIT}), None)

    def cancel(self, run: WorldRun | str) -> None:
        self._do(runs.cancel(self._sim.store, run if isinstance(run, str) else run.id, who=WHO))

    def behave(self, program: str, *, takes: str | Duration = 0, outcomes: Sequence[str] = ()) -> None:
        """From now on attempts of this program take that long; the next ones end so (`succeeded`, `failed`,
        `crashed`), those after them succeed."""
        lasts = parse_duration(takes) if isinstance(takes, str) else takes
        self._behaviour[program] = Behaviour(takes=lasts, outcomes=tuple(outcomes))

    @contextmanager
    def down(self) -> Iterator[None]:
        """No scheduler and no worker lives meanwhile; programs that run go on."""
        self._sim.stop()
        try:
            yield
        finally:
            self._sim.start()
            self._sim.run(0)

    # ── looking ────────────────────────────────────────────────────────────────────────────────────────────────────

    def runs(self, name: str | None = None, *, state: str | None = None) -> list[WorldRun]:
        """The runs of a schedule (or of a program, where no schedule has that name), oldest first."""
        found = [one for one in self._records() if one.count == 1 and one.state is not State.MISSED]
        named = [one for one in found if name in (None, one.schedule, f"{one.namespace}/{one.schedule}")]
        if not named and name is not None:
            named = [one for one in found if one.program == name]
        return [_seen(one) for one in named if state in (None, one.state.value)]

    def missed(self, name: str | None = None) -> int:
        """How many fires of a schedule were missed, or superseded, without becoming a run."""
        stretches = [one for one in self._records() if one.state in (State.MISSED, State.SUPERSEDED)]
        return sum(one.count for one in stretches if not one.attempts and name in (None, one.schedule))

    def run(self, run: WorldRun | str) -> WorldRun:
        """The same run as it is now."""
        return _seen(self._do(runs.get(self._sim.store, run if isinstance(run, str) else run.id)))

    # ── inside ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _do(self, request: Coroutine[Any, Any, Any]) -> Any:
        """What a person asks for, and what the engine does about it at this instant."""
        self._started = True
        answer = finish(request)
        self._sim.run(0)
        return answer

    def _pool_used(self, pool: PoolRow) -> None:
        """Nobody looks at pools now and then here: who waits for one to be less in use is told at once."""
        sim, resource = self._sim, f"pool:{pool.name}"
        if any(key.startswith(f"{LOAD}{resource}:") for key in sim.store.data.queues):
            sim.driver.at(sim.clock.instant, lambda: self._record(resource, 100.0 * pool.used / max(pool.slots, 1)))

    def _go(self, at: Instant) -> None:
        now = self._sim.clock.instant
        if not self._started:
            self._begin(at)
        elif at < now:
            raise Refused(f"{to_datetime(at)} is past: it is {to_datetime(now)} here.", remedy="Time goes forward.")
        else:
            self._sim.run(at - now)

    def _find(self, schedule: str, namespace: str | None) -> tuple[str, str]:
        """Namespace and name of a schedule that is named so in some namespace."""
        space, _, name = schedule.rpartition("/")
        wanted = namespace or space or None
        found = [key for key in self._sim.store.data.schedule_name.rows if key[1] == name and wanted in (None, key[0])]
        if not found:
            raise NotFound(f"no schedule is named {schedule!r} here.")
        return found[0]

    def _records(self) -> list[RunRecord]:
        page, _ = finish(self._sim.store.runs(None, schedule=None, states=(), since=None, before=None, limit=1 << 40))
        return list(reversed(page))

    def _script(self, launch: Launch, one: Execution) -> tuple[Duration, str]:
        """How an attempt that just began goes: how long it takes, and its outcome."""
        name = launch.program.name
        behaviour = self._behaviour.get(name, Behaviour())
        outcome = "succeeded"
        if behaviour.outcomes:
            outcome, rest = behaviour.outcomes[0], behaviour.outcomes[1:]
            self._behaviour[name] = Behaviour(takes=behaviour.takes, outcomes=rest)
        function = self._functions.get((launch.namespace, name))
        if self.execute and function is not None and launch.program.kind == "python":
            try:
                with outbox(self._leave):
                    call(function, launch)
            except Exception as fault:
                one.message = f"{type(fault).__name__}: {fault}"
                outcome = "failed"
        return behaviour.takes, outcome

    def _leave(self, document: Mapping[str, Any]) -> None:
        """A program left an event: it arrives when the step is over that called the program."""
        sim = self._sim
        told = {name: value for name, value in document.items() if name != "source"}
        event = parse_event(told, sim.clock.instant)
        sim.driver.at(sim.clock.instant, lambda: finish(publishing.publish(sim.store, [event])))


def _seen(record: RunRecord) -> WorldRun:
    def moment(instant: Instant | None) -> datetime | None:
        return None if instant is None else to_datetime(instant)

    return WorldRun(
        id=str(record.key),
        namespace=record.namespace,
        schedule=record.schedule,
        program=record.program,
        state=record.state.value,
        reason=record.reason,
        fire_time=moment(record.fire_time),
        previous_fire_time=moment(record.previous_fire),
        cause=record.cause.value,
        arguments=dict(record.arguments or {}),
        created_at=to_datetime(record.created_at),
        started_at=moment(record.started_at),
        finished_at=moment(record.finished_at),
        waiting_for=tuple(record.waiting_for),
        attempts=record.attempts,
        inputs=Inputs(record.inputs),
        timed_out_waiting=bool((record.evidence or {}).get("timed_out_waiting")),
    )


def _instant(at: str | datetime) -> Instant:
    return parse_instant(at) if isinstance(at, str) else from_datetime(at)
