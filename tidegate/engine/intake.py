"""Makes messages of other systems events: each exactly one.

A source is read by one scheduler at a time, under its lease `source NAME`. What it gives is made events, published in
the transaction that moves its places on; and they move only from the version that was seen. What if this process dies
in between: before the commit nothing was published, and the next one reads the same messages again; after it they lie
before its places. The same where nobody knows whether a commit happened: the source is opened anew from what is stored.

A message that is no event is set aside, with the reason, and the others go on. So are messages that the database
refuses for what they are: where it refuses many at once, halves are tried, down to the one.

Sources are shared among schedulers by their leases. Where one has more than its share, since another has come, it gives
the rest up and leaves them alone for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidegate.documents import sources
from tidegate.domain.errors import UNSTORABLE, Invalid, Refused, TidegateError
from tidegate.domain.ids import Fence
from tidegate.domain.instants import MILLISECOND, SECOND, Duration, Instant
from tidegate.domain.leases import Lease
from tidegate.domain.sources import Record
from tidegate.engine.outcome import Outcome, Topic, earliest
from tidegate.ports.collecting import NewEvent
from tidegate.ports.sources import Feed, Feeds, Haul, IntakeStore, Misfit, Place, SourceRecord, Taken

ROLE = "scheduler"
REASON = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeSettings:
    look: Duration = 500 * MILLISECOND
    """How often sources are asked, should every wake-up be lost."""
    refresh: Duration = 10 * SECOND
    """How often to ask which sources there are, and who else reads them."""
    refresh_soonest: Duration = SECOND
    term: Duration = 15 * SECOND
    """Of a lease; it is renewed after a third."""
    again: Duration = 2 * SECOND
    """When to look again after somebody else held the lease."""
    patience: Duration = 10 * SECOND
    """Until a source that cannot be opened is tried again, and one that was given up is asked for again."""


@dataclass(slots=True)
class _Post:
    """What is known of one source."""

    record: SourceRecord
    lease: Lease | None = None
    feed: Feed | None = None
    until: Instant = 0  # before that it is left alone

    @property
    def duty(self) -> str:
        return f"source {self.record.name}"


@dataclass(slots=True)
class _Pass:
    """What one step did."""

    did: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Messages that are events, those that are not, and why."""

    events: Sequence[tuple[Record, NewEvent]]
    misfits: Sequence[Misfit]


