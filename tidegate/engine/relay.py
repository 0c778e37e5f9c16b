"""Carries the event log on to the sinks that people declared: at least once, in order for each schedule.

One scheduler does it, under the lease `relay`. Each sink has a place in the log. Events after it are read up to where
the log is settled, handed over, and the place is moved once the sink has taken them; it moves only from where it was
seen. What if this process dies in between: the next one hands them over again, from an earlier place and in the same
order, so whoever drops what he has seen (every message has an id) sees each event once and in order. The same where
another database server takes over: it may lack the last events, and what was read of them counts no more.

Handing over does not wait: a sink that is slow, or does not answer, holds up no other. It is tried ever more rarely, up
to half a minute, and keeps its place meanwhile. One that takes a part and tells no fault is handed the rest at once. An
event that a sink refuses for what it is (too large) is set aside, which is shown, and the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidegate.documents import event_shapes
from tidegate.domain.errors import TidegateError
from tidegate.domain.ids import Fence
from tidegate.domain.instants import DAY, MILLISECOND, SECOND, Duration, Instant, format_instant
from tidegate.domain.leases import Lease
from tidegate.engine.outcome import Outcome, Topic, earliest
from tidegate.ports.sinks import (
    Delivery,
    Message,
    Moved,
    Outgoing,
    Refusal,
    RelayStore,
    Replayed,
    Settled,
    Sink,
    SinkRecord,
    Sinks,
    Spot,
)

DUTY = "relay"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    look: Duration = 100 * MILLISECOND
    """How often the log is looked at."""
    refresh: Duration = 10 * SECOND
    """How often to ask which sinks there are, should every wake-up be lost."""
    refresh_soonest: Duration = SECOND
    term: Duration = 15 * SECOND
    """Of the lease; it is renewed after a third."""
    again: Duration = 2 * SECOND
    """When to look again after somebody else held the lease."""
    batch: int = 2000
    """Events that are read at once."""
    patience: Duration = SECOND
    """After the first failure of a sink in a row; doubles."""
    patience_most: Duration = 30 * SECOND
    keep: Duration = 10 * SECOND
    """How often the place of a sink is kept for which there was nothing."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events for one sink, and its place once they were taken."""

    events: Sequence[Outgoing]
    messages: Sequence[Message]
    end: Spot
    again: bool = False  # what it refused before and somebody asked for: its place stays

    def rest(self, passed: int) -> _Batch:
        """What is left once the first `passed` were taken."""
        return replace(self, events=self.events[passed:], messages=self.messages[passed:])


@dataclass(slots=True)
class _Post:
    """What is known of one sink. `spot`: its place as it is stored; `read`: how far it was read."""

    record: SinkRecord
    spot: Spot
    read: Spot
    kept: Instant = 0
    sink: Sink | None = None
    under_way: _Batch | None = None
    waiting: _Batch | None = None  # read while the other one is under way
    error: str = ""
    failures: int = 0
    until: Instant = 0
    asked: bool = False  # something that it refused is to be sent again

    def able(self, now: Instant) -> bool:
        """Whether the next batch may be read."""
        return self.waiting is None and self.until <= now

    def behind(self, batch: _Batch, passed: int) -> Spot:
        """Its place once the first `passed` of these were taken."""
        last = batch.events[passed - 1].spot if passed and not batch.again else self.spot
        return Spot(max(last.day, self.spot.day), last.pos)

    def turn_back(self) -> None:
        """Read on from the stored place."""
        self.read, self.waiting, self.under_way = self.spot, None, None


@dataclass(slots=True)
class _Pass:
    """What one step did."""

    did: int = 0
    notes: list[str] = field(default_factory=list)


