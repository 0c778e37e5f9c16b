"""Runs the parts: the only place that knows asyncio, and the only place where the exception of a step is caught.

Each part is called when the instant it asked for comes, when a wake-up on one of its topics comes, and at least once in
every `poll`, so that a lost wake-up costs a second and no more. Parts run side by side: a slow one, or one that fails,
holds up nothing else. A step that fails is counted, logged and backed off (0.1 s doubling to 5 s), which is also how a
database that went away is met again without anybody's help.

Time is the database's. It is read before each step and passed to it; that reading also tells how far the loop's own
clock is from the database's, by which the loop then sleeps to the very instant.

`Fenced` ends the loop: this process was declared dead, others have taken over its work, and only a new registration may
write again. That is for whoever started the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.domain.errors import Fenced, Unavailable
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.engine.meters import Meters
from tidegate.engine.outcome import SHARED, Outcome, Part, Topic
from tidegate.ports.engine import Clock, Wakes

log = logging.getLogger("tidegate.engine")

Ends: TypeAlias = Callable[[Callable[[], None], Callable[[], None]], Awaitable[None]]
"""Calls the first whenever another process has ended, and the second once it can: `ports.engine.Neighbours`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    poll: Duration = SECOND
    """The longest sleep of any part."""
    debounce: Duration = 10 * MILLISECOND
    """At most one announcement of a topic in this span."""
    pause: Duration = 10 * MILLISECOND
    """After a step that found nothing although it had asked to be called by now: its rows are locked by another."""
    backoff: Duration = 100 * MILLISECOND
    """After the first failure in a row; doubles."""
    backoff_most: Duration = 5 * SECOND
    leave: Duration = 5 * SECOND
    """How long a step may still take when the loop is asked to stop."""


