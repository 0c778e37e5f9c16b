"""Reading trees together with everything that is acknowledged for them, as the algebra wants it.

What came since a tree was last looked at is one `Bulk` a subscription, up to the first arrival that matters: one that
reaches a need, or came after a deadline that is looked at late. From there on everything is given singly, in the order
of arrivals. All of it is read up to one snapshot of the topics' totals: what is committed meanwhile is for next time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.domain.collected import Amount, Arrival, Bulk, Deadline, Facts, Marks, Subscription, Topic
from tidegate.domain.evidence import Reading
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.looking import canonical, subscriptions
from tidegate.domain.progress import COLLECTING, ticks_from
from tidegate.domain.schedules import Mode, Revision
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import Custom, Partition
from tidegate.ports.collecting import Collecting
from tidegate.store.arrays import Ints
from tidegate.store.connection import Row, Session
from tidegate.store.definitions import Definitions
from tidegate.store.events import logged
from tidegate.store.partitions import day_of
from tidegate.store.progress_codec import decode_progress
from tidegate.store.sql import load

Q = load("collecting")
_END = 1 << 62
_ONE = Amount(n=1)
_NOTHING: Mapping[str, object] = {}


@dataclass(slots=True)
class Place:
    """One subscription as it was read: where it stood, the topic's totals, and what it was given."""

    schedule: int
    node: int
    key: int
    base: int
    seen: int
    seen_rows: int
    seen_bytes: int
    day: int
    needs: Marks
    again: Sequence[tuple[int, int]]
    topic: Topic
    n: int
    rows: int
    bytes: int
    last_at: Instant
    subscription: Subscription
    singles: list[Row] = field(default_factory=list)
    bulk: int = 0
    reading: Reading | None = None


@dataclass(slots=True)
class Tree:
    """One schedule's tree, being read."""

    id: ScheduleId
    revision: Revision
    collecting: Collecting
    places: list[Place]


async def read_trees(
    session: Session,
    definitions: Definitions,
    schedules: Collection[int],
    now: Instant,
    *,
    locking: bool,
    ticks: Mapping[ScheduleId, Instant] | None = None,
) -> list[Tree]:
    """The trees of these schedules that collect, ascending; with `locking` their clocks are held from here on."""
    ids = Ints(sorted(set(schedules)))
    clocks = await session.rows(Q.lock if locking else Q.look, schedules=ids)
    if not clocks:
        return []
    learn = definitions
    revisions = await learn.revisions(session, {(row[0], row[1]) for row in clocks})
    programs = await learn.programs(session, {(row[3], row[4]) for row in clocks})
    names = await learn.names(session, [row[0] for row in clocks])
    there = Ints(row[0] for row in clocks)
    progress = {row[0]: row for row in await session.rows(Q.trees, schedules=there)}
    places = await _places(session, there, revisions, {row[0]: row[1] for row in clocks})
    due: dict[int, list[Deadline]] = {}
    for schedule, node, at in await session.rows(Q.deadlines, schedules=there, now=now):
        due.setdefault(schedule, []).append(Deadline(at=at, node=node))
    trees = []
    for schedule, rev, mode, program, program_rev, clock_due in clocks:
        if schedule not in progress or Mode(mode) not in COLLECTING:
            continue
        _, enabled_at, doc, last_start, last_end, busy = progress[schedule]
        revision = revisions[schedule, rev]
        collecting = Collecting(
            schedule_id=ScheduleId(schedule),
            name="/".join(names[schedule]),
            revision=revision,
            program=programs[program, program_rev],
            progress=decode_progress(doc),
            bulk=(),
            given=tuple(due.get(schedule, ())),
            facts=Facts(
                enabled_at=enabled_at,
                last_start=last_start,
                busy=busy,
                last_end=last_end,
                ticks_from=ticks_from(revision.spec.catch_up, now),
            ),
            clock_due=clock_due,
        )
        trees.append(Tree(ScheduleId(schedule), revision, collecting, places.get(schedule, [])))
    await _fill(session, trees, dict(ticks or {}))
    return trees


