"""The loop: who is called when, what an exception costs, how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

import pytest

from tidegate.domain.errors import Fenced, Unavailable
from tidegate.domain.instants import MILLISECOND, SECOND, Instant
from tidegate.engine.loop import Loop, LoopSettings
from tidegate.engine.outcome import Outcome, Topic

QUICK = LoopSettings(poll=SECOND, backoff=5 * MILLISECOND, backoff_most=20 * MILLISECOND)


class DatabaseTime:
    """The loop's own clock, a fixed and large while away from it: nobody may mix the two up."""

    async def now(self) -> Instant:
        return 1_700_000_000 * SECOND + int(asyncio.get_running_loop().time() * SECOND)


class Scripted:
    """A part that does what it is told, and remembers when it was called."""

    def __init__(
        self, step: Callable[[Instant, int], Outcome], name: str = "scripted", topics: Collection[Topic] = ()
    ) -> None:
        self.name = name
        self.topics = frozenset(topics)
        self.calls: list[Instant] = []
        self.heard: list[Topic] = []
        self._step = step

    def hear(self, topic: Topic) -> None:
        self.heard.append(topic)

    async def step(self, now: Instant) -> Outcome:
        self.calls.append(now)
        return self._step(now, len(self.calls))


class Air:
    """Wake-ups between processes."""

    def __init__(self) -> None:
        self.said: list[list[str]] = []
        self.heard: Callable[[str], None] = lambda _: None
        self.broken = 0

    async def announce(self, topics: Collection[str]) -> None:
        self.said.append(sorted(topics))

    async def listen(self, heard: Callable[[str], None]) -> None:
        if self.broken:
            self.broken -= 1
            raise Unavailable("not yet")
        self.heard = heard
        heard("")
        await asyncio.Event().wait()


async def run_for(loop: Loop, seconds: float, *, meanwhile: Callable[[], None] | None = None) -> None:
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(seconds / 2)
    if meanwhile:
        meanwhile()
    await asyncio.sleep(seconds / 2)
    loop.stop()
    await asyncio.wait_for(task, 5)


