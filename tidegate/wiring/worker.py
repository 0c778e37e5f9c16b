"""The parts of a worker, its launchers, and how it leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from enum import Enum

from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import MILLISECOND, SECOND
from tidegate.engine.courier import Courier
from tidegate.engine.dispatcher import Dispatcher
from tidegate.engine.log_keeper import LogKeeper
from tidegate.engine.loop import Loop
from tidegate.engine.outcome import Topic
from tidegate.engine.supervisor import Supervisor
from tidegate.engine.watch import Watch
from tidegate.launchers.http import HttpLauncher
from tidegate.launchers.logs import FileLogs
from tidegate.launchers.outbox import FileOutbox
from tidegate.launchers.process import ProcessLauncher
from tidegate.launchers.python_pool import PythonPoolLauncher
from tidegate.launchers.spark import SparkLauncher
from tidegate.launchers.submit import SubmitLauncher
from tidegate.ports.launching import Launcher, StopHow
from tidegate.settings import Settings
from tidegate.wiring.lake import catalog_url, spark_settings
from tidegate.wiring.members import for_good, loop_of, member, membership

log = logging.getLogger(__name__)

POLITE = 4 * SECOND
"""How long an attempt that is stopped by a shutdown may take to leave, before it is made to."""


class Leaving(Enum):
    """What a worker that is asked to leave does with what runs."""

    LEAVE_ATTEMPTS = "leave"
    """They go on, and the next worker of this home adopts them."""
    END_ATTEMPTS = "end"
    """They get a while, the rest is stopped; then drivers and pooled processes end too."""


async def run_worker(settings: Settings, stop: asyncio.Event, leaving: Leaving) -> None:
    """All parts of a worker and its launchers, until `stop`; docs/explanation/ledger.md says what each moves."""
    await for_good(lambda: _work(settings, stop, leaving), stop, settings.database.url)


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