async def _places(
    session: Session, schedules: Ints, revisions: Mapping[tuple[int, int], Revision], newest: Mapping[int, int]
) -> dict[int, list[Place]]:
    known: dict[int, dict[tuple[int, Topic], Subscription]] = {}
    found: dict[int, list[Place]] = {}
    for row in await session.rows(Q.places, schedules=schedules):
        schedule, node = row[0], row[1]
        if schedule not in known:
            trigger = revisions[schedule, newest[schedule]].spec.trigger
            known[schedule] = {(one.node, one.topic): one for one in subscriptions(trigger)}
        topic = Topic(row[12], row[13], None if row[14] is None else canonical(row[14]))
        subscription = known[schedule].get((node, topic))
        if subscription is None:
            continue
        again = [(low, high) for low, high in row[11] or ()]
        found.setdefault(schedule, []).append(
            Place(
                schedule, node, row[2], row[3], row[4], row[5], row[6], row[7], Marks(*row[8:11]), again,
                topic, row[15], row[16], row[17], row[18], subscription,
            )
        )  # fmt: skip
    return found


async def _fill(session: Session, trees: Sequence[Tree], ticks: Mapping[ScheduleId, Instant]) -> None:
    """Give each tree what came for it."""
    crossings = await _crossings(session, trees, ticks)
    await _singles(session, trees, crossings)
    ends = await _ends(session, trees)
    payloads = await _payloads(session, trees)
    for tree in trees:
        _assemble(tree, ends, payloads)


async def _crossings(
    session: Session, trees: Sequence[Tree], ticks: Mapping[ScheduleId, Instant]
) -> dict[ScheduleId, int]:
    """The position from which on each tree is given everything singly."""
    asked: list[tuple[ScheduleId, Place, int, Instant | None]] = []
    for tree in trees:
        instants = [one.at for one in tree.collecting.given]
        if tree.id in ticks:
            instants.append(ticks[tree.id])
        due = min(instants, default=None)
        for place in tree.places:
            need, need_rows, need_bytes = place.needs
            reached = (
                (need is not None and place.n >= need)
                or (need_rows is not None and place.rows >= need_rows)
                or (need_bytes is not None and place.bytes >= need_bytes)
                or (due is not None and place.last_at >= due)
            )
            if reached and place.n > place.seen:
                only_number = need is not None and need_rows is None and need_bytes is None and due is None
                start = max(place.seen + 1, need) if only_number and need is not None else place.seen + 1
                asked.append((tree.id, place, start, due))
    if not asked:
        return {}
    rows = await session.rows(
        Q.crossings,
        keys=Ints(place.key for _, place, _, _ in asked),
        starts=Ints(start for _, _, start, _ in asked),
        ends=Ints(place.n for _, place, _, _ in asked),
        days=Ints(place.day for _, place, _, _ in asked),
        needs=Ints(place.needs[0] for _, place, _, _ in asked),
        need_rows=Ints(place.needs[1] for _, place, _, _ in asked),
        need_bytes=Ints(place.needs[2] for _, place, _, _ in asked),
        dues=Ints(due for _, _, _, due in asked),
        **_span((place.day, place) for _, place, _, _ in asked),
    )
    found: dict[ScheduleId, int] = {}
    for index, pos in rows:
        schedule = asked[index - 1][0]
        found[schedule] = min(found.get(schedule, _END), pos)
    return found


async def _singles(session: Session, trees: Sequence[Tree], crossings: Mapping[ScheduleId, int]) -> None:
    """Everything from the crossing on, and what is to be read once more."""
    asked: list[tuple[Place, int, int, int, bool]] = []
    for tree in trees:
        crossing = crossings.get(tree.id)
        for place in tree.places:
            asked += [(place, low + 1, high, 0, True) for low, high in place.again]
            if crossing is not None and place.n > place.seen:
                asked.append((place, place.seen + 1, place.n, crossing, False))
            place.bulk = place.n
    if not asked:
        return
    rows = await session.rows(
        Q.singles,
        keys=Ints(place.key for place, *_ in asked),
        starts=Ints(start for _, start, *_ in asked),
        ends=Ints(end for _, _, end, *_ in asked),
        days=Ints(0 if again else place.day for place, _, _, _, again in asked),
        positions=Ints(pos for *_, pos, _ in asked),
        **_span((0 if again else place.day, place) for place, _, _, _, again in asked),
    )
    for row in rows:
        place, _, _, _, again = asked[row[0] - 1]
        place.singles.append(row[1:])
        if not again:
            place.bulk = min(place.bulk, row[1] - 1)


