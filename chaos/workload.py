"""What the cluster has to do: a schedule of every trigger kind, programs that keep a journal of their own, publishers.

The programs are shell scripts that append a line when they begin and a line when they end. They know what every program
is told (its run, attempt and fence), and nothing else. Publishers repeat each event and each request under one id until
it is acknowledged, as the documents tell people to.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

NAMESPACE = "chaos"
STREAM = "chaos.stream"
BYTES = 250

SCRIPT = """\
now() { date +%s%N; }
echo "B $TIDEGATE_RUN_ID $TIDEGATE_ATTEMPT $TIDEGATE_FENCE $TIDEGATE_SCHEDULE $$ $(now)" >> "$JOURNAL"
sleep "$NAP"
if [ -n "$FLAKY" ] && [ "$TIDEGATE_ATTEMPT" -lt 2 ]; then
  echo "F $TIDEGATE_RUN_ID $TIDEGATE_ATTEMPT $TIDEGATE_FENCE $TIDEGATE_SCHEDULE $$ $(now)" >> "$JOURNAL"; exit 3
fi
echo "E $TIDEGATE_RUN_ID $TIDEGATE_ATTEMPT $TIDEGATE_FENCE $TIDEGATE_SCHEDULE $$ $(now)" >> "$JOURNAL"
"""

GRIDS = {"every-second": 1_000_000, "odd-cron": 3_000_000, "newest-only": 2_000_000}
"""Schedules whose fires lie on a grid from 1970 on, and its width in microseconds."""
CAUGHT_UP = ("every-second", "odd-cron")
"""Of these nothing may be missed, however long an outage was."""
COUNTS = {"each": ("user.tick", 1), "three": ("user.tick", 3), "bytes": ("dataset.updated", 1000 // BYTES),
          "names": ("dataset.updated", 2)}  # fmt: skip
"""schedule -> (type of its events, how many of them are one run)."""
TAKES_ALL = ("either", "silence", "pair")
"""Schedules in whose runs every one of their events must be told exactly once."""
SINK = {"type": "table", "table": "chaos.told"}
"""Where everything that happens is carried on to, declared before anything happens."""
SHARED_LIMIT = ("limit", ("odd-cron", "pair", "flaky"), 2)
"""A group, who is in it, and how many of it may run at once."""


def programs(journal: Path) -> dict[str, dict[str, Any]]:
    def made(nap: str, flaky: str = "") -> dict[str, Any]:
        environment = {"JOURNAL": str(journal), "NAP": nap, "FLAKY": flaky}
        return {"type": "command", "argv": ["sh", "-c", SCRIPT], "environment": environment}

    return {"quick": made("0.05"), "slow": made("0.6"), "flaky": made("0.1", "yes"), "told": made("0.05")}


def schedules(soon: str) -> dict[str, dict[str, Any]]:
    """Each enabled. `soon`: an instant a few seconds ahead."""
    catch_up = {"policy": "all", "grace": "PT5S", "window": "P1D", "max": 100000}
    group = {"groups": [SHARED_LIMIT[0]]}
    limited = [
        {"type": "concurrency", "max": 1},
        {"type": "concurrency", "max": SHARED_LIMIT[2], "scope": f"group:{SHARED_LIMIT[0]}"},
    ]
    tick = {"type": "event", "event": "user.tick", "key": "x"}
    tock = {"type": "event", "event": "user.tock", "key": "x"}
    one = {"waiting": {"runs": "all", "max": 1000000}}
    found: dict[str, dict[str, Any]] = {
        "every-second": {"trigger": {"type": "interval", "every": "PT1S"}, "catch_up": catch_up, **one},
        "odd-cron": {"trigger": {"type": "cron", "expression": "*/3 * * * * *", "seconds": True}, "program": "slow",
                     "catch_up": catch_up, "constraints": limited, **group, **one},
        "newest-only": {"trigger": {"type": "interval", "every": "PT2S"},
                        "catch_up": {"policy": "latest", "grace": "PT2S"}, **one},
        "chain": {"trigger": {"type": "after_finish", "delay": "PT1S"}},
        "once": {"trigger": {"type": "at", "time": soon}, "catch_up": catch_up},
        "days": {"trigger": {"type": "window_days", "every_days": 1, "earliest": "00:00"}},
        "each": {"trigger": tick, "program": "told", **one},
        "three": {"trigger": {**tick, "count": 3}, **one},
        "bytes": {"trigger": {"type": "data_size", "dataset": STREAM, "bytes": 1000}, **one},
        "names": {"trigger": {"type": "partition", "dataset": STREAM, "count": 2}, **one},
        "follows": {"trigger": {"type": "program_status", "program": "told", "outcomes": ["succeeded"]}, **one},
        "idle": {"trigger": {"type": "elapsed", "since": "last_run", "after": "PT4S"}},
        "silence": {"trigger": {"type": "quiet", "trigger": tock, "for": "PT1S", "max_wait": "PT3S"}, **one},
        "pair": {"trigger": {"type": "all", "triggers": [tick, tock], "max_wait": "PT2S", "then": "run"},
                 "program": "slow", "constraints": limited, **group, **one},
        "either": {"trigger": {"type": "any", "triggers": [tock, {"type": "elapsed", "since": "last_run",
                                                                 "after": "PT6S"}]}, **one},
        "two-of": {"trigger": {"type": "n_of", "n": 2, "triggers": [tick, tock, {"type": "partition",
                                                                             "dataset": STREAM}]}},
        "flaky": {"trigger": {"type": "interval", "every": "PT4S"}, "program": "flaky", "catch_up": catch_up,
                  "retry": {"max_attempts": 3, "delay": "PT1S"}, "constraints": limited, **group, **one},
        "by-hand": {"trigger": {"type": "never"}, **one},
    }  # fmt: skip
    return {name: {"enabled": True, "program": "quick", **spec} for name, spec in found.items()}


NAMES = tuple(schedules("2030-01-01T00:00:00Z"))


class Doors:
    """One of several APIs, whichever answers."""

    def __init__(self, urls: list[str], rng: Random) -> None:
        self._urls, self._rng = urls, rng
        self.failures = 0

    def insist(self, method: str, path: str, until: float, **given: Any) -> Any:
        """Ask one, then another, until somebody acknowledges; what was answered. Refusals are mistakes of ours."""
        while time.monotonic() < until:
            try:
                answer = httpx.request(
                    method, f"{self._rng.choice(self._urls)}/api/v1{path}", trust_env=False, timeout=4, **given
                )
            except httpx.HTTPError:
                self.failures += 1
            else:
                if answer.is_success:
                    return answer.json() if answer.content else None
                if answer.status_code < 500 and answer.status_code not in (409, 429):
                    raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
                self.failures += 1
            time.sleep(0.1)
        raise SystemExit(f"{method} {path} was never acknowledged")


@dataclass
class Workload:
    """Declares, publishes and triggers until it is told to stop."""

    urls: list[str]
    journal: Path
    rng: Random
    pause: float = 0.12
    published: list[tuple[str, str]] = field(default_factory=list)  # type, id: acknowledged
    triggered: list[str] = field(default_factory=list)  # ids of runs
    failures: int = 0
    once_at: int = 0
    """The instant of `once`, in microseconds."""

    def declare(self) -> None:
        doors, until = Doors(self.urls, self.rng), time.monotonic() + 120
        doors.insist("PUT", "/sinks/told", until, json={"spec": SINK})
        for name, program in programs(self.journal).items():
            doors.insist("PUT", f"/namespaces/{NAMESPACE}/programs/{name}", until, json={"spec": program})
        self.once_at = (int(time.time()) + 8) * 1_000_000
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.once_at // 1_000_000))
        made = schedules(soon)
        for name, spec in {"once": made["once"], **made}.items():
            doors.insist("PUT", f"/namespaces/{NAMESPACE}/schedules/{name}", until, json={"spec": spec})

    def rest(self, *names: str) -> None:
        """Of these schedules (none: of all) nothing new is collected or fired; what waits may start."""
        doors, until = Doors(self.urls, self.rng), time.monotonic() + 60
        for name in names:
            path = f"/namespaces/{NAMESPACE}/schedules/{name}:disable"
            doors.insist("POST", path, until, json={"mode": "keep"})

    def run(self, stop: threading.Event, patience: float = 120.0) -> list[threading.Thread]:
        """Threads that publish and trigger until `stop`; each ends when its last event is acknowledged."""
        threads = [
            threading.Thread(target=self._publish, args=(stop, patience, kind, made), daemon=True, name=kind)
            for kind, made in (("user.tick", _plain("x")), ("user.tock", _plain("x")), ("dataset.updated", _data()))
        ]
        threads.append(threading.Thread(target=self._trigger, args=(stop, patience), daemon=True, name="trigger"))
        for thread in threads:
            thread.start()
        return threads

    def _publish(self, stop: threading.Event, patience: float, kind: str, made: Iterator[Mapping[str, Any]]) -> None:
        doors = Doors(self.urls, Random(f"{kind} {self.rng.random()}"))
        pause = self.pause * (6 if kind == "user.tock" else 1)
        for number in itertools.count():
            if stop.wait(pause):
                break
            event = {"type": kind, "id": f"{kind}-{number}", **next(made)}
            doors.insist("POST", "/events", time.monotonic() + patience, json=event)
            self.published.append((kind, event["id"]))
        self.failures += doors.failures

    def _trigger(self, stop: threading.Event, patience: float) -> None:
        doors = Doors(self.urls, Random(f"trigger {self.rng.random()}"))
        for number in itertools.count():
            if stop.wait(self.pause * 8):
                break
            run = doors.insist(
                "POST",
                f"/namespaces/{NAMESPACE}/schedules/by-hand:trigger",
                time.monotonic() + patience,
                headers={"Idempotency-Key": f"by-hand-{number}"},
                json={},
            )
            self.triggered.append(str(run["id"]))
        self.failures += doors.failures


def _plain(key: str) -> Iterator[Mapping[str, Any]]:
    for number in itertools.count():
        yield {"key": f"{NAMESPACE}/{key}", "payload": {"n": number}}


def _data() -> Iterator[Mapping[str, Any]]:
    for number in itertools.count():
        yield {"key": STREAM, "payload": {"bytes": BYTES, "rows": 1, "partitions_added": [f"p{number}"]}}
