"""Sinks of a whole Tidegate: what runs do reaches a table in order, also through kill -9 of the scheduler."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from waiting import until

from .running import Up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
NS = "/api/v1/namespaces/default"


@pytest.mark.requirement("EVENT-9", "HA-5")
def test_what_runs_do_reaches_a_sink_through_the_death_of_the_scheduler(up: Up) -> None:
    with httpx.Client(base_url=up.url, trust_env=False, timeout=30) as http:

        def sink() -> dict[str, Any]:
            found: dict[str, Any] = http.get("/api/v1/sinks/audit").json()["status"]
            return found

        spec = {"type": "table", "table": "audit.events", "topics": ["run.*", "user.*"]}
        assert http.put("/api/v1/sinks/audit", json={"spec": spec}).status_code == 201
        assert http.put(f"{NS}/programs/p", json={"spec": {"type": "command", "argv": ["true"]}}).is_success
        never = {"program": "p", "trigger": {"type": "never"}, "enabled": True}
        assert http.put(f"{NS}/schedules/s", json={"spec": never}).is_success
        for number in range(6):
            if number == 3:
                until(lambda: sink()["delivered"] > 0, 60)
                up.role("scheduler").kill()
            assert http.post(f"{NS}/schedules/s:trigger", json={}).status_code == 202
            event = {"type": "user.x", "key": "default/x", "payload": {"n": number}}
            assert http.post("/api/v1/events", json=event).status_code == 202
            time.sleep(0.2)
        until(lambda: all(one["state"] == "succeeded" for one in http.get(f"{NS}/runs").json()["items"]), 120)
        told = http.get("/api/v1/events", params={"limit": 1000}).json()["items"]
        wanted = [one["position"] for one in told if one["type"].startswith(("run.", "user."))]
        until(lambda: sink()["delivered"] >= len(wanted), 90)
        assert (sink()["error"], sink()["set_aside"]) == (None, 0)
    assert len(wanted) >= 6 * 4, "waiting, ready or started, succeeded; and what was published"
