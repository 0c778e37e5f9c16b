"""What programs left in the outbox reaches the log of every store, whatever else lies there."""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.worlds import World
from tidegate.domain.errors import UNSTORABLE, Refused, Unavailable
from tidegate.domain.ids import Fence
from tidegate.domain.instants import Instant
from tidegate.engine.courier import BATCH, Courier
from tidegate.launchers.outbox import FileOutbox
from tidegate.ports.collecting import NewEvent, Receipt

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("EVENT-1", "EVENT-3")]


@pytest.fixture
def outbox(tmp_path: Path) -> FileOutbox:
    box = FileOutbox(tmp_path)
    box.open()
    return box


class Picky:
    """A store that refuses what a test says, as a database does, whatever the documents let through."""

    def __init__(self, store: Any, refuses: Callable[[NewEvent], bool], refusal: Exception) -> None:
        self.store, self.refuses, self.refusal = store, refuses, refusal

    async def now(self) -> Instant:
        return await self.store.now()  # type: ignore[no-any-return]

    @asynccontextmanager
    async def transaction(self, fence: Fence) -> AsyncIterator[Picky]:
        async with self.store.transaction(fence) as self.tx:
            yield self

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        if any(map(self.refuses, events)):
            raise self.refusal
        return await self.tx.publish(events, now)  # type: ignore[no-any-return]


def leave(outbox: FileOutbox, name: str, text: str = "", **said: Any) -> None:
    document = {"type": "user.fine", "key": "sales/eu", "id": name, "source": "sales", "payload": {}, **said}
    (outbox.directory / f"{name}.json").write_text(text or json.dumps(document))


def refused(outbox: FileOutbox) -> list[str]:
    aside = outbox.directory / "refused"
    return sorted(path.stem for path in aside.iterdir()) if aside.exists() else []


async def published(world: World) -> list[str]:
    found, _ = await world.store.events(type="user.fine", key=None, since=None, before=None, limit=1000)
    return sorted(str(one.id) for one in found)


BAD = {
    "nul": {"payload": {"a": ["\0"]}},
    "half": {"payload": {"a": "\ud800"}},
    "time": {"time": 5},
    "long": {"id": "x" * 5000},
    "number": {"payload": {"a": float("nan")}},
    "nested": {"payload": json.loads("[" * 200 + "]" * 200)},
    "source": {"source": "a\0b"},
    "nobody": {"source": None},
    "nameless": {"id": None},
    "other": {"colour": 1},
}


async def test_what_can_never_be_published_holds_up_no_other_and_is_kept(world: World, outbox: FileOutbox) -> None:
    for name, said in BAD.items():
        leave(outbox, name, **said)
    leave(outbox, "deep", "[" * 100_000 + "]" * 100_000)
    leave(outbox, "list", "[]")
    leave(outbox, "zebra")
    (outbox.directory / "latin.json").write_bytes(b'{"type": "user.\xe4"}')
    outcome = await Courier(world.store, world.worker, outbox, []).step(world.start)
    assert await published(world) == ["zebra"] and outcome.did == 1
    bad = sorted([*BAD, "deep", "latin", "list"])
    assert refused(outbox) == bad and not await outbox.waiting(99)
    told = {name: next(note for note in outcome.notes if f" {name}.json " in note) for name in bad}
    assert "payload.a[0]: contains a NUL character" in told["nul"]
    assert "time: must be text such as" in told["time"] and "no JSON object" in told["deep"]


async def test_what_only_the_database_refuses_is_found_among_the_others(world: World, outbox: FileOutbox) -> None:
    for number in range(BATCH + 3):
        leave(outbox, f"{number:04d}")
    store = Picky(
        world.store, lambda event: event.id in ("0003", "0499", "0502"), Refused("no such value", code=UNSTORABLE)
    )
    courier = Courier(store, world.worker, outbox, [])
    first, second = await courier.step(world.start), await courier.step(world.start)
    assert (first.did, first.left, second.did) == (BATCH - 2, True, 2)
    assert len(await published(world)) == BATCH and refused(outbox) == ["0003", "0499", "0502"]
    assert all("no such value" in note for note in [*first.notes, *second.notes]) and not await outbox.waiting(9)


async def test_an_id_that_another_event_has_is_refused_aloud(world: World, outbox: FileOutbox) -> None:
    leave(outbox, "one", id="7", payload={"a": 1})
    leave(outbox, "same", id="7", payload={"a": 1})
    leave(outbox, "two", id="7", payload={"a": 2})
    outcome = await Courier(world.store, world.worker, outbox, []).step(world.start)
    assert refused(outbox) == ["two"] and await published(world) == ["7"] and not await outbox.waiting(9)
    [note] = outcome.notes
    assert " two.json " in note and "the id '7' was used before for another event" in note


async def test_a_store_that_is_away_refuses_nothing(world: World, outbox: FileOutbox) -> None:
    leave(outbox, "one")
    leave(outbox, "nul", **BAD["nul"])
    away = Picky(world.store, lambda event: True, Unavailable("away"))
    with pytest.raises(Unavailable):
        await Courier(away, world.worker, outbox, []).step(world.start)
    assert (outbox.directory / "one.json").exists()
    await Courier(world.store, world.worker, outbox, []).step(world.start)
    assert await published(world) == ["one"] and refused(outbox) == ["nul"]


async def test_what_cannot_be_read_now_waits_and_is_told_once(
    world: World, outbox: FileOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        leave(outbox, name)
    really = Path.read_text

    def exhausted(path: Path, *more: Any, **said: Any) -> str:
        if path.stem in "ab":
            raise OSError(errno.EMFILE, "Too many open files")
        return really(path, *more, **said)

    courier = Courier(world.store, world.worker, outbox, [])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", exhausted)
        first, second = await courier.step(world.start), await courier.step(world.start)
        assert await published(world) == ["c"] and [one[0] for one in await outbox.waiting(1)] == ["a.json", "b.json"]
    [note] = first.notes
    assert "a.json, and 1 more," in note and "Too many open files" in note and not second.notes
    await courier.step(world.start)
    assert await published(world) == ["a", "b", "c"] and refused(outbox) == []