@pytest.mark.requirement("HA-6")
def test_a_part_is_called_at_the_instant_it_asked_for_by_the_databases_clock() -> None:
    late: list[int] = []
    wanted: list[Instant] = []

    def step(now: Instant, _: int) -> Outcome:
        if wanted and now >= wanted[-1]:
            late.append(now - wanted[-1])
            wanted.clear()
        if not wanted:
            wanted.append(now + 20 * MILLISECOND)
        return Outcome(next=wanted[-1])

    part = Scripted(step)
    asyncio.run(run_for(Loop(DatabaseTime(), [part], settings=QUICK), 0.5))
    assert len(late) >= 10
    assert sorted(late)[len(late) // 2] < 5 * MILLISECOND


def test_a_part_with_more_to_do_is_called_again_at_once() -> None:
    part = Scripted(lambda now, n: Outcome(did=1, left=n < 50))
    asyncio.run(run_for(Loop(DatabaseTime(), [part], settings=QUICK), 0.1))
    assert len(part.calls) == 50


def test_a_part_that_finds_nothing_does_not_spin() -> None:
    part = Scripted(lambda now, _: Outcome(next=now - SECOND))
    asyncio.run(run_for(Loop(DatabaseTime(), [part], settings=QUICK), 0.2))
    assert 5 <= len(part.calls) <= 25


def test_every_part_is_called_once_a_second_though_every_wake_up_is_lost() -> None:
    settings = LoopSettings(poll=30 * MILLISECOND)
    part = Scripted(lambda now, _: Outcome(next=now + 1000 * SECOND))
    asyncio.run(run_for(Loop(DatabaseTime(), [part], settings=settings), 0.3))
    assert 5 <= len(part.calls) <= 11


def test_a_wake_up_reaches_the_parts_of_its_topic_and_no_others() -> None:
    idle = Scripted(lambda *_: Outcome(), "idle", [Topic.CLOCK])
    woken = Scripted(lambda *_: Outcome(), "woken", [Topic.ADMIT])
    teller = Scripted(lambda _, n: Outcome(did=1, wakes=frozenset({Topic.ADMIT})), "teller")
    asyncio.run(run_for(Loop(DatabaseTime(), [idle, woken, teller], settings=QUICK), 0.1))
    assert woken.heard and not idle.heard
    assert len(woken.calls) == 2 and len(idle.calls) == 1


def test_a_wake_up_during_a_step_is_not_lost() -> None:
    loop: list[Loop] = []

    def step(now: Instant, n: int) -> Outcome:
        if n == 1:
            loop[0].wake(Topic.ADMIT)
        return Outcome()

    part = Scripted(step, topics=[Topic.ADMIT])

    async def go() -> None:
        loop.append(Loop(DatabaseTime(), [part], settings=QUICK))
        await run_for(loop[0], 0.1)

    asyncio.run(go())
    assert len(part.calls) == 2


@pytest.mark.requirement("RUN-3", "HA-8")
def test_a_failing_part_is_backed_off_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fail(now: Instant, n: int) -> Outcome:
        if n < 6:
            raise Unavailable("The database does not answer.")
        return Outcome()

    failing, other = Scripted(fail, "failing"), Scripted(lambda now, _: Outcome(next=now + 10 * MILLISECOND), "other")
    loop = Loop(DatabaseTime(), [failing, other], settings=QUICK)
    with caplog.at_level(logging.INFO, "tidegate.engine"):
        asyncio.run(run_for(loop, 0.4))
    assert len(failing.calls) == 6, "it goes on by itself"
    assert len(other.calls) > 20
    assert loop.meters.of("failing").failures == 5 and loop.meters.of("other").failures == 0
    said = [record.getMessage() for record in caplog.records if "failing" in record.getMessage()]
    assert len(said) == 4, "failures 1, 2 and 4, and that it works again"
    assert "works again after 5 failures" in said[-1]


def test_a_fault_of_our_own_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    def fail(now: Instant, n: int) -> Outcome:
        raise KeyError("oops")

    with caplog.at_level(logging.ERROR, "tidegate.engine"):
        asyncio.run(run_for(Loop(DatabaseTime(), [Scripted(fail)], settings=QUICK), 0.05))
    assert caplog.records[0].exc_info is not None


def test_fenced_ends_the_loop_and_every_part() -> None:
    def fail(now: Instant, n: int) -> Outcome:
        if n == 2:
            raise Fenced("declared dead")
        return Outcome(did=1, left=True)

    other = Scripted(lambda now, _: Outcome(next=now + 5 * MILLISECOND), "other")

    async def go() -> None:
        with pytest.raises(Fenced):
            await asyncio.wait_for(Loop(DatabaseTime(), [Scripted(fail), other], settings=QUICK).run(), 5)
        seen = len(other.calls)
        await asyncio.sleep(0.05)
        assert len(other.calls) == seen

    asyncio.run(go())


def test_a_stop_lets_the_step_end() -> None:
    done = []

    class Slow(Scripted):
        async def step(self, now: Instant) -> Outcome:
            await asyncio.sleep(0.1)
            done.append(now)
            return Outcome()

    async def go() -> None:
        loop = Loop(DatabaseTime(), [Slow(lambda *_: Outcome())], settings=QUICK)
        task = asyncio.create_task(loop.run())
        await asyncio.sleep(0.02)
        loop.stop()
        await task

    asyncio.run(go())
    assert len(done) == 1


def test_announcements_are_few_and_only_for_others() -> None:
    def busy(now: Instant, n: int) -> Outcome:
        return Outcome(did=1, left=n < 400, wakes=frozenset({Topic.READY, Topic.ADMIT, Topic.BACKEND}))

    air = Air()
    admitter = Scripted(lambda *_: Outcome(), "admitter", [Topic.ADMIT])
    asyncio.run(run_for(Loop(DatabaseTime(), [Scripted(busy), admitter], wakes=air, settings=QUICK), 0.2))
    assert air.said and all(said == ["ready"] for said in air.said)
    assert len(air.said) <= 20


@pytest.mark.requirement("LIFE-7")
def test_what_others_announce_wakes_and_a_lost_connection_is_made_good() -> None:
    air = Air()
    air.broken = 2
    part = Scripted(lambda *_: Outcome(), topics=[Topic.STOP])
    loop = Loop(DatabaseTime(), [part], wakes=air, settings=QUICK)
    asyncio.run(run_for(loop, 0.3, meanwhile=lambda: (air.heard("stop"), air.heard("nonsense"))[0]))
    assert part.heard == [Topic.STOP, Topic.STOP], "once when it could listen again, once when it was told"
    assert len(part.calls) == 3


@pytest.mark.requirement("HA-2")
def test_the_end_of_another_process_wakes_whom_it_concerns_and_a_lost_connection_is_made_good() -> None:
    tries: list[Callable[[], None]] = []

    async def ends(ended: Callable[[], None], begun: Callable[[], None]) -> None:
        tries.append(ended)
        if len(tries) < 3:
            raise Unavailable("not yet")
        begun()
        await asyncio.Event().wait()

    part, other = Scripted(lambda *_: Outcome(), topics=[Topic.GONE]), Scripted(lambda *_: Outcome(), "other")
    loop = Loop(DatabaseTime(), [part, other], ends=ends, settings=QUICK)
    asyncio.run(run_for(loop, 0.2, meanwhile=lambda: tries[-1]()))
    assert len(tries) == 3
    assert part.heard == [Topic.GONE] and len(part.calls) == 2 and len(other.calls) == 1


class Deaf(Air):
    """Wake-ups and ends of others that fail `times` each, by any fault, and then work."""

    def __init__(self, fault: Exception, times: int, *, moments: bool = False) -> None:
        super().__init__()
        self.fault, self.left, self.moments = fault, dict.fromkeys(("listen", "announce", "ends"), times), moments

    def fail(self, what: str) -> None:
        if self.left[what]:
            self.left[what] -= 1
            raise self.fault

    async def announce(self, topics: Collection[str]) -> None:
        self.fail("announce")

    async def listen(self, heard: Callable[[str], None]) -> None:
        if self.moments:
            heard("")
        self.fail("listen")
        heard("")
        await asyncio.Event().wait()

    async def ends(self, ended: Callable[[], None], begun: Callable[[], None]) -> None:
        if self.moments:
            begun()
        self.fail("ends")
        begun()
        await asyncio.Event().wait()


def told(deaf: Deaf, caplog: pytest.LogCaptureFixture, enough: Callable[[], bool]) -> list[logging.LogRecord]:
    """What the log says until it is enough."""
    part = Scripted(lambda now, n: Outcome(did=1, wakes=frozenset({Topic.READY}), next=now + 10 * MILLISECOND), "busy")

    async def go() -> None:
        task = asyncio.create_task(Loop(DatabaseTime(), [part], wakes=deaf, ends=deaf.ends, settings=QUICK).run())
        async with asyncio.timeout(30):
            while not enough():
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.INFO, "tidegate.engine"):
        asyncio.run(go())
    return caplog.records


