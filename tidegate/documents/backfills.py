"""What a backfill is asked for with, and how it is told: the JSON of `:backfill` and of `/backfills`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from tidegate.documents import refusals
from tidegate.documents.shapes import moment
from tidegate.domain.backfills import MOST_AT_ONCE, MOST_KEYS, Item, Order, Reprocess, Wish, identity
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.instants import Instant, format_duration, parse_instant
from tidegate.ports.backfills import BackfillRecord

KEYS = ("start", "end", "keys", "order", "concurrency", "reprocess", "dry_run")
E = TypeVar("E", bound=StrEnum)


def parse_backfill(body: Mapping[str, Any]) -> tuple[Wish, bool]:
    """The wish, and whether it is only to be looked at. Raises Invalid with every fault at its path."""
    faults = [Fault(key, refusals.unknown(key, "a key here", KEYS)) for key in body if key not in KEYS]
    start, end = _instant(body, "start", faults), _instant(body, "end", faults)
    keys = _keys(body, faults)
    if keys and (body.get("start") is not None or body.get("end") is not None):
        faults.append(Fault("keys", "name either a range (start, end) or fire times (keys)"))
    concurrency, dry_run = body.get("concurrency"), body.get("dry_run")
    if concurrency is not None and (type(concurrency) is not int or not 1 <= concurrency <= MOST_AT_ONCE):
        faults.append(Fault("concurrency", f"must be a whole number from 1 to {MOST_AT_ONCE}"))
    if dry_run is not None and not isinstance(dry_run, bool):
        faults.append(Fault("dry_run", "must be true or false"))
    order = _choice(body, "order", Order, faults)
    reprocess = _choice(body, "reprocess", Reprocess, faults)
    if faults:
        raise Invalid(faults, what="the backfill")
    wish = Wish(
        start=start,
        end=end,
        keys=keys,
        order=order or Order.OLDEST,
        reprocess=reprocess or Reprocess.NONE,
        concurrency=concurrency or 1,
    )
    return wish, bool(dry_run)


def _keys(body: Mapping[str, Any], faults: list[Fault]) -> tuple[Instant, ...]:
    given = body.get("keys")
    if given is None:
        return ()
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_KEYS:
        faults.append(Fault("keys", f"must be a list of 1 to {MOST_KEYS} fire times"))
        return ()
    named = {f"keys[{number}]": one for number, one in enumerate(given)}
    found = [_instant(named, path, faults) for path in named]
    return tuple(one for one in found if one is not None)


def _instant(body: Mapping[str, Any], key: str, faults: list[Fault]) -> Instant | None:
    given = body.get(key)
    if given is None:
        return None
    try:
        return parse_instant(given)
    except ValueError as error:
        told = f"{given!r}: {error}" if "zone" in str(error) else str(error)
        faults.append(Fault(key, told))
    except (TypeError, AttributeError):
        faults.append(Fault(key, f"{given!r} is not an instant; write it like 2026-11-01T00:00:00Z"))
    return None


def _choice(body: Mapping[str, Any], key: str, kind: type[E], faults: list[Fault]) -> E | None:
    given = body.get(key)
    if given is None:
        return None
    try:
        return kind(given)
    except ValueError:
        known = [one.value for one in kind]
        faults.append(Fault(key, refusals.unknown(str(given), f"a value of {key}", known)))
        return None


# ── told ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def backfill(record: BackfillRecord, items: Iterable[Item], left: int | None) -> dict[str, Any]:
    """A backfill, and what it has in hand."""
    asked, counts = record.asked, record.counts
    return {
        "id": identity(record.id),
        "namespace": record.namespace,
        "schedule": record.schedule,
        "revision": record.rev,
        "state": record.state.value,
        "reason": record.reason or None,
        "by": record.by,
        **_asked(asked),
        "total": record.total,
        "count": counts.considered - counts.passed,
        "progress": {
            "settled": counts.settled,
            "percent": round(100 * counts.settled / max(1, record.total), 1),
            "passed": counts.passed,
            "live": counts.considered - counts.settled,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
            "cancelled": counts.cancelled,
        },
        "expected": None if left is None else format_duration(left),
        "created_at": moment(record.created_at),
        "finished_at": moment(record.finished_at),
        "items": [
            _item(one.fire_time, run=one.run, state="planned" if one.state is None else one.state.value)
            for one in items
        ],
    }


def previewed(preview: Any, record: BackfillRecord | None, namespace: str, schedule: str) -> dict[str, Any]:
    """What a backfill will do (a `control.backfills.Preview`); with a record, it has been asked for."""
    return {
        "id": None if record is None else identity(record.id),
        "namespace": namespace,
        "schedule": schedule,
        **_asked(preview.asked),
        "total": preview.total,
        "count": preview.count,
        "at_a_time": preview.at_a_time,
        "expected_run": None if preview.each is None else format_duration(preview.each),
        "expected": None if preview.whole is None else format_duration(preview.whole),
        "items": [_item(one.fire_time, local=one.local_time, note=one.note or None) for one in preview.items],
    }


def _asked(asked: Any) -> dict[str, Any]:
    return {
        "start": moment(asked.start),
        "end": moment(asked.end),
        "keys": [moment(one) for one in asked.keys] or None,
        "order": asked.order.value,
        "concurrency": asked.concurrency,
        "reprocess": asked.reprocess.value,
    }


def _item(
    fire: Instant, *, local: str | None = None, note: str | None = None, run: Any = None, state: str = "planned"
) -> dict[str, Any]:
    return {
        "fire_time": moment(fire),
        "local_time": local,
        "note": note,
        "run": None if run is None else str(run),
        "state": state,
    }
