"""Commits to real Iceberg tables become events, once each, whatever happens between two looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest
from pyiceberg.expressions import EqualTo

from lake.conftest import SCHEMA, Watching, rows
from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import MINUTE, SECOND
from tidegate.engine.watcher import Watcher
from tidegate.lake.catalogs import JdbcCatalog
from tidegate.lake.readers import LocalReader
from tidegate.ports.lake import CatalogSpec

pytestmark = pytest.mark.anyio
FLIGHTS = "lake.raw.flights"


def partitions(event: tuple[str, dict[str, Any]]) -> tuple[list[str], list[str]]:
    return event[1]["partitions_added"], event[1]["partitions_changed"]


@pytest.mark.requirement("LAKE-1", "EVENT-6")
async def test_an_append_becomes_an_event_with_what_it_added(watching: Watching) -> None:
    table = watching.make()
    table.append(rows(("01", 1)))
    await watching.declare(FLIGHTS)
    assert await watching.told() == []  # the first look tells nothing of the past
    before = table.current_snapshot()
    table.append(rows(("01", 2), ("02", 3), ("02", 4)))
    [(kind, payload)] = await watching.told()
    after = table.current_snapshot()
    assert before is not None and after is not None
    assert kind == "dataset.updated"
    assert (payload["rows"], payload["files"]) == (3, 2)
    assert payload["bytes"] == sum(one["file_size_in_bytes"] for one in table.inspect.files().to_pylist()) - _size(
        table, before.snapshot_id
    )
    assert partitions((kind, payload)) == (["day=02"], ["day=01"])
    assert (payload["previous_snapshot"], payload["snapshot"]) == (before.snapshot_id, after.snapshot_id)
    assert await watching.told() == []


def _size(table: Any, snapshot: int) -> int:
    return sum(one["file_size_in_bytes"] for one in table.inspect.files(snapshot_id=snapshot).to_pylist())


@pytest.mark.requirement("LAKE-1")
async def test_each_commit_between_two_looks_is_an_event(watching: Watching) -> None:
    table = watching.make()
    await watching.declare(FLIGHTS)
    await watching.told()
    for number in range(3):
        table.append(rows((f"0{number}", number)))
    told = await watching.told()
    assert [partitions(one)[0] for one in told] == [["day=00"], ["day=01"], ["day=02"]]
    assert [one["previous_snapshot"] for _, one in told] == [None, *(one["snapshot"] for _, one in told[:-1])]


@pytest.mark.requirement("LAKE-1")
async def test_deletes_and_overwrites_tell_what_they_changed(watching: Watching) -> None:
    table = watching.make()
    table.append(rows(("01", 1), ("02", 2), ("03", 3)))
    await watching.declare(FLIGHTS)
    await watching.told()
    table.delete(EqualTo("day", "02"))
    [deleted] = await watching.told()
    assert (deleted[1]["rows"], deleted[1]["bytes"], partitions(deleted)) == (0, 0, ([], ["day=02"]))
    table.overwrite(rows(("01", 9), ("04", 9)), EqualTo("day", "01"))
    told = await watching.told()
    assert sum(payload["rows"] for _, payload in told) == 2
    assert {name for one in told for name in partitions(one)[0]} == {"day=01", "day=04"} or {
        name for one in told for name in partitions(one)[1]
    } == {"day=01"}


@pytest.mark.requirement("LAKE-1", "DATA-1")
async def test_a_table_that_comes_to_be_is_new_from_its_first_snapshot(watching: Watching) -> None:
    await watching.declare(FLIGHTS)
    assert await watching.told() == []
    [record] = await watching.store.datasets()
    assert record.missing
    table = watching.make()
    table.append(rows(("01", 1)))
    [told] = await watching.told()
    assert partitions(told) == (["day=01"], [])
    [record] = await watching.store.datasets()
    assert not record.missing


@pytest.mark.requirement("LAKE-1")
async def test_unpartitioned_tables_tell_their_rows(watching: Watching) -> None:
    table = watching.make(partitioned=False)
    await watching.declare(FLIGHTS)
    await watching.told()
    table.append(rows(("01", 1), ("02", 2)))
    [(_, payload)] = await watching.told()
    assert (payload["rows"], payload["partitions_added"], payload["partitions_changed"]) == (2, [], [])


@pytest.mark.requirement("LAKE-3")
async def test_a_table_made_anew_is_a_gap_and_its_rows_are_new(watching: Watching) -> None:
    watching.make().append(rows(("01", 1)))
    await watching.declare(FLIGHTS)
    await watching.told()
    watching.catalog.drop_table("raw.flights")
    assert await watching.told() == []
    watching.make().append(rows(("07", 1)))
    gap, new = await watching.told()
    assert (gap[0], gap[1]["reason"]) == ("dataset.gap", "recreated")
    assert partitions(new) == (["day=07"], [])
    assert new[1]["previous_snapshot"] is None


@pytest.mark.requirement("LAKE-3")
async def test_a_cursor_that_fell_off_history_is_a_gap(watching: Watching) -> None:
    table = watching.make()
    table.append(rows(("01", 1)))
    await watching.declare(FLIGHTS)
    await watching.told()
    for number in range(2, 5):
        table.append(rows((f"0{number}", 1)))
    known = [one.snapshot_id for one in table.snapshots()]
    table.maintenance.expire_snapshots().by_ids(known[:-1]).commit()
    gap, new = await watching.told()
    assert (gap[0], gap[1]["reason"], gap[1]["previous_snapshot"]) == ("dataset.gap", "expired", known[0])
    assert new[1]["snapshot"] == known[-1]


@pytest.mark.requirement("LAKE-1")
async def test_a_rollback_is_not_new_data(watching: Watching) -> None:
    table = watching.make()
    table.append(rows(("01", 1)))
    first = table.current_snapshot()
    assert first is not None
    table.append(rows(("02", 1)))
    await watching.declare(FLIGHTS)
    await watching.told()
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert await watching.told() == []
    table.append(rows(("03", 1)))
    [told] = await watching.told()
    assert partitions(told)[0] == ["day=03"]


@pytest.mark.requirement("LAKE-2")
async def test_only_changed_tables_are_read(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [watching.make(f"raw.t{number}") for number in range(5)]
    await watching.declare(*(f"lake.raw.t{number}" for number in range(5)))
    read: list[str] = []
    reader = LocalReader.read

    async def counted(self: LocalReader, orders: Any) -> Any:
        read.extend(one.dataset for one in orders)
        return await reader(self, orders)

    monkeypatch.setattr(LocalReader, "read", counted)
    await watching.told()
    assert len(read) == 5  # the first look
    read.clear()
    await watching.told()
    assert read == []
    tables[3].append(rows(("01", 1)))
    await watching.told()
    assert read == ["lake.raw.t3"]


@pytest.mark.requirement("LAKE-1")
async def test_a_table_is_looked_at_when_its_interval_has_passed(watching: Watching) -> None:
    watching.make()
    table = watching.make("raw.quick")
    await watching.declare(FLIGHTS)
    await watching.declare("lake.raw.quick", watch=SECOND)
    await watching.told()
    table.append(rows(("01", 1)))
    outcome = await watching.pass_(after=SECOND)
    assert outcome.did == 1
    assert outcome.next == watching.now + SECOND


@pytest.mark.requirement("LAKE-1")
async def test_two_watchers_tell_each_commit_once(watching: Watching) -> None:
    """Also when the second one does not know that it lost the lease."""
    table = watching.make()
    await watching.declare(FLIGHTS)
    first, second = watching.watchers[0], watching.watcher()
    second._leads = _yes  # type: ignore[method-assign]
    await watching.told(first)
    await watching.told(second)
    for number in range(6):
        table.append(rows((f"0{number}", 1)))
        await watching.told((first, second)[number % 2])
        await watching.told((second, first)[number % 2])
    told = [one.payload["snapshot"] for one in watching.store.published]
    assert told == [one.snapshot_id for one in table.snapshots()]


async def _yes(now: int) -> bool:
    return True


@pytest.mark.requirement("LAKE-1")
async def test_a_watcher_that_dies_before_its_commit_loses_and_doubles_nothing(watching: Watching) -> None:
    table = watching.make()
    await watching.declare(FLIGHTS)
    await watching.told()
    table.append(rows(("01", 1)))
    one = watching.watchers[0]

    async def dies(*_: Any) -> Any:
        raise Unavailable("gone")

    looked, one._publish = one._publish, dies  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await watching.pass_()
    assert watching.store.published == []
    one._publish = looked  # type: ignore[method-assign]
    assert len(await watching.told()) == 1
    assert await watching.told(watching.watcher()) == []


@pytest.mark.requirement("DATA-1")
async def test_an_event_arrives_when_it_is_told_however_long_the_tables_took_to_read(watching: Watching) -> None:
    """Else a `quiet` of ten seconds could run two seconds after the last arrival."""
    table = watching.make()
    await watching.declare(FLIGHTS)
    await watching.told()
    table.append(rows(("01", 1)))
    watcher = watching.watchers[0]
    watching.now += 5 * SECOND
    assert (await watcher.step(watching.now)).left
    assert watching.store.published == []
    watching.now += 7 * SECOND
    assert (await watcher.step(watching.now)).did == 1
    page, _ = await watching.store.events(type="dataset.updated", key=None, since=None, before=None, limit=9)
    assert [one.at for one in page] == [watching.now]


async def test_a_catalog_that_is_down_is_reported_and_tried_ever_more_rarely(watching: Watching) -> None:
    away = CatalogSpec(name="lake", kind="jdbc", url="postgresql://nobody@127.0.0.1:1/none", schema="lake")
    watcher = Watcher(watching.store, JdbcCatalog(away), LocalReader(), watching.fence)
    await watching.declare(FLIGHTS)
    outcome = await watching.pass_(watcher)
    assert outcome.notes and "does not answer" in outcome.notes[0]
    [fault] = await watching.store.catalog_faults()
    assert fault.catalog == "lake"
    waits = []
    for _ in range(6):
        assert outcome.next is not None
        waits.append(outcome.next - watching.now)
        watching.now = outcome.next
        outcome = await watching.step(watcher)
        assert outcome.notes == ()
    assert waits == sorted(waits) and waits[-1] == MINUTE
    watcher._catalog = watching.watchers[0]._catalog
    assert outcome.next is not None
    watching.now = outcome.next
    outcome = await watching.step(watcher)
    assert outcome.notes == ("Catalog 'lake' answers again.",)
    assert list(await watching.store.catalog_faults()) == []


async def test_a_table_that_cannot_be_read_holds_up_no_other_and_keeps_its_cursor(
    watching: Watching, database_url: str
) -> None:
    broken, fine = watching.make("raw.broken"), watching.make("raw.fine")
    await watching.declare("lake.raw.broken", "lake.raw.fine")
    await watching.told()
    for table in (broken, fine):
        table.append(rows(("01", 1)))
    with psycopg.connect(database_url) as connection:
        change = "UPDATE lake.iceberg_tables SET metadata_location = %s WHERE table_name = 'broken'"
        connection.execute(change, ["file:///nowhere/x.metadata.json"])
    told = await watching.told()
    assert [payload["snapshot"] for _, payload in told] == [fine.current_snapshot().snapshot_id]  # type: ignore[union-attr]
    [record] = await watching.store.datasets(["lake.raw.broken"])
    assert "FileNotFoundError" in record.error
    with psycopg.connect(database_url) as connection:
        connection.execute(change, [broken.metadata_location])
    watching.now += MINUTE
    assert len(await watching.told()) == 1
    [record] = await watching.store.datasets(["lake.raw.broken"])
    assert record.error == ""


async def test_a_catalog_in_which_nobody_made_a_table_yet_is_empty(watching: Watching, database_url: str) -> None:
    empty = JdbcCatalog(CatalogSpec(name="lake", kind="jdbc", url=database_url, schema="none"))
    assert await empty.compare({FLIGHTS: None}) == []
    [gone] = await empty.compare({FLIGHTS: "x"})
    assert gone.location is None
    await empty.close()


@pytest.mark.requirement("CARE-3", "LAKE-1")
async def test_a_catalog_tells_every_table_that_it_has_and_where_it_is(watching: Watching, database_url: str) -> None:
    """Namespaces within namespaces too; views, other catalogs' tables and what was dropped are none of them."""
    catalog = JdbcCatalog(watching.spec)
    made = [watching.make("raw.flights"), watching.make("raw.weather")]
    watching.catalog.create_namespace("raw.eu")
    made.append(watching.catalog.create_table("raw.eu.trains", SCHEMA))
    watching.make("raw.gone")
    watching.catalog.drop_table("raw.gone")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE lake.iceberg_tables ADD COLUMN IF NOT EXISTS iceberg_type text")
        connection.execute(
            "INSERT INTO lake.iceberg_tables"
            " (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
            " VALUES ('lake', 'raw', 'a_view', 'x', 'VIEW'), ('other', 'raw', 'theirs', 'x', 'TABLE')"
        )
    found = {one.dataset: one.location for one in await catalog.tables()}
    assert found == {f"lake.{'.'.join(one.name())}": one.metadata_location for one in made}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE lake.iceberg_tables RENAME TO away")
    assert list(await catalog.tables()) == [], "nobody has made a table yet"
    await catalog.close()
    nowhere = JdbcCatalog(replace(watching.spec, url="host=127.0.0.1 port=1 dbname=none connect_timeout=1"))
    with pytest.raises(Unavailable, match="does not answer"):
        await nowhere.tables()
    await nowhere.close()