class Intake:
    """A part of the scheduler."""

    name = "intake"
    topics = frozenset({Topic.DECLARED, Topic.BACKEND})

    def __init__(
        self, store: IntakeStore, feeds: Feeds, fence: Fence, settings: IntakeSettings = IntakeSettings()
    ) -> None:
        self._store, self._feeds, self._fence, self._settings = store, feeds, fence, settings
        self._posts: dict[str, _Post] = {}
        self._asked: Instant | None = None
        self._stale = True
        self._others = 0  # schedulers, when shares were last looked at

    def hear(self, topic: Topic) -> None:
        """Declarations changed, or a source has something."""
        if topic is Topic.DECLARED:
            self._stale = True

    async def close(self) -> None:
        """Leave off."""
        for post in list(self._posts.values()):
            await self._part(post)

    async def step(self, now: Instant) -> Outcome:
        """Take down what sources gave, and ask for more."""
        await self._refresh(now)
        done = _Pass()
        for post in list(self._posts.values()):
            if post.until <= now and await self._leads(post, now):
                await self._serve(post, now, done)
        return Outcome(
            did=done.did,
            next=self._next(now),
            wakes=frozenset({Topic.EVENTS}) if done.did else frozenset(),
            notes=tuple(done.notes),
        )

    def _next(self, now: Instant) -> Instant | None:
        look = now + self._settings.look
        return earliest(max(one.until, look) for one in self._posts.values())

    # ── who reads what ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _refresh(self, now: Instant) -> None:
        asked, settings = self._asked, self._settings
        if asked is not None and now < asked + (settings.refresh_soonest if self._stale else settings.refresh):
            return
        self._stale, self._asked = False, now
        known = {one.name: one for one in await self._store.sources()}
        for name, post in list(self._posts.items()):
            record = known.get(name)
            if record is None or record.version != post.record.version:  # gone, declared otherwise, or moved by another
                await self._part(post)
                post.until = 0
            if record is None:
                await self._give_up(post)
                del self._posts[name]
            elif post.feed is None:
                post.record = record
        for name, record in known.items():
            if name not in self._posts:
                self._posts[name] = _Post(record)
        await self._share(now)

    async def _share(self, now: Instant) -> None:
        """Give up what is more than this one's share, if another has come. Who has gone is no reason: what he read is
        taken by whoever finds it first."""
        mine = [post for post in self._posts.values() if post.lease is not None]
        if not mine or len(self._posts) < 2:
            return
        here = sum(one.role == ROLE for one in await self._store.alive()) or 1
        come, self._others = here > self._others, here
        share = -(-len(self._posts) // here)
        if not come or len(mine) <= share:
            return
        for post in mine[share:]:
            await self._part(post)
            await self._give_up(post)
            post.until = now + self._settings.patience

    async def _give_up(self, post: _Post) -> None:
        lease, post.lease = post.lease, None
        if lease is not None:
            await self._store.release(lease.duty, self._fence, lease.token)

    async def _leads(self, post: _Post, now: Instant) -> bool:
        lease, term = post.lease, self._settings.term
        if lease is not None and now < lease.asked_at + term // 3:
            return True
        token = await self._store.acquire(post.duty, self._fence, now, term)
        if token is None or lease is None or token != lease.token:
            await self._part(post)  # another may have moved it since
        post.lease = None if token is None else Lease(duty=post.duty, token=token, asked_at=now, term=term)
        if token is None:
            post.until = now + self._settings.again
        return token is not None

    async def _part(self, post: _Post) -> None:
        feed, post.feed = post.feed, None
        if feed is not None:
            await feed.close()

    # ── taking down ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, post: _Post, now: Instant, done: _Pass) -> None:
        if post.feed is None and not await self._open(post, now, done):
            return
        assert post.feed is not None
        haul = post.feed.result()
        if haul is None:
            return
        try:
            taken = await self._take(post, haul, now, done)
        except TidegateError:  # it may have moved or not
            await self._part(post)
            self._stale, self._asked = True, None
            raise
        if not taken or haul.ended or post.feed is None:
            await self._part(post)
            self._stale, self._asked = True, None if not taken else self._asked
            post.until = now + (self._settings.patience if haul.ended else self._settings.again)
        else:
            post.feed.begin()

    async def _open(self, post: _Post, now: Instant, done: _Pass) -> bool:
        """Open it at its places as they are stored."""
        found = [one for one in await self._store.sources() if one.name == post.record.name]
        if not found:
            self._stale, self._asked = True, None
            return False
        post.record = found[0]
        try:
            post.feed = self._feeds.open(post.record.name, post.record.spec, post.record.places)
        except TidegateError as fault:
            post.until = now + self._settings.patience
            await self._take(post, Haul(fault=str(fault)), now, done)
            return False
        post.feed.begin()
        return True

    async def _take(self, post: _Post, haul: Haul, now: Instant, done: _Pass) -> bool:
        """Take a haul down. False: somebody else moved the source, or declared it otherwise."""
        before = post.record.error
        if not (haul.records or haul.places or haul.lost) and haul.fault == before:
            return True
        sorted_ = self._sort(post, haul.records, now)
        if not await self._commit(post, haul, sorted_, now, done):
            return False
        name = post.record.name
        if haul.fault and not before:
            done.notes.append(f"Source {name!r} gives no messages: {haul.fault} It is tried again; nothing is lost.")
        elif before and not haul.fault:
            done.notes.append(f"Source {name!r} gives messages again.")
        done.notes += [
            f"Source {name!r}: partition {one.partition} of {one.topic!r} from offset {one.first}: {one.reason}"
            for one in haul.lost
        ]
        return True

    def _sort(self, post: _Post, records: Sequence[Record], now: Instant) -> _Sorted:
        events: list[tuple[Record, NewEvent]] = []
        misfits: list[Misfit] = []
        for one in records:
            try:
                events.append((one, sources.event_of(post.record.spec, post.record.name, one, now)))
            except Invalid as wrong:
                misfits.append(_misfit(one, "; ".join(map(str, wrong.faults))))
        return _Sorted(events, misfits)

    async def _commit(self, post: _Post, haul: Haul, found: _Sorted, now: Instant, done: _Pass) -> bool:
        """A haul in one transaction; where the database refuses it for what is in it, in ever smaller ones."""
        try:
            return await self._write(post, haul, found, now, done)
        except Refused as refusal:
            if refusal.code != UNSTORABLE or not haul.records:
                raise
            if len(haul.records) == 1:  # this is the one
                alone = _Sorted((), [_misfit(haul.records[0], f"the database refuses it: {refusal}")])
                return await self._write(post, haul, alone, now, done)
            middle = len(haul.records) // 2
            first = replace(haul, records=haul.records[:middle], places=_behind(haul, middle), lost=())
            rest = replace(haul, records=haul.records[middle:])
            for part in (first, rest):
                if not await self._commit(post, part, self._sort(post, part.records, now), now, done):
                    return False
            return True

    async def _write(self, post: _Post, haul: Haul, found: _Sorted, now: Instant, done: _Pass) -> bool:
        record = post.record
        assert post.lease is not None
        lost = [
            Misfit(topic=one.topic, partition=one.partition, offset=one.first, reason=one.reason) for one in haul.lost
        ]
        taken = Taken(
            source=record.name,
            version=record.version,
            token=post.lease.token,
            places=haul.places,
            received=len(haul.records),
            missed=sum(one.count for one in haul.lost),
            error=haul.fault,
        )
        async with self._store.transaction(self._fence) as tx:
            version = await tx.took(taken, now)
            if version is None:
                return False
            misfits = list(found.misfits)
            if found.events:
                receipts = await tx.publish([event for _, event in found.events], now)
                for (one, event), receipt in zip(found.events, receipts, strict=True):
                    if receipt.conflict:
                        misfits.append(_misfit(one, f"the id {event.id!r} was used before for another event"))
            if misfits or lost:
                await tx.set_aside_messages(record.name, [*misfits, *lost], len(misfits), now)
        post.record = replace(record, version=version, error=haul.fault)
        done.did += len(haul.records)
        if misfits:
            done.notes.append(_told(record.name, misfits))
        return True


def _misfit(record: Record, reason: str) -> Misfit:
    return Misfit(topic=record.topic, partition=record.partition, offset=record.offset, reason=reason[:REASON])


def _told(source: str, misfits: Sequence[Misfit]) -> str:
    first = misfits[0]
    more = f", and {len(misfits) - 1} more" if len(misfits) > 1 else ""
    where = f"{first.topic!r}, partition {first.partition}, offset {first.offset}"
    return f"Source {source!r} sets aside what is no event: {where}{more}: {first.reason}"


def _behind(haul: Haul, count: int) -> Sequence[Place]:
    """Where partitions stand behind the first messages of a haul."""
    known = {(one.topic, one.partition): one for one in haul.places}
    reached = {(one.topic, one.partition): one.offset + 1 for one in haul.records[:count]}
    return [replace(known[at], next=next) for at, next in reached.items()]
