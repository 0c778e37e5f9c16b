"""Events: past-tense facts of a closed set of types, and `user.` types of everybody's own; what each may say.

An event has a type, a key (what it is about), a payload, the publisher's `time`, and the instant at which it arrived in
the database, which is the only one that anything is counted from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.domain.collected import Amount
from tidegate.domain.errors import Fault
from tidegate.domain.instants import DAY, FIRST, LAST, Instant, format_instant
from tidegate.domain.runs import State

DATASET_UPDATED = "dataset.updated"
DATASET_GAP = "dataset.gap"
DEADLINE_AT_RISK = "deadline.at_risk"
DEADLINE_MISSED = "deadline.missed"
TABLE_HEALTH = "table.health"
RUN_EVENTS = frozenset(
    {"run.started", *(f"run.{state}" for state in State if state.value not in ("starting", "running"))}
)
OWN_EVENTS = RUN_EVENTS | {
    DATASET_UPDATED,
    DATASET_GAP,
    DEADLINE_AT_RISK,
    DEADLINE_MISSED,
    TABLE_HEALTH,
    "schedule.paused",
}
"""The closed set. All but `dataset.updated` are published by Tidegate only."""

MOST_PAYLOAD = 256 * 1024
"""Bytes of a payload as JSON: an event tells that something happened, it does not carry the data."""
MOST_ID = 200
"""Characters of a publisher's id."""
MOST_AHEAD = DAY
"""A publisher's `time` further ahead of the database's clock than this is a mistake."""

_USER = re.compile(r"user\.[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_USER_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[^\x00-\x20\x7f][^\x00-\x1f\x7f]{0,254}")
_DATASET = re.compile(r"[^\x00-\x20\x7f]{1,255}")
_COUNTS = ("rows", "bytes", "files")
_LISTS = ("partitions_added", "partitions_changed")
_NAMES = ("snapshot", "previous_snapshot", "table_uuid")
_MOST_COUNT = 1 << 62


def is_type(text: str) -> bool:
    """Whether events of this type can exist at all."""
    return text in OWN_EVENTS or bool(_USER.fullmatch(text))


def qualified(type: str, key: str, namespace: str) -> str:
    """The whole key: of programs, schedules and user events `namespace/name`, where it may have been left out."""
    return key if "/" in key or type.startswith(("dataset.", "table.")) else f"{namespace}/{key}"


def type_fault(type: str) -> str | None:
    """What is wrong with an event type that somebody listens to; None when it is one."""
    if is_type(type):
        return None
    if type.startswith("user."):
        return f"{type!r} is not an event type: after `user.` come 1 to 100 letters, digits, '_', '-' or '.'"
    return f"{type!r} is not an event type; known: user.NAME, {', '.join(sorted(OWN_EVENTS))}"


def publish_fault(type: str) -> str | None:
    """What is wrong with the type of an event that somebody wants to publish; None when it may be."""
    if type in OWN_EVENTS and type != DATASET_UPDATED:
        return f"{type!r} events are published by Tidegate itself; publish dataset.updated or user.NAME"
    return type_fault(type)


def faults(type: str, key: str, payload: Mapping[str, Any], time: Instant | None, now: Instant) -> Sequence[Fault]:
    """Everything that is wrong with an event that somebody wants to publish; paths are those of its document."""
    return list(_faults(type, key, payload, time, now))


def _faults(type: str, key: str, payload: Mapping[str, Any], time: Instant | None, now: Instant) -> Iterator[Fault]:
    if (wrong := publish_fault(type)) is not None:
        yield Fault("type", wrong)
    elif type == DATASET_UPDATED:
        if not _DATASET.fullmatch(key):
            yield Fault("key", "must be the name of a dataset: 1 to 255 characters without spaces")
        yield from _dataset_faults(payload)
    elif not _USER_KEY.fullmatch(key):
        yield Fault("key", f"{key!r} is not a key; write namespace/name, e.g. sales/eu")
    if (size := len(json.dumps(payload, ensure_ascii=False).encode())) > MOST_PAYLOAD:
        most = f"{MOST_PAYLOAD // 1024} KiB"
        yield Fault("payload", f"has {size:,} bytes as JSON, the most is {most}; publish where the data is, not itself")
    if time is not None and not FIRST <= time < LAST:
        yield Fault("time", f"must lie between the years 1900 and 2199, not {format_instant(time)}")
    elif time is not None and time > now + MOST_AHEAD:
        yield Fault(
            "time", f"{format_instant(time)} lies more than a day ahead of the database ({format_instant(now)})"
        )


def _dataset_faults(payload: Mapping[str, Any]) -> Iterator[Fault]:
    known = (*_COUNTS, *_LISTS, *_NAMES)
    for name, value in payload.items():
        at = f"payload.{name}"
        if name in _COUNTS:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_COUNT:
                yield Fault(at, "must be a whole number, 0 or more")
        elif name in _LISTS:
            if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
                yield Fault(at, "must be a list of names")
        elif name in _NAMES:
            if not isinstance(value, str | int) or isinstance(value, bool):
                yield Fault(at, "must be a snapshot's or table's name or number")
        else:
            yield Fault(at, f"is not part of a dataset.updated event (known: {', '.join(known)})")


def contains(payload: Any, match: Any) -> bool:
    """Whether JSON contains other JSON, as PostgreSQL's `@>`: objects by their members, lists by their elements."""
    if isinstance(match, Mapping):
        return isinstance(payload, Mapping) and all(
            name in payload and contains(payload[name], value) for name, value in match.items()
        )
    if isinstance(match, list):
        return isinstance(payload, list) and all(any(contains(one, wanted) for one in payload) for wanted in match)
    if isinstance(match, bool) or isinstance(payload, bool):
        return payload is match
    return bool(payload == match)


def run_payload(
    run: str, namespace: str, schedule: str, program: str, cause: str, outcome: str, reason: str
) -> dict[str, Any]:
    """The payload of `run.*` events, whose key is the program's `namespace/name`."""
    return {
        "run": run,
        "schedule": f"{namespace}/{schedule}",
        "program": f"{namespace}/{program}",
        "cause": cause,
        "backfill": cause == "backfill",
        "outcome": outcome,
        "reason": reason,
    }


def digest(type: str, key: str, payload: Mapping[str, Any], time: Instant | None) -> str:
    """What an event says, as 64 characters. An id that comes again with another digest names another event."""
    said = json.dumps([type, key, dict(payload), time], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode()).hexdigest()


def amount_of(type: str, payload: Mapping[str, Any]) -> Amount:
    """What an event counts for: one event, and the rows and bytes of new data that it tells of."""
    if type != DATASET_UPDATED:
        return Amount(n=1)
    return Amount(n=1, rows=payload.get("rows") or 0, bytes=payload.get("bytes") or 0)