class Relay:
    """A part of the scheduler."""

    name = "relay"
    topics = frozenset({Topic.DECLARED, Topic.BACKEND})

    def __init__(
        self, store: RelayStore, sinks: Sinks, fence: Fence, settings: RelaySettings = RelaySettings()
    ) -> None:
        self._store, self._sinks, self._fence, self._settings = store, sinks, fence, settings
        self._lease: Lease | None = None
        self._posts: dict[str, _Post] = {}
        self._asked: Instant | None = None
        self._stale = True
        self._held = False
        self._server, self._upto = 0, -1  # which server the log was read on, and how far it was settled there

    def hear(self, topic: Topic) -> None:
        """Declarations changed, or a sink is done."""
        if topic is Topic.DECLARED:
            self._stale = True

    async def close(self) -> None:
        """Leave off."""
        for name in list(self._posts):
            await self._drop(name)

    async def step(self, now: Instant) -> Outcome:
        """Take note of what was delivered, read on, hand over."""
        if not await self._leads(now):
            return Outcome(next=now + self._settings.again)
        await self._refresh(now)
        done = _Pass()
        for post in list(self._posts.values()):
            await self._take_note(post, now, done)
        if any(one.able(now) for one in self._posts.values()):
            settled = await self._store.settled(now)
            await self._meet(settled)
            done.notes += self._stalled(settled.held_by, settled.since)
            if any(one.able(now) and one.read.pos < settled.pos for one in self._posts.values()):
                await self._look()  # after it is known what is there: it meets what was declared before it
            for post in list(self._posts.values()):
                if post.able(now) and post.read.pos < settled.pos:
                    await self._read(post, settled.pos, now)
        for post in list(self._posts.values()):
            await self._hand_over(post, now, done)
        return Outcome(did=done.did, next=self._next(now), notes=tuple(done.notes))

    def _next(self, now: Instant) -> Instant | None:
        if not self._posts:
            return None
        again = earliest(one.until if one.until > now else now + self._settings.look for one in self._posts.values())
        return now + self._settings.look if again is None else again

    # ── who serves whom ────────────────────────────────────────────────────────────────────────────────────────────

    async def _leads(self, now: Instant) -> bool:
        lease, term = self._lease, self._settings.term
        if lease is not None and now < lease.asked_at + term // 3:
            return True
        token = await self._store.acquire(DUTY, self._fence, now, term)
        if token is None or lease is None or token != lease.token:
            await self.close()  # another may have moved them since
            self._stale = True
        self._lease = None if token is None else Lease(duty=DUTY, token=token, asked_at=now, term=term)
        return token is not None

    async def _refresh(self, now: Instant) -> None:
        asked, settings = self._asked, self._settings
        if asked is not None and now < asked + (settings.refresh_soonest if self._stale else settings.refresh):
            return
        await self._look()
        self._stale, self._asked = False, now

    async def _look(self) -> None:
        """Which sinks there are, and where."""
        known = {one.name: one for one in await self._store.sinks()}
        for name in [name for name, post in self._posts.items() if _other(post, known.get(name))]:
            await self._drop(name)
        for name, record in known.items():
            if name not in self._posts:
                self._posts[name] = _Post(record, record.spot, record.spot, error=record.error)
            self._posts[name].asked = record.asked

    async def _meet(self, settled: Settled) -> None:
        """Where another server tells of the log, or one that has forgotten some of it, what was read is worth nothing:
        positions may be given out again. Its stored places are as old as its log."""
        if settled.server != self._server or settled.pos < self._upto:
            await self.close()
            await self._look()
        self._server, self._upto = settled.server, settled.pos

    async def _drop(self, name: str) -> None:
        post = self._posts.pop(name, None)
        self._stale, self._asked = True, None
        if post is not None and post.sink is not None:
            await post.sink.close()

    def _stalled(self, by: str, since: Instant | None) -> list[str]:
        if bool(by) == self._held:
            return []
        self._held = bool(by)
        if since is None or not by:
            return ["The event log is read on."]
        return [f"The event log is not read on since {format_instant(since)}: {by} has a transaction open."]

    # ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, post: _Post, upto: int, now: Instant) -> None:
        """The next batch of a sink; where there is nothing for it, its place goes on all the same."""
        today = now // DAY
        found = await self._store.outgoing(post.read, upto, today, self._settings.batch)
        if len(found) < self._settings.batch:  # all there is
            end = Spot(max(post.read.day, today - 1, *[one.spot.day for one in found]), upto)
        else:
            end = Spot(max(post.read.day, *[one.spot.day for one in found]), found[-1].spot.pos)
        events = [one for one in found if post.record.spec.wants(one.record.type)]
        post.waiting = _Batch(events, [_message(one) for one in events], end)
        post.read = end

    # ── handing over ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _hand_over(self, post: _Post, now: Instant, done: _Pass) -> None:
        if post.under_way is not None or post.until > now:
            return
        if post.asked and (again := await self._again(post, now)) is not None:
            await self._begin(post, again, now, done)
            return
        if post.waiting is None or not post.waiting.messages:
            post.waiting = None  # nothing in it is for this sink: its place is kept now and then
            if post.read.pos > post.spot.pos and now >= post.kept + self._settings.keep:
                await self._move(post, post.read, now)
            return
        batch, post.waiting = post.waiting, None
        await self._begin(post, batch, now, done)

    async def _begin(self, post: _Post, batch: _Batch, now: Instant, done: _Pass) -> None:
        try:
            if post.sink is None:
                post.sink = self._sinks.open(post.record.name, post.record.spec)
        except TidegateError as fault:
            await self._failed(post, Delivery(passed=0, fault=str(fault)), batch, now, done)
            return
        post.under_way = batch
        post.sink.begin(batch.messages)

    async def _again(self, post: _Post, now: Instant) -> _Batch | None:
        """What it refused and somebody asked for again. What the log does not hold any more stays refused."""
        found = await self._store.asked_again(post.record.name, self._settings.batch)
        post.asked = len(found) == self._settings.batch
        gone = tuple((pos, "the log does not hold it any more") for pos, one in found if one is None)
        if gone:
            await self._replayed(post, Replayed(sink=post.record.name, rev=post.record.rev, refused=gone), now)
        events = [one for _, one in found if one is not None]
        if not events or post.record.name not in self._posts:
            return None
        return _Batch(events, [_message(one) for one in events], post.spot, again=True)

    async def _replayed(self, post: _Post, what: Replayed, now: Instant) -> None:
        try:
            async with self._store.transaction(self._fence) as tx:
                done = await tx.replayed(what, now)
        except TidegateError:
            await self._drop(post.record.name)
            raise
        if not done:
            await self._drop(post.record.name)

    async def _take_note(self, post: _Post, now: Instant, done: _Pass) -> None:
        """Of what the sink is done with."""
        batch = post.under_way
        if batch is None or post.sink is None or (delivery := post.sink.result()) is None:
            return
        post.under_way = None
        part = delivery.passed < len(batch.messages)
        if part and (delivery.fault or not delivery.passed):
            await self._failed(post, delivery, batch, now, done)
            return
        if post.error:
            done.notes.append(f"Sink {post.record.name!r} takes events again.")
        told, post.error, post.failures, post.until = post.error, "", 0, 0
        if batch.again and told:  # its place stays, and so would the error
            await self._move(post, post.spot, now)
        end = post.behind(batch, delivery.passed) if part else batch.end
        await self._passed(post, delivery, batch, end, now, done)
        if part and self._posts.get(post.record.name) is post:  # it wants the rest at once
            await self._begin(post, batch.rest(delivery.passed), now, done)

    async def _failed(self, post: _Post, delivery: Delivery, batch: _Batch, now: Instant, done: _Pass) -> None:
        settings = self._settings
        post.failures = 1 if delivery.passed else post.failures + 1
        post.until = now + min(settings.patience << min(post.failures - 1, 20), settings.patience_most)
        if not post.error:
            done.notes.append(
                f"Sink {post.record.name!r} takes no events: {delivery.fault} It is tried again; nothing is lost."
            )
        news, post.error = post.error != delivery.fault, delivery.fault
        if delivery.passed or news:
            await self._passed(post, delivery, batch, post.behind(batch, delivery.passed), now, done)
        post.turn_back()
        post.asked = post.asked or batch.again

    async def _passed(
        self, post: _Post, delivery: Delivery, batch: _Batch, spot: Spot, now: Instant, done: _Pass
    ) -> None:
        if batch.again:
            await self._passed_again(post, delivery, batch, now, done)
            return
        refused = tuple(Refusal(event=batch.events[place], reason=why) for place, why in delivery.refused)
        taken = delivery.passed - len(refused)
        if await self._move(post, spot, now, delivered=taken, refused=refused):
            done.did += delivery.passed
            done.notes += [
                f"Sink {post.record.name!r} refuses event {one.event.record.pos} ({one.event.record.type}), "
                f"which is set aside: {one.reason}"
                for one in refused
            ]

    async def _passed_again(self, post: _Post, delivery: Delivery, batch: _Batch, now: Instant, done: _Pass) -> None:
        positions = [one.record.pos for one in batch.events[: delivery.passed]]
        refused = tuple((positions[place], why) for place, why in delivery.refused)
        taken = tuple(pos for pos in positions if pos not in dict(refused))
        if post.error:
            post.asked = True  # the others are still to be sent
            await self._move(post, post.spot, now)
        what = Replayed(sink=post.record.name, rev=post.record.rev, taken=taken, refused=refused)
        if post.record.name in self._posts and (taken or refused):
            await self._replayed(post, what, now)
        done.did += len(positions)
        done.notes += [f"Sink {post.record.name!r} refuses event {pos} again: {why}" for pos, why in refused]

    async def _move(
        self, post: _Post, spot: Spot, now: Instant, *, delivered: int = 0, refused: tuple[Refusal, ...] = ()
    ) -> bool:
        """Keep its place. One that is no longer where it was seen is somebody else's: forget it and look anew."""
        moved = Moved(
            sink=post.record.name,
            rev=post.record.rev,
            seen=post.spot,
            spot=spot,
            server=self._server,
            delivered=delivered,
            refused=refused,
            error=post.error,
        )
        try:
            async with self._store.transaction(self._fence) as tx:
                done = await tx.relayed(moved, now)
        except TidegateError:  # it may have been moved or not
            await self._drop(post.record.name)
            raise
        if done:
            post.spot, post.kept = spot, now
        elif post.record.name in self._posts:
            await self._drop(post.record.name)
        return done


def _other(post: _Post, record: SinkRecord | None) -> bool:
    """Whether a sink is gone, was declared otherwise, or was moved by somebody else."""
    return record is None or record.rev != post.record.rev or record.spot.pos != post.spot.pos


def _message(one: Outgoing) -> Message:
    record = one.record
    return Message(
        id=str(record.pos),
        lane=one.schedule or record.key,
        type=record.type,
        at=record.at,
        body=event_shapes.message(record, one.schedule),
    )
