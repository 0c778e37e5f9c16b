"""The only place that knows every concrete class: builds a role's parts from settings, and runs them.

A role registers an instance (whose session lock tells the others at once when it dies), runs its parts in the engine's
loop and leaves cleanly when it is asked to. Declared dead while it was away (frozen, cut off, the database gone), it
may write nothing any more under that registration: it lets go of everything and begins anew under another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from tidegate.control.pausing import pause
from tidegate.documents import plugged
from tidegate.domain.errors import Fenced, TidegateError, Unavailable
from tidegate.domain.ids import AttemptKey, Fence
from tidegate.domain.instants import MILLISECOND, SECOND
from tidegate.domain.pools import built_in
from tidegate.engine.admitter import Admitter, AdmitterSettings
from tidegate.engine.backfiller import Backfiller
from tidegate.engine.courier import Courier
from tidegate.engine.deadlines import Deadlines
from tidegate.engine.dispatcher import Dispatcher
from tidegate.engine.janitor import Janitor, JanitorSettings
from tidegate.engine.log_keeper import LogKeeper
from tidegate.engine.loop import Loop, LoopSettings
from tidegate.engine.matcher import Matcher
from tidegate.engine.membership import Membership, MembershipSettings
from tidegate.engine.meters import Meters
from tidegate.engine.outcome import Part, Topic
from tidegate.engine.pauser import Pauser
from tidegate.engine.prober import Prober
from tidegate.engine.publisher import Publisher
from tidegate.engine.reconciler import Reconciler, ReconcilerSettings
from tidegate.engine.relay import Relay
from tidegate.engine.reporter import Reporter
from tidegate.engine.supervisor import Supervisor
from tidegate.engine.timekeeper import SecondHand, Timekeeper, TimekeeperSettings
from tidegate.engine.watch import Watch
from tidegate.launchers.http import HttpLauncher
from tidegate.launchers.logs import FileLogs
from tidegate.launchers.outbox import FileOutbox
from tidegate.launchers.probes import AllProbes
from tidegate.launchers.process import ProcessLauncher
from tidegate.launchers.python_pool import PythonPoolLauncher
from tidegate.launchers.spark import SparkLauncher
from tidegate.launchers.submit import SubmitLauncher
from tidegate.ports.control import ControlStore
from tidegate.ports.launching import Launcher, Logs, StopHow
from tidegate.settings import Settings
from tidegate.sinks.opening import SinkOpener
from tidegate.store import home as homes
from tidegate.store import migrate
from tidegate.store.embedded import EmbeddedServer, running_url
from tidegate.store.home import HomeLock
from tidegate.store.store import PostgresStore
from tidegate.wiring_lake import caretakers, catalog_url, spark_settings, watchers

__all__ = [
    "EmbeddedServer",
    "HomeLock",
    "Leaving",
    "embedded_server",
    "open_doors",
    "run_scheduler",
    "run_worker",
    "running_server",
    "schema_status",
    "take_home",
    "upgrade",
    "without_password",
]

log = logging.getLogger(__name__)

AGAIN = SECOND
"""Between two tries to register while the database is away."""
POLITE = 4 * SECOND
"""How long an attempt that is stopped by a shutdown may take to leave, before it is made to."""


# ── home and database ──────────────────────────────────────────────────────────────────────────────────────────────


def take_home(home: Path) -> HomeLock:
    """The exclusive right to a home. Raises Refused when another Tidegate has it, or a newer one wrote it."""
    return homes.acquire(home)


def embedded_server(home: Path) -> EmbeddedServer:
    """The PostgreSQL of a home, not started yet. Only for the holder of its lock."""
    return EmbeddedServer(home)


def running_server(home: Path) -> str | None:
    """The URL of the embedded server that a running Tidegate has in this home; None when there is none."""
    return running_url(home)


def upgrade(url: str) -> Sequence[str]:
    """Bring a database's schema up to date; what was applied. Raises Refused for a newer one, Unavailable."""
    return migrate.upgrade(url)


def schema_status(url: str) -> list[tuple[str, bool]]:
    """Each migration, and whether it is applied; those that only a newer version knows count as applied."""
    found = migrate.status(url)
    return sorted(
        [(name, True) for name in (*found.applied, *found.unknown)] + [(name, False) for name in found.missing]
    )


def without_password(url: str) -> str:
    """A database's URL, fit to be shown."""
    parts = conninfo_to_dict(url)
    return f"{parts.get('dbname', '')} at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"


# ── what all roles do ──────────────────────────────────────────────────────────────────────────────────────────────


def place(home: Path) -> str:
    """The name of this machine and home: only its workers can reach its local attempts."""
    return f"{platform.node()}:{home}"


@dataclass(frozen=True, slots=True)
class Member:
    """A role that is registered."""

    store: PostgresStore
    fence: Fence
    host: str


