"""Events through kill -9: every one that was published counts once, whoever is killed meanwhile."""

from __future__ import annotations

import threading
import time

import httpx
import pytest
from waiting import until

from .running import Up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
EVENTS, EACH = 400, 5
NS = "/api/v1/namespaces/default"


def _publish(url: str, sent: list[int]) -> None:
    """Each under an id of its own, again and again until it is acknowledged."""
    with httpx.Client(base_url=url, trust_env=False, timeout=10) as http:
        for number in range(EVENTS):
            event = {"type": "user.tick", "key": "default/x", "id": f"e{number}", "payload": {"n": number}}
            while True:
                try:
                    if http.post("/api/v1/events", json=event).status_code == 202:
                        break
                except httpx.HTTPError:
                    pass
                time.sleep(0.1)
            sent.append(number)


@pytest.mark.requirement("EVENT-1", "EVENT-2", "HA-5")
def test_every_event_counts_once_through_kills_of_every_role(up: Up) -> None:
    with httpx.Client(base_url=up.url, trust_env=False, timeout=30) as http:
        program = {"spec": {"type": "command", "argv": ["true"]}}
        assert http.put(f"{NS}/programs/p", json=program).is_success
        trigger = {"type": "event", "event": "user.tick", "key": "x", "count": EACH}
        spec = {"enabled": True, "program": "p", "trigger": trigger, "waiting": "all"}
        assert http.put(f"{NS}/schedules/counts", json={"spec": spec}).is_success

        sent: list[int] = []
        publisher = threading.Thread(target=_publish, args=(up.url, sent))
        publisher.start()
        for role, after in (("scheduler", 60), ("api", 140), ("scheduler", 220), ("worker", 300)):
            until(lambda after=after: len(sent) >= after, 60)
            up.role(role).kill()
        publisher.join(120)
        assert len(sent) == EVENTS

        def runs() -> list[dict[str, object]]:
            try:
                answer = http.get(f"{NS}/runs", params={"schedule": "counts", "limit": 1000})
            except httpx.HTTPError:
                return []
            return list(answer.json()["items"]) if answer.is_success else []

        until(lambda: len(runs()) >= EVENTS // EACH, 60)
        time.sleep(2)
        found = runs()
        assert len(found) == EVENTS // EACH
        seen: list[int] = []
        for run in found:
            events = http.get(f"/api/v1/runs/{run['id']}").json()["cause"]["events"]
            assert events["count"] == EACH
            assert len(events["first"]) in (0, EACH)  # they are told once the run's input is closed
            seen += [event["payload"]["n"] for event in events["first"]]
        assert len(seen) == len(set(seen))
        assert http.get(f"{NS}/schedules/counts/progress").json()["tree"]["value"] == 0
        assert http.get("/api/v1/audit/ledger").json()["holds"]