async def _ends(session: Session, trees: Sequence[Tree]) -> dict[int, Row]:
    """By identity of the place: (first at, last at, rows, bytes) of its bulk."""
    bulks = [place for tree in trees for place in tree.places if place.bulk > place.seen]
    if not bulks:
        return {}
    rows = await session.rows(
        Q.ends,
        keys=Ints(place.key for place in bulks),
        firsts=Ints(place.seen + 1 for place in bulks),
        lasts=Ints(place.bulk for place in bulks),
        days=Ints(place.day for place in bulks),
        **_span((place.day, place) for place in bulks),
    )
    return {id(bulks[row[0] - 1]): row[1:] for row in rows}


def _span(asked: Iterable[tuple[int, Place]]) -> dict[str, int]:
    """Between which days everything lies that is asked for: no other partitions are opened. A topic's last arrival is
    of its last day."""
    found = [(first, day_of(place.last_at)) for first, place in asked]
    return {"first_day": min(first for first, _ in found), "last_day": max(last for _, last in found)}


async def _payloads(session: Session, trees: Sequence[Tree]) -> Mapping[tuple[int, int], Mapping[str, object]]:
    """Payloads for those leaves that look into them."""
    wanted: set[tuple[int, int]] = set()
    for tree in trees:
        nodes = tree_of(tree.revision.spec.trigger).nodes
        for place in tree.places:
            if isinstance(nodes[place.node], Partition | Custom):
                wanted |= {(row[7], row[8]) for row in place.singles}
    return {where: one.record.payload for where, one in (await logged(session, wanted)).items()}


def _assemble(tree: Tree, ends: Mapping[int, Row], payloads: Mapping[tuple[int, int], Mapping[str, object]]) -> None:
    bulks: list[Bulk] = []
    by_pos: dict[int, list[tuple[Place, Row]]] = {}
    for place in tree.places:
        if place.bulk > place.seen:
            first, last, rows, sizes = ends[id(place)]
            if place.bulk == place.n:
                last, rows, sizes = place.last_at, place.rows, place.bytes
            amount = Amount(
                n=place.bulk - place.seen,
                rows=(place.seen_rows if rows is None else rows) - place.seen_rows,
                bytes=(place.seen_bytes if sizes is None else sizes) - place.seen_bytes,
            )
            last = place.last_at if last is None else last
            bulks.append(
                Bulk(
                    subscription=place.subscription,
                    amount=amount,
                    first_at=last if first is None else first,
                    last_at=last,
                )
            )
        for row in place.singles:
            by_pos.setdefault(row[1], []).append((place, row))
    arrivals, at_of = _in_order(by_pos, payloads)
    for place in tree.places:
        ones = tuple([(row[1], at_of[row[1]], row[0]) for row in place.singles if row[0] > place.bulk])
        place.reading = Reading(
            subscription=place.subscription, key_id=place.key, base=place.base, bulk=place.bulk, singles=ones
        )
    tree.collecting = replace(tree.collecting, bulk=tuple(bulks), given=(*arrivals, *tree.collecting.given))


def _in_order(
    by_pos: Mapping[int, Sequence[tuple[Place, Row]]], payloads: Mapping[tuple[int, int], Mapping[str, object]]
) -> tuple[list[Arrival], dict[int, Instant]]:
    """Arrivals by position. One that is earlier by the clock than the one before it counts from that one's instant."""
    found: list[Arrival] = []
    at_of: dict[int, Instant] = {}
    at = 0
    for pos, ones in sorted(by_pos.items()):
        for _, row in ones:
            at = max(at, row[2])
        at_of[pos] = at
        found.append(
            Arrival(
                pos=pos,
                at=at,
                subscriptions=tuple([place.subscription for place, _ in ones]),
                amount=Amount(n=1, rows=row[3], bytes=row[4]) if row[3] or row[4] else _ONE,
                payload=payloads.get((row[7], row[8]), _NOTHING) if payloads else _NOTHING,
            )
        )
    return found, at_of
