"""What a program publishes reaches the log exactly once, whoever dies on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegate import Event, table
from tidegate.domain.errors import Invalid, Refused
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.engine.courier import BATCH, Courier
from tidegate.launchers.outbox import FileOutbox
from tidegate.ports.collecting import NewEvent, Receipt
from tidegate.sdk.publishing import OUTBOX, publish

NOW = 4_000_000_000_000_000  # after every clock of a machine that runs this
FENCE = Fence(instance_id=1, epoch=1)


class Log:
    """A log that knows ids, as the real one does. `answers` False: its commits happen, but nobody hears of it."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str | None], NewEvent] = {}
        self.answers = True

    async def now(self) -> Instant:
        return NOW

    @asynccontextmanager
    async def transaction(self, fence: Fence) -> AsyncIterator[Log]:
        yield self
        if not self.answers:
            raise ConnectionError("the answer to COMMIT was lost")

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        known = [self.events.setdefault((event.source, event.id), event) for event in events]
        return [
            Receipt(pos=1, repeated=kept is not event and kept == event, conflict=kept != event)
            for event, kept in zip(events, known, strict=True)
        ]


@pytest.fixture
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileOutbox:
    box = FileOutbox(tmp_path)
    box.open()
    monkeypatch.setenv(OUTBOX, str(box.directory))
    return box


@pytest.mark.requirement("EVENT-1", "EVENT-6")
def test_it_is_in_the_log_once_although_the_courier_died_after_the_commit(outbox: FileOutbox) -> None:
    publish(Event("user.landed", "eu", {"path": "a"}), namespace="sales")
    publish(table("lake.raw.orders").updated(rows=3), namespace="sales")
    log = Log()
    log.answers = False
    with pytest.raises(ConnectionError):
        asyncio.run(Courier(log, FENCE, outbox, []).step(NOW))
    log.answers = True
    outcome = asyncio.run(Courier(log, FENCE, outbox, []).step(NOW))
    assert outcome.did == 2
    assert [(one.type, one.key) for one in log.events.values()] == [
        ("user.landed", "sales/eu"),
        ("dataset.updated", "lake.raw.orders"),
    ]
    assert asyncio.run(outbox.waiting(9)) == []


@pytest.mark.requirement("EVENT-1")
def test_an_id_of_ones_own_is_one_event_however_often_it_is_said(outbox: FileOutbox) -> None:
    for _ in range(3):
        assert publish(Event("user.landed", "eu", id="file-7"), namespace="sales") == "file-7"
    log = Log()
    asyncio.run(Courier(log, FENCE, outbox, []).step(NOW))
    assert list(log.events) == [("sales", "file-7")]


def test_a_key_that_is_a_number_is_text_as_json_has_it(outbox: FileOutbox) -> None:
    publish(Event("user.landed", "eu", {"years": {2026: 5}}), namespace="sales")
    log = Log()
    asyncio.run(Courier(log, FENCE, outbox, []).step(NOW))
    assert [one.payload for one in log.events.values()] == [{"years": {"2026": 5}}]


@pytest.mark.requirement("EVENT-3")
def test_one_that_cannot_be_published_holds_up_no_other_and_is_kept(outbox: FileOutbox) -> None:
    (outbox.directory / "0-torn.json").write_text("{")
    bad = {"type": "run.succeeded", "key": "a/b", "id": "1", "source": "a"}
    (outbox.directory / "1-forged.json").write_text(json.dumps(bad))
    publish(Event("user.fine", "x"), namespace="sales")
    log = Log()
    outcome = asyncio.run(Courier(log, FENCE, outbox, []).step(NOW))
    assert [one.type for one in log.events.values()] == ["user.fine"]
    assert len(outcome.notes) == 2
    assert sorted(path.name for path in (outbox.directory / "refused").iterdir()) == ["0-torn.json", "1-forged.json"]


def test_a_flood_is_taken_in_batches(outbox: FileOutbox) -> None:
    for number in range(BATCH + 1):
        document = {"type": "user.x", "key": "a/b", "id": str(number), "source": "a", "payload": {}}
        (outbox.directory / f"{number:09d}.json").write_text(json.dumps(document))
    log = Log()
    courier = Courier(log, FENCE, outbox, [])
    first, second = asyncio.run(courier.step(NOW)), asyncio.run(courier.step(NOW))
    assert (first.left, second.left, len(log.events)) == (True, False, BATCH + 1)


def test_what_is_wrong_is_said_to_the_program_itself(outbox: FileOutbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="type: 'landed' is not an event type"):
        publish(Event("landed", "eu"), namespace="sales")
    with pytest.raises(Invalid, match=r"payload.a\[0\]: contains a NUL character"):
        publish(Event("user.landed", "eu", {"a": ["\0"]}), namespace="sales")
    with pytest.raises(Invalid, match=r"payload.a: contains half a character"):
        publish(Event("user.landed", "eu", {"a": "\ud800"}), namespace="sales")
    with pytest.raises(Invalid, match=r"payload.a: must be a finite number"):
        publish(Event("user.landed", "eu", {"a": float("inf")}), namespace="sales")
    with pytest.raises(Invalid, match=r"payload.at: must be text.*not a datetime"):
        publish(Event("user.landed", "eu", {"at": datetime(2026, 1, 1)}), namespace="sales")
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Invalid, match=r"payload.a\[0\].*: is nested more than 64 levels deep"):
        publish(Event("user.landed", "eu", {"a": deep}), namespace="sales")
    with pytest.raises(Invalid, match="time: must lie between the years 1900 and 2199, not 1800-01-01T00:00:00Z"):
        publish(Event("user.landed", "eu", time=datetime(1800, 1, 1, tzinfo=UTC)), namespace="sales")
    with pytest.raises(Invalid, match="id: must have at most 200 characters"):
        publish(Event("user.landed", "eu", id="x" * 201), namespace="sales")
    assert asyncio.run(outbox.waiting(9)) == []
    monkeypatch.delenv(OUTBOX)
    with pytest.raises(Refused, match="not started by a worker"):
        publish(Event("user.landed", "eu"), namespace="sales")