class Loop:
    """Runs parts until it is asked to stop, or fenced."""

    def __init__(
        self,
        clock: Clock,
        parts: Sequence[Part],
        *,
        wakes: Wakes | None = None,
        ends: Ends | None = None,
        meters: Meters | None = None,
        settings: LoopSettings = LoopSettings(),
    ) -> None:
        self._clock = clock
        self._parts = tuple(parts)
        self._wakes = wakes
        self._ends = ends
        self._meters = Meters() if meters is None else meters
        self._settings = settings
        self._events = {part.name: asyncio.Event() for part in parts}
        self._stopping = asyncio.Event()
        self._to_announce: set[str] = set()
        self._announce = asyncio.Event()
        self._local = frozenset(topic for part in parts for topic in part.topics)

    @property
    def meters(self) -> Meters:
        return self._meters

    def stop(self) -> None:
        """Let every step end, then return from `run`. Call it from the loop's thread."""
        self._stopping.set()
        self._announce.set()
        for event in self._events.values():
            event.set()

    def wake(self, *topics: Topic) -> None:
        """Wake the parts of this process that listen to these topics. Call it from the loop's thread."""
        for part in self._parts:
            for topic in part.topics.intersection(topics):
                part.hear(topic)
                self._events[part.name].set()

    async def run(self) -> None:
        """Run until `stop`. Raises Fenced when this process was declared dead."""
        parts = [asyncio.create_task(self._drive(part), name=part.name) for part in self._parts]
        others = []
        if self._wakes is not None:
            others.append(asyncio.create_task(self._listen(self._wakes), name="listen"))
            others.append(asyncio.create_task(self._tell(self._wakes), name="announce"))
        if self._ends is not None:
            others.append(asyncio.create_task(self._await_ends(self._ends), name="neighbour"))
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            await asyncio.wait([*parts, stopping], return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await asyncio.wait(parts, timeout=self._settings.leave / SECOND)
        finally:
            ended = await _end([*parts, *others, stopping])
        for fault in ended:
            raise fault

    # ── one part ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _drive(self, part: Part) -> None:
        event, meter, failures = self._events[part.name], self._meters.of(part.name), 0
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            event.clear()  # before the step, so that a wake-up during it is kept
            began = loop.time()
            try:
                now = await self._clock.now()
                offset = now / SECOND - (began + loop.time()) / 2
                outcome = await part.step(now)
            except Fenced:
                raise
            except Exception as fault:
                failures += 1
                meter.fail(loop.time() - began)
                _report(part.name, fault, failures)
                await self._back_off(failures)
                continue
            if failures:
                log.info("%s works again after %d failures.", part.name, failures)
                failures = 0
            meter.step(outcome.did, loop.time() - began)
            self._spread(part, outcome)
            await self._sleep(event, self._when(outcome, now, offset))

    def _when(self, outcome: Outcome, now: Instant, offset: float) -> float | None:
        """The loop's time at which the part wants to be called again; None: at once."""
        if outcome.left:
            return None
        soonest = now if outcome.did else now + self._settings.pause
        latest = now + self._settings.poll
        wanted = latest if outcome.next is None else min(outcome.next, latest)
        return max(wanted, soonest) / SECOND - offset

    async def _sleep(self, event: asyncio.Event, until: float | None) -> None:
        """Until a wake-up or the instant, whichever comes first; others get their turn in any case."""
        loop = asyncio.get_running_loop()
        if until is None or until <= loop.time():
            await asyncio.sleep(0)
            return
        alarm = loop.call_at(until, event.set)
        try:
            await event.wait()
        finally:
            alarm.cancel()

    async def _back_off(self, failures: int) -> None:
        """Wake-ups do not shorten it."""
        settings = self._settings
        delay = min(settings.backoff_most, settings.backoff << min(failures - 1, 16))
        await _until(self._stopping, delay / SECOND)

    # ── wake-ups ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _spread(self, part: Part, outcome: Outcome) -> None:
        for note in outcome.notes:
            log.info("%s: %s", part.name, note)
        if not outcome.wakes:
            return
        self.wake(*outcome.wakes)
        if self._wakes is not None:
            elsewhere = (outcome.wakes & SHARED) - self._local
            if elsewhere:
                self._to_announce.update(topic.value for topic in elsewhere)
                self._announce.set()

    async def _tell(self, wakes: Wakes) -> None:
        """The first announcement goes out at once, the next ones at most every `debounce`."""
        with self._line("announcer") as line:
            while not self._stopping.is_set():
                await self._announce.wait()
                self._announce.clear()
                topics, self._to_announce = self._to_announce, set()
                if topics:
                    try:
                        await wakes.announce(sorted(topics))
                        line.works()
                    except Exception as fault:  # a wake-up is lost
                        line.fails(fault)
                await _until(self._stopping, self._settings.debounce / SECOND)

    async def _listen(self, wakes: Wakes) -> None:
        with self._line("listener") as line:

            def heard(topic: str) -> None:
                if topic in _KNOWN:
                    self.wake(Topic(topic))
                elif not topic:
                    line.works()
                    self.wake(*SHARED)

            while not self._stopping.is_set():
                try:
                    await wakes.listen(heard)
                except Exception as fault:
                    line.fails(fault)
                await self._back_off(max(1, line.failures))

    async def _await_ends(self, ends: Ends) -> None:
        with self._line("neighbour") as line:
            while not self._stopping.is_set():
                try:
                    await ends(lambda: self.wake(Topic.GONE), line.works)
                except Exception as fault:
                    line.fails(fault)
                await self._back_off(max(1, line.failures))

    def _line(self, name: str) -> _Line:
        return _Line(name, self._settings.backoff_most / SECOND)


class _Line:
    """A connection by which others are told or heard: how often in a row it failed, which is told as of a part. It is
    well again when it has worked for `steady` seconds: what works for a moment each time would be told without end."""

    def __init__(self, name: str, steady: float) -> None:
        self.failures = 0
        self._name, self._steady = name, steady
        self._alarm: asyncio.TimerHandle | None = None

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *fault: object) -> None:
        self._disarm()

    def works(self) -> None:
        if self.failures and self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._steady, self._well)

    def fails(self, fault: Exception) -> None:
        self._disarm()
        self.failures += 1
        _report(self._name, fault, self.failures)

    def _well(self) -> None:
        self._alarm = None
        log.info("%s works again after %d failures.", self._name, self.failures)
        self.failures = 0

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None


_KNOWN = frozenset(topic.value for topic in SHARED)


def _report(name: str, fault: Exception, failures: int) -> None:
    """Say it when it begins and then ever more rarely: an hour without a database is twenty lines, not a million."""
    if failures & (failures - 1):
        return
    more = f" ({failures} times in a row)" if failures > 1 else ""
    if isinstance(fault, Unavailable):
        log.warning("%s: %s%s It goes on by itself when that is over.", name, fault, more)
    else:
        log.error("%s failed%s: %r", name, more, fault, exc_info=fault)


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


async def _end(tasks: Sequence[asyncio.Task[object]]) -> list[BaseException]:
    """Cancel what still runs; the exceptions of those that had failed."""
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [one for one in results if isinstance(one, BaseException) and not isinstance(one, asyncio.CancelledError)]
