"""A table gets every event once, whatever is repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import psycopg
import pytest

from tidegate.domain.instants import SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Delivery, Message
from tidegate.sinks.table import TableSink

pytestmark = pytest.mark.requirement("EVENT-9")
TABLE = "audit.tide_events"


def message(number: int) -> Message:
    body = {"position": str(number), "type": "user.x", "key": "sales/a", "schedule": None, "payload": {"n": number}}
    return Message(
        id=str(number), lane="sales/a", type="user.x", at=1_800_000_000 * SECOND, body=json.dumps(body).encode()
    )


def deliver(url: str, *batches: Sequence[Message]) -> list[Delivery]:
    async def run() -> list[Delivery]:
        sink = TableSink("t", SinkSpec(type="table", table=TABLE), url, lambda: None)
        found = [await sink.deliver(one) for one in batches]
        await sink.close()
        return found

    return asyncio.run(run())


def test_what_is_wrong_with_a_database_is_a_sentence() -> None:
    (delivery,) = deliver("postgresql://h/d?foo=bar", [message(1)])
    assert delivery.fault == 'The table does not take them: invalid URI query parameter: "foo".'


def rows(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT (event -> 'payload' ->> 'n')::int FROM {TABLE} ORDER BY id::int")
        return [row[0] for row in found.fetchall()]


def test_a_table_is_made_and_has_each_event_once_however_often_it_is_told(database_url: str) -> None:
    batches = [[message(n) for n in range(5)], [message(n) for n in range(3, 9)]]
    assert deliver(database_url, *batches) == [Delivery(passed=5), Delivery(passed=6)]
    assert deliver(database_url, batches[0]) == [Delivery(passed=5)]
    assert rows(database_url) == list(range(9))


def test_what_a_rule_of_the_table_refuses_is_set_aside_alone(database_url: str) -> None:
    deliver(database_url, [message(0)])
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {TABLE} ADD CHECK (id <> '2')")
    (delivery,) = deliver(database_url, [message(n) for n in range(1, 4)])
    assert delivery.passed == 3 and [place for place, _ in delivery.refused] == [1]
    assert rows(database_url) == [0, 1, 3]


def test_a_database_that_is_away_is_a_fault(database_url: str) -> None:
    (delivery,) = deliver("postgresql://nobody@127.0.0.1:1/none", [message(0)])
    assert delivery.passed == 0 and "does not take them" in delivery.fault


def test_a_table_that_never_answers_is_a_fault(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.sinks.table._ANSWER", 0.5)
    deliver(database_url, [message(0)])
    with psycopg.connect(database_url) as holder:
        holder.execute(f"LOCK TABLE {TABLE}")
        (delivery,) = deliver(database_url, [message(1)])
    assert delivery == Delivery(passed=0, fault="The table does not take them: no answer for 0.5 s.")
    assert deliver(database_url, [message(1)]) == [Delivery(passed=1)]
    assert rows(database_url) == [0, 1]