@asynccontextmanager
async def member(role: str, settings: Settings) -> AsyncIterator[Member]:
    """Registered while inside. Leaving cleanly hands over at once."""
    store = PostgresStore(settings.database.url, name=f"tidegate-{role}", size=settings.database.connections)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await asyncio.to_thread(migrate.check, settings.database.url)
        host = place(homes.prepare(settings.home))
        now = await store.now()
        if role == "scheduler":  # before anybody can take it for ready
            await store.ensure_partitions(now, settings.scheduler.partitions_ahead)
            await ensure_pools(store)
        name = f"{role}-{socket.gethostname()}-{os.getpid()}"
        fence = await store.register(role=role, name=name, host=host, pid=os.getpid(), now=now)
        log.info("registered as instance %d", fence.instance_id)
        try:
            yield Member(store, fence, host)
        finally:
            with suppress(TidegateError):  # without the database, or fenced, there is nothing to hand over
                await store.leave(fence, await store.now())


async def ensure_pools(store: ControlStore) -> None:
    """The pools that programs are in when they name none. What a person made of them stays."""
    known = {pool.name for pool in await store.pools()}
    for name, (slots, rate) in built_in(os.cpu_count() or 1).items():
        if name not in known:
            async with store.changing() as tx:
                await tx.put_pool(name, slots, rate)


def membership(one: Member, settings: Settings) -> Membership:
    scheduler = settings.scheduler
    return Membership(
        one.store, one.fence, MembershipSettings(heartbeat=scheduler.heartbeat, patience=scheduler.patience)
    )


def loop_of(one: Member, parts: Sequence[Part], settings: Settings) -> Loop:
    meters = Meters()
    parts = [*parts, Reporter(one.store, one.fence, meters)]
    return Loop(one.store, parts, wakes=one.store, meters=meters, settings=LoopSettings(poll=settings.scheduler.poll))


async def for_good(life: Callable[[], Awaitable[None]], stop: asyncio.Event, *, patient: bool = False) -> None:
    """One life after another until `stop`. A database that is away is only an error at the very beginning, where it may
    well be the wrong address, and not even then if `patient`."""
    failures = 0
    while not stop.is_set():
        try:
            await life()
            return
        except Fenced:
            log.warning("declared dead by the others while away; registering anew")
            patient = True
        except Unavailable as error:
            if not patient:
                raise
            failures += 1
            if not failures & (failures - 1):  # ever more rarely
                log.warning("not registered: %s It goes on by itself when that is over.", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), AGAIN / SECOND)


# ── scheduler ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def run_scheduler(settings: Settings, stop: asyncio.Event) -> None:
    """Timekeeper, admitter, reconciler, janitor, membership, until `stop`."""
    await for_good(lambda: _schedule(settings, stop), stop)


async def _schedule(settings: Settings, stop: asyncio.Event) -> None:
    plugged.load()
    async with member("scheduler", settings) as one:
        chosen, store, fence = settings.scheduler, one.store, one.fence
        keeping = TimekeeperSettings(batch=chosen.batch, catch_up_per_pass=chosen.catch_up_per_pass)
        parts: list[Part] = [
            Timekeeper(store, fence, keeping),
            SecondHand(store, fence, keeping),
            Matcher(store, fence),
            Admitter(store, fence, AdmitterSettings(batch=chosen.batch)),
            Publisher(store, fence),
            Deadlines(store, fence),
            Backfiller(store, fence),
            Pauser(store, partial(pause, store)),
            Prober(store, AllProbes(settings.probes), fence),
            Reconciler(store, fence, ReconcilerSettings(every=chosen.resync)),
            Janitor(
                store,
                fence,
                JanitorSettings(
                    ahead=chosen.partitions_ahead,
                    retention={"runs": settings.retention.runs, "events": settings.retention.events},
                ),
            ),
            membership(one, settings),
        ]
        async with AsyncExitStack() as stack:
            parts += watchers(store, fence, settings, stack)
            parts += caretakers(store, fence, settings, stack)
            opener = SinkOpener(settings.database.url)
            relay = Relay(store, opener, fence)
            stack.push_async_callback(relay.close)
            loop = loop_of(one, [*parts, relay], settings)
            opener.on_change = lambda: loop.wake(Topic.BACKEND)
            await _run(loop, stop)


async def _run(loop: Loop, stop: asyncio.Event) -> None:
    asked = asyncio.create_task(_then(stop, loop))
    try:
        await loop.run()
    finally:
        asked.cancel()


async def _then(stop: asyncio.Event, loop: Loop) -> None:
    await stop.wait()
    loop.stop()


# ── worker ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Leaving(Enum):
    """What a worker that is asked to leave does with what runs."""

    LEAVE_ATTEMPTS = "leave"
    """They go on, and the next worker of this home adopts them."""
    END_ATTEMPTS = "end"
    """They get a while, the rest is stopped; then drivers and pooled processes end too."""


async def run_worker(settings: Settings, stop: asyncio.Event, leaving: Leaving) -> None:
    """Dispatcher, supervisor, launchers, log keeper, membership, until `stop`."""
    await for_good(lambda: _work(settings, stop, leaving), stop)


