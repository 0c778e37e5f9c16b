"""Kafka: every event a message of one topic, its lane the key, so that a partition keeps each schedule's order.

The producer is idempotent and leaves no gap: librdkafka repeats by itself, in order, and stops for good where it would
have to leave one out. Whatever is not acknowledged in time is dropped here and handed over again by a new producer, in
the same order: so a consumer may see a stretch twice, and never anything before what preceded it.

Where a broker refuses a batch for the size of a message, the batch is sent again one by one, and only what is refused
by itself is set aside.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.documents.references import revealed
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Delivery, Message
from tidegate.sinks.background import BackgroundSink

PATIENCE = 10.0
"""Seconds without any acknowledgement after which a batch is given up."""
STOPPED = 0.3
"""The same, once the producer has stopped for good."""
_POLL = 0.05
_SILENT = logging.getLogger("tidegate.sinks.librdkafka")
"""For what librdkafka says of every connection that it tries: what matters comes as an error."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_REFUSED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD})
"""What a broker says of a message, not of itself."""


class KafkaSink(BackgroundSink):
    def __init__(self, name: str, spec: SinkSpec, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._topic = spec.topic
        self._options = _options(name, spec)
        self._producer: Producer | None = None
        self._alone = False
        self._left = threading.Event()
        self._why = ""

    async def deliver(self, messages: Sequence[Message]) -> Delivery:
        return await asyncio.to_thread(self._deliver, messages)

    async def close(self) -> None:
        self._left.set()
        await super().close()
        self._part()

    # ── in a thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def _deliver(self, messages: Sequence[Message]) -> Delivery:
        refused: list[tuple[int, str]] = []
        place, singly_to = 0, 0
        while place < len(messages):
            alone = place < singly_to
            sent = messages[place : place + 1] if alone else messages[place:]
            errors = self._send(sent, alone)
            wrong = [number for number, error in enumerate(errors) if error is not None]
            if not wrong:
                place += len(sent)
                continue
            self._part()  # what it has still under way is sent again by the next one
            suspects = [number for number in wrong if _code(errors[number]) in _REFUSED]
            if not suspects:
                fault = self._fault(errors[wrong[0]])
                return Delivery(passed=place + wrong[0], refused=tuple(refused), fault=fault)
            if len(sent) > 1:
                singly_to = place + suspects[-1] + 1
                place += wrong[0]
            else:
                refused.append((place, f"Kafka refuses it: {_said(errors[0])}"))
                place += 1
        return Delivery(passed=place, refused=tuple(refused))

    def _send(self, messages: Sequence[Message], alone: bool) -> list[KafkaError | None]:
        """Send them and wait; for each what was wrong, or None when it was acknowledged."""
        errors: list[KafkaError | None] = [KafkaError(KafkaError._TIMED_OUT)] * len(messages)
        told = [0]

        def report(place: int) -> Callable[[KafkaError | None, Any], None]:
            def tell(error: KafkaError | None, _: Any) -> None:
                errors[place] = error
                told[0] += 1

            return tell

        sent = 0
        try:
            producer = self._open(alone)
        except KafkaException as fault:
            errors[0] = fault.args[0]
            return errors
        try:
            for sent, one in enumerate(messages):
                self._produce(producer, one, report(sent))
            sent = len(messages)
        except KafkaException as fault:  # at once, without asking the broker
            errors[sent] = fault.args[0]
        self._wait(producer, told, sent)
        return errors

    def _produce(self, producer: Producer, one: Message, tell: Callable[[KafkaError | None, Any], None]) -> None:
        headers: list[tuple[str, str | bytes | None]] = [("id", one.id), ("type", one.type)]
        while not self._left.is_set():
            try:
                producer.produce(
                    self._topic,
                    key=one.lane.encode(),
                    value=one.body,
                    headers=headers,
                    on_delivery=tell,
                )
                return
            except BufferError:  # its queue is full
                producer.poll(_POLL)

    def _wait(self, producer: Producer, told: Sequence[int], wanted: int) -> None:
        """Until all is told, nothing has been for too long, or somebody closes."""
        idle, seen, patience = 0.0, told[0], PATIENCE
        while told[0] < wanted and idle < patience and not self._left.is_set():
            try:
                producer.poll(_POLL)
            except KafkaException as fault:  # it has stopped for good: some is still told, and some never
                self._why, patience = _said(fault.args[0]), STOPPED
                self._left.wait(_POLL)  # it says so at once, each time: that is no waiting
            idle = 0.0 if told[0] > seen else idle + _POLL
            seen = told[0]

    def _open(self, alone: bool) -> Producer:
        """A message that goes alone leaves no gap. Its producer may then refuse it without stopping for good, after
        which librdkafka does not always tell what was wrong with which."""
        if self._producer is not None and self._alone != alone:
            self._part()
        if self._producer is None:
            self._why, self._alone = "", alone
            given = {**self._options, "enable.gapless.guarantee": not alone, "error_cb": self._hear}
            self._producer = Producer(given, logger=_SILENT)
            self._producer.list_topics(timeout=PATIENCE / 2)  # a broker that is away is known at once
        return self._producer

    def _hear(self, error: KafkaError) -> None:
        self._why = _said(error)

    def _part(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _fault(self, error: KafkaError | None) -> str:
        said = f" ({self._why})" if self._why and self._why != _said(error) else ""
        return f"Kafka does not take them: {_said(error)}{said}."


def _code(error: KafkaError | None) -> int:
    return 0 if error is None else int(error.code())


def _said(error: KafkaError | None) -> str:
    return "" if error is None else str(error.str())


def _options(name: str, spec: SinkSpec) -> Mapping[str, Any]:
    """What librdkafka is told. Raises Refused where a secret is missing."""
    given = {key: revealed(value) for key, value in spec.options.items()}
    secret = {"sasl.password": revealed(spec.secret)} if spec.secret else {}
    return {
        "client.id": f"tidegate-{name}",
        "compression.type": "lz4",
        "linger.ms": 5,
        "partitioner": "murmur2_random",  # as Java's clients do
        "message.max.bytes": 10_000_000,  # the broker knows what it takes
        "queue.buffering.max.messages": 100_000,
        "log_level": 2,
        **given,
        **secret,
        "bootstrap.servers": spec.servers,
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
    }
