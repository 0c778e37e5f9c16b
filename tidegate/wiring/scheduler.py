"""The parts of a scheduler."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from tidegate.control.pausing import pause
from tidegate.documents import plugged
from tidegate.engine.admitter import Admitter, AdmitterSettings
from tidegate.engine.backfiller import Backfiller
from tidegate.engine.deadlines import Deadlines
from tidegate.engine.intake import Intake
from tidegate.engine.janitor import Janitor, JanitorSettings
from tidegate.engine.loop import Loop
from tidegate.engine.matcher import Matcher
from tidegate.engine.outcome import Part, Topic
from tidegate.engine.pauser import Pauser
from tidegate.engine.prober import Prober
from tidegate.engine.publisher import Publisher
from tidegate.engine.reconciler import Reconciler, ReconcilerSettings
from tidegate.engine.relay import Relay
from tidegate.engine.timekeeper import SecondHand, Timekeeper, TimekeeperSettings
from tidegate.launchers.probes import AllProbes
from tidegate.settings import Settings
from tidegate.sinks.opening import SinkOpener
from tidegate.sources.opening import FeedOpener
from tidegate.wiring.lake import caretakers, watchers
from tidegate.wiring.members import for_good, loop_of, member, membership


async def run_scheduler(settings: Settings, stop: asyncio.Event) -> None:
    """All parts of a scheduler, until `stop`; docs/explanation/ledger.md says what each moves."""
    await for_good(lambda: _schedule(settings, stop), stop, settings.database.url)


async def _schedule(settings: Settings, stop: asyncio.Event) -> None:
    plugged.load()
    async with member("scheduler", settings) as one:
        chosen, store, fence = settings.scheduler, one.store, one.fence
        keeping = TimekeeperSettings(batch=chosen.batch, catch_up_per_pass=chosen.catch_up_per_pass)
        parts: list[Part] = [
            Timekeeper(store, fence, keeping),
            SecondHand(store, fence, keeping),
            Matcher(store, fence),
            Admitter(
                store,
                fence,
                AdmitterSettings(batch=chosen.batch, crash_wait=chosen.crash_wait, patience=chosen.patience),
            ),
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
            feeds = FeedOpener()
            intake = Intake(store, feeds, fence)
            stack.push_async_callback(intake.close)
            loop = loop_of(one, [*parts, relay, intake], settings)
            opener.on_change = feeds.on_change = lambda: loop.wake(Topic.BACKEND)
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