OTHERS = ("listener", "announcer", "neighbour")


@pytest.mark.requirement("HA-8", "OPS-11")
def test_who_cannot_hear_or_tell_others_says_so_ever_more_rarely_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deaf = Deaf(Unavailable("The database does not answer."), 6)

    def well() -> bool:
        said = [one.getMessage() for one in caplog.records]
        return all(f"{name} works again after 6 failures." in said for name in OTHERS)

    records = told(deaf, caplog, well)
    for name in OTHERS:
        said = [one for one in records if one.getMessage().startswith(name)]
        assert [one.levelname for one in said] == ["WARNING"] * 3 + ["INFO"], "failures 1, 2 and 4, and the end"
        assert not any(one.exc_info for one in said)


@pytest.mark.parametrize("moments", [False, True])
def test_a_fault_of_our_own_in_hearing_others_is_logged_with_its_place(
    caplog: pytest.LogCaptureFixture, moments: bool
) -> None:
    """Also where each try begins well: what works for a moment only is no end of it."""
    deaf = Deaf(TypeError("oops"), 1 << 30, moments=moments)

    def enough() -> bool:
        return min((1 << 30) - left for left in deaf.left.values()) > 12

    records = told(deaf, caplog, enough)
    for name in OTHERS:
        said = [one for one in records if one.getMessage().startswith(name)]
        assert len(said) <= 8 and all(one.exc_info and one.levelname == "ERROR" for one in said)
        assert [one.getMessage() for one in said][:2] == [
            f"{name} failed: TypeError('oops')", f"{name} failed (2 times in a row): TypeError('oops')",
        ]  # fmt: skip


def test_meters_count_steps_work_and_time() -> None:
    part = Scripted(lambda now, n: Outcome(did=3, left=n < 4))
    loop = Loop(DatabaseTime(), [part], settings=QUICK)
    asyncio.run(run_for(loop, 0.05))
    meter = loop.meters.of("scripted")
    assert (meter.steps, meter.did, meter.failures) == (4, 12, 0)
    assert 0 < meter.longest <= meter.seconds
