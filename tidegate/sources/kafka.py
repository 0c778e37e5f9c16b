"""Topics of Kafka, read from the places that the database knows.

Partitions are assigned by hand and read from given offsets: no group is joined and no offset committed, so there is one
truth about what was read. Messages of transactions that were given up are passed over.

A topic that is deleted and made anew has the same name and begins at offset 0 again. Brokers tell the two apart by an
id, which is kept with each place, and which is asked for *after* messages were read and before they are given: as an id
never comes back, the messages are then of the topic that they seem to be of. Of a new one everything is read, whatever
the old one still had is lost, which is told. (Brokers before 2.8 tell no ids: there it is seen only where the new topic
is shorter than the old one was read.)

Where retention drops messages before they are read, it is told how many, and what is left is read. A topic that is not
there yet is waited for and then read from its beginning, as are partitions that come later.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate.documents.references import revealed
from tidegate.domain.instants import MILLISECOND
from tidegate.domain.sources import OLDEST, Record, SourceSpec
from tidegate.ports.sources import ABSENT, Haul, Lost, Place

MOST, MOST_BYTES = 1000, 4_000_000
"""Of one haul."""
LOOK = 5.0
"""Seconds between two looks at which partitions there are, and until a broker that did not answer is asked again."""
ANSWER = 5.0
"""Seconds that a broker has to answer."""
_POLL = 0.5
_SILENT = logging.getLogger("tidegate.sources.librdkafka")
"""For what librdkafka says of every connection that it tries: what matters comes as an error."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_ASIDE = frozenset({*_GONE, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._PARTITION_EOF})
"""Errors of a partition that the next look explains."""
Partition = tuple[str, int]
"""Topic and number."""