async def _work(settings: Settings, stop: asyncio.Event, leaving: Leaving) -> None:
    async with member("worker", settings) as one:
        launchers = launchers_of(settings)
        by_kind: dict[str, Launcher] = {
            kind: launcher for launcher in launchers for kind in launcher.kinds if kind in settings.worker.kinds
        }
        watch = Watch()
        dispatcher = Dispatcher(one.store, one.fence, by_kind, watch)
        supervisor = Supervisor(one.store, one.fence, by_kind, watch, one.host)
        keeper = LogKeeper(FileLogs(settings.home), settings.retention.logs)
        outbox = FileOutbox(settings.home)
        outbox.open()
        courier = Courier(one.store, one.fence, outbox, watch)
        loop = loop_of(one, [dispatcher, supervisor, courier, keeper, membership(one, settings)], settings)
        async with AsyncExitStack() as stack:
            for launcher in launchers:
                launcher.on_change = lambda: loop.wake(Topic.BACKEND)
                await launcher.open()
                stack.push_async_callback(launcher.close)
            running = asyncio.create_task(loop.run())
            asked = asyncio.create_task(stop.wait())
            await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                dispatcher.rest()
                if leaving is Leaving.END_ATTEMPTS:
                    await _end_attempts(settings, loop, running, supervisor, watch, by_kind)
                loop.stop()
            asked.cancel()
            await running
            if leaving is Leaving.END_ATTEMPTS:
                await _end_warm(launchers)


async def _end_attempts(
    settings: Settings,
    loop: Loop,
    running: asyncio.Task[None],
    supervisor: Supervisor,
    watch: Watch,
    launchers: Mapping[str, Launcher],
) -> None:
    """Wait for what runs; then ask it to leave; then make it. Each end is on record when this returns."""
    await _empty(watch, running, settings.worker.shutdown)
    if not len(watch):
        return
    log.info("stopping %d attempts that did not end by themselves; their runs go on at the next start", len(watch))
    supervisor.stop_all()
    loop.wake(Topic.BACKEND, Topic.STOP)
    await _empty(watch, running, POLITE)
    for entry in list(watch):
        with suppress(TidegateError, OSError):
            await launchers[entry.launch.program.kind].stop(entry.key, StopHow.KILL)
    loop.wake(Topic.BACKEND)
    await _empty(watch, running, POLITE)


async def _empty(watch: Watch, running: asyncio.Task[None], micros: int) -> None:
    """Until nothing is watched, the loop has ended, or the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + micros / SECOND
    while len(watch) and not running.done() and loop.time() < until:
        await asyncio.sleep(50 * MILLISECOND / SECOND)


async def _end_warm(launchers: Sequence[Launcher]) -> None:
    """End what launchers keep warm: Spark drivers and pooled Python processes."""
    for launcher in launchers:
        try:
            match launcher:
                case PythonPoolLauncher():
                    await launcher.end_hosts(POLITE / SECOND)
                case SparkLauncher():
                    await launcher.end_drivers()
        except (TidegateError, OSError) as error:
            log.warning("%s did not end what it keeps warm: %s", "/".join(sorted(launcher.kinds)), error)


def launchers_of(settings: Settings) -> list[Launcher]:
    """One launcher for each family of kinds that this worker starts."""
    found: list[Launcher] = []
    kinds = set(settings.worker.kinds)
    if "command" in kinds:
        found.append(ProcessLauncher(settings.home))
    if "python" in kinds:
        found.append(PythonPoolLauncher(settings.home, settings.worker.python_processes))
    if kinds & HttpLauncher.kinds:
        found.append(HttpLauncher(settings.home))
    if kinds & SubmitLauncher.kinds:
        found.append(SubmitLauncher(settings.home, spark_settings(settings)))
    if kinds & SparkLauncher.kinds:
        found.append(SparkLauncher(settings.home, spark_settings(settings), catalog_url(settings.database.url)))
    return found


# ── api ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def open_doors(settings: Settings) -> AsyncIterator[tuple[ControlStore, Logs]]:
    """The store and the logs for the doors, and this API registered among the instances. Works while the database is
    away: it registers when it can, and again when it was declared dead."""
    store = PostgresStore(settings.database.url, name="tidegate-api", size=settings.database.connections)
    presence = asyncio.create_task(for_good(lambda: _be_present(settings), asyncio.Event(), patient=True))

    async def ended(attempt: AttemptKey) -> bool:
        record = await store.run(attempt.run)
        return record is None or any(one.key == attempt and one.finished_at is not None for one in record.attempts)

    try:
        yield store, FileLogs(settings.home, ended)
    finally:
        presence.cancel()
        with suppress(asyncio.CancelledError):
            await presence
        await store.close()


async def _be_present(settings: Settings) -> None:
    """Among the instances, until cancelled."""
    async with member("api", settings) as one:
        await loop_of(one, [membership(one, settings)], settings).run()
