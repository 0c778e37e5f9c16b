"""Sources of a whole Tidegate: each message of a topic is one event, through kill -9 in the middle of reading."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from sinks.broker import Broker, NoBroker
from waiting import until

from .running import Up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("kafka")]
NS = "/api/v1/namespaces/default"
SPEC = {
    "type": "kafka",
    "topics": ["orders"],
    "begin": "oldest",
    "event": {"type": "user.order", "key": "default/{{ value.region }}"},
}
TOTAL = 6_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "kafka")
    try:
        made.start()
    except NoBroker as why:
        pytest.skip(str(why))
    yield made
    made.kill()


@pytest.mark.requirement("EVENT-9", "HA-5")
def test_each_message_is_one_event_through_the_death_of_the_scheduler(up: Up, broker: Broker) -> None:
    broker.create("orders", partitions=3)
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})

    def produce(first: int, last: int) -> None:
        for number in range(first, last):
            value = b"no json" if number % 1000 == 7 else json.dumps({"region": "eu", "n": number}).encode()
            producer.produce("orders", value=value, key=str(number % 10).encode())
            producer.poll(0)
        assert producer.flush(30) == 0

    with httpx.Client(base_url=up.url, trust_env=False, timeout=30) as http:

        def status() -> dict[str, Any]:
            found: dict[str, Any] = http.get("/api/v1/sources/shop").json()["status"]
            return found

        produce(0, TOTAL - 100)
        made = http.put("/api/v1/sources/shop", json={"spec": {**SPEC, "servers": broker.servers}})
        assert made.status_code == 201, made.text
        kills = 0
        while status()["received"] < TOTAL - 100:  # killed while there is much to read
            if kills < 2 and status()["received"] > kills * 2000:
                up.role("scheduler").kill()
                kills += 1
            time.sleep(0.05)
        produce(TOTAL - 100, TOTAL)
        until(lambda: status()["received"] >= TOTAL, 60)
        assert (status()["received"], status()["set_aside"], status()["missed"]) == (TOTAL, 6, 0)
        assert "no JSON" in status()["refused"][0]["reason"]
        assert [one["next_offset"] for one in status()["partitions"]] == [
            one["end_offset"] for one in status()["partitions"]
        ]
        found: Counter[int] = Counter()
        asked: dict[str, Any] = {"type": "user.order", "limit": 1000}
        while asked:
            answer = http.get("/api/v1/events", params=asked)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            found.update(one["payload"]["n"] for one in page["items"])
            asked = {**asked, "cursor": page["next"]} if page["next"] else {}
    assert kills == 2
    assert sorted(found) == [n for n in range(TOTAL) if n % 1000 != 7] and set(found.values()) == {1}