class KafkaFeed:
    """`ports.sources.Feed`: one thread, which has the consumer to itself."""

    def __init__(self, name: str, spec: SourceSpec, places: Sequence[Place], changed: Callable[[], None]) -> None:
        self._spec, self._changed = spec, changed
        self._options = _options(name, spec)
        self._places: dict[Partition, Place] = {(one.topic, one.partition): one for one in places}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"source-{name}")
        self._under_way: asyncio.Future[Haul] | None = None
        self._left = threading.Event()
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None
        self._there: dict[str, tuple[str, int]] = {}  # topic -> its id and how many partitions it has
        self._looked = 0.0
        self._unsure = True  # whether places may lie outside of what there is
        self._news: dict[Partition, Place] = {}
        self._lost: list[Lost] = []
        self._fault = self._told = self._why = ""

    def begin(self) -> None:
        assert self._under_way is None, "one haul after the other"
        self._under_way = asyncio.get_running_loop().run_in_executor(self._thread, self._haul)
        self._under_way.add_done_callback(lambda _: self._changed())

    def result(self) -> Haul | None:
        if self._under_way is None or not self._under_way.done():
            return None
        task, self._under_way = self._under_way, None
        if task.cancelled():
            return Haul(ended=True)
        fault = task.exception()
        if fault is not None:  # a mistake of ours, or of a library: told as any other, so that it holds up no other
            return Haul(fault=f"{type(fault).__name__}: {fault}", ended=True)
        return task.result()

    async def close(self) -> None:
        """Does not wait for the thread, which ends by itself once a broker's answer is no longer waited for."""
        self._left.set()
        self._thread.submit(self._shut)
        self._thread.shutdown(wait=False)

    # ── in the thread ──────────────────────────────────────────────────────────────────────────────────────────────

    def _shut(self) -> None:
        if self._consumer is not None:
            with suppress(KafkaException, RuntimeError):
                self._consumer.close()
        self._consumer = self._admin = None

    def _haul(self) -> Haul:
        """The next, once there is something to tell."""
        while not self._left.is_set():
            records: list[Record] = []
            try:
                if monotonic() >= self._looked + LOOK:
                    self._look()
                if self._there:
                    records = self._read()
                if records:
                    self._identify()
                    records = [one for one in records if self._take(one)]
            except KafkaException as fault:
                self._says(f"Kafka does not answer: {_said(fault.args[0])}")
                records = []
                self._assign()  # what was read and not given is read again
                self._looked = monotonic()
            if records or self._news or self._lost or self._fault != self._told:
                return self._given(records)
            if not self._there:
                self._left.wait(_POLL)
        return Haul()

    def _given(self, records: Sequence[Record]) -> Haul:
        told = Haul(
            records=records,
            places=[self._ended(one) for _, one in sorted(self._news.items())],
            lost=tuple(self._lost),
            fault=self._fault,
        )
        self._news, self._lost, self._told = {}, [], self._fault
        return told

    def _says(self, fault: str) -> None:
        self._fault = fault + (f" ({self._why})" if self._why and self._why not in fault else "") + "."

    def _hear(self, error: KafkaError) -> None:
        self._why = _said(error)

    # ── what there is ──────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        """Which topics and partitions there are; where each is read on. Raises KafkaException."""
        if self._consumer is None or self._admin is None:
            common = {**self._options, "error_cb": self._hear}
            self._admin = AdminClient(
                {key: value for key, value in common.items() if key not in _CONSUMER}, logger=_SILENT
            )
            self._consumer = Consumer(common, logger=_SILENT)
        there, faults = self._describe()
        self._looked = monotonic()
        if there != self._there or self._unsure:
            before, self._there = self._there, there
            try:
                for topic, (generation, count) in there.items():
                    self._place(topic, generation, count, before)
            except BaseException:
                self._there = before
                raise
            self._unsure = False
            self._assign()
        self._why = ""
        self._fault = ""
        if faults:
            self._says("; ".join(faults))

    def _describe(self) -> tuple[dict[str, tuple[str, int]], list[str]]:
        """Topics that are there, with id and number of partitions; what is wrong with the others."""
        assert self._admin is not None
        asked = self._admin.describe_topics(TopicCollection(list(self._spec.topics)), request_timeout=ANSWER)
        there: dict[str, tuple[str, int]] = {}
        faults: list[str] = []
        for topic, answer in asked.items():
            try:
                found = answer.result(ANSWER + 1)
            except TimeoutError:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
            except KafkaException as fault:
                code = fault.args[0].code()
                if code in _GONE:
                    faults.append(f"there is no topic {topic!r}")
                    if not any(known == topic for known, _ in self._places):
                        self._move(Place(topic=topic, partition=ABSENT, generation="", next=0))
                elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    faults.append(f"topic {topic!r} may not be read: {_said(fault.args[0])}")
                else:
                    raise
            else:
                id = found.topic_id
                told = id.get_most_significant_bits() or id.get_least_significant_bits()
                there[topic] = (str(id) if told else "", len(found.partitions))
        return there, faults

    def _place(self, topic: str, generation: str, count: int, before: Mapping[str, tuple[str, int]]) -> None:
        """Where each partition of a topic is read on. Raises KafkaException."""
        assert self._consumer is not None
        if before.get(topic) != (generation, count):
            self._consumer.list_topics(topic, timeout=ANSWER)  # what it remembers of the topic is renewed
        known = any(one == topic for one, _ in self._places)
        for number in range(count):
            place = self._places.get((topic, number))
            same = place is not None and (not generation or not place.generation or place.generation == generation)
            if same and topic in before and not self._unsure:
                continue
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER)
            next = low
            if place is None:
                if not known and self._spec.begin != OLDEST:
                    next = high
            elif not same:
                self._tell(place, 0, "the topic was deleted and made anew: what it still had is lost")
            elif place.next < low:
                self._tell(place, low - place.next, f"{low - place.next:,} messages were dropped before they were read")
            elif place.next > high:
                next = high
                self._tell(place, 0, f"the topic lost its last messages: it ends at {high}")
            else:
                next = place.next
            if place is None or next != place.next or place.generation != generation:
                self._move(Place(topic=topic, partition=number, generation=generation, next=next, end=high))

    def _tell(self, place: Place, count: int, reason: str) -> None:
        self._lost.append(
            Lost(topic=place.topic, partition=place.partition, first=place.next, count=count, reason=reason)
        )

    def _move(self, place: Place) -> None:
        at = (place.topic, place.partition)
        self._places[at] = self._news[at] = place

    def _assign(self) -> None:
        """Read every partition that is there from its place."""
        if self._consumer is None:
            return
        self._consumer.assign(
            [
                TopicPartition(topic, number, self._places[topic, number].next)
                for topic, (_, count) in sorted(self._there.items())
                for number in range(count)
                if (topic, number) in self._places
            ]
        )

    # ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> list[Record]:
        """What there is, at most a haul, waiting a moment for the first. Raises KafkaException."""
        assert self._consumer is not None
        records: list[Record] = []
        size = 0
        first = self._consumer.poll(_POLL)
        found = [] if first is None else [first]
        while found:
            for one in found:
                if (error := one.error()) is not None:
                    self._stumbled(error)
                    continue
                records.append(_record(one))
                size += records[-1].size
            if len(records) >= MOST or size >= MOST_BYTES or self._looked == 0.0:
                break
            found = self._consumer.consume(min(100, MOST - len(records)), timeout=0)
        return records

    def _stumbled(self, error: KafkaError) -> None:
        """An error of a partition: look at once what there is. Raises KafkaException for one that is no partition's."""
        if error.code() in _ASIDE:
            self._looked, self._unsure = 0.0, True
            return
        if error.fatal():
            raise KafkaException(error)
        self._why = _said(error)  # it goes on by itself, or the next look fails

    def _identify(self) -> None:
        """Raises KafkaException where it cannot be said that topics are still those that they were when messages of
        them were read."""
        there, _ = self._describe()
        if {name: id for name, (id, _) in there.items()} != {name: id for name, (id, _) in self._there.items()}:
            self._looked, self._unsure = 0.0, True
            for name, (id, _) in list(self._there.items()):
                if there.get(name, ("", 0))[0] != id:
                    del self._there[name]  # its messages are not taken; the next look finds where to go on

    def _take(self, record: Record) -> bool:
        """Whether it is the next of its partition, which is then moved on."""
        at = (record.topic, record.partition)
        place = self._places.get(at)
        if record.topic not in self._there or place is None or record.offset < place.next:
            return False
        generation = self._there[record.topic][0] or place.generation
        self._move(Place(topic=at[0], partition=at[1], generation=generation, next=record.offset + 1, end=place.end))
        return True

    def _ended(self, place: Place) -> Place:
        """With where its partition ends, as far as that is known."""
        end = place.end
        if self._consumer is not None and place.partition != ABSENT:
            with suppress(KafkaException):
                known = self._consumer.get_watermark_offsets(TopicPartition(place.topic, place.partition), cached=True)
                end = known[1]
        return Place(
            topic=place.topic,
            partition=place.partition,
            generation=place.generation,
            next=place.next,
            end=max(end, place.next),
        )


def _record(message: Message) -> Record:
    kind, stamp = message.timestamp()
    headers: Any = message.headers()
    return Record(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        at=stamp * MILLISECOND if kind and stamp >= 0 else None,
        headers=tuple((name, _bytes(value)) for name, value in headers or ()),
    )


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _said(error: KafkaError) -> str:
    return str(error.str())


_CONSUMER = frozenset(
    {
        "group.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "queued.max.messages.kbytes",
    }
)
"""What is a setting of a consumer only."""


def _options(name: str, spec: SourceSpec) -> Mapping[str, Any]:
    """What librdkafka is told. Raises Refused where a secret is missing."""
    given = {key: revealed(value) for key, value in spec.options.items()}
    secret = {"sasl.password": revealed(spec.secret)} if spec.secret else {}
    return {
        "client.id": f"tidegate-{name}",
        "log_level": 2,
        "reconnect.backoff.max.ms": 2000,
        "queued.max.messages.kbytes": 16384,
        **given,
        **secret,
        "bootstrap.servers": spec.servers,
        "group.id": f"tidegate-{name}",  # asked for by the library; it is never joined
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
    }
