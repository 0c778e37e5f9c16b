"""Events and what triggers have collected as the JSON of INTERFACES.md. Pure; absent is null."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from tidegate.documents import encode
from tidegate.documents.shapes import moment
from tidegate.domain.instants import format_duration
from tidegate.domain.triggers import TIME_TRIGGERS, Elapsed, Quiet
from tidegate.ports.collecting import EventRecord, NewEvent, Receipt, SetAside
from tidegate.ports.lake import DatasetRecord
from tidegate.ports.sinks import SinkRecord
from tidegate.ports.sources import ABSENT, SourceRecord

# ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def event(record: EventRecord) -> dict[str, Any]:
    """An event of the log. `at` is when it arrived, `time` what the publisher says."""
    return {
        "position": str(record.pos),
        "at": moment(record.at),
        "type": record.type,
        "key": record.key,
        "time": moment(record.time),
        "id": record.id,
        "source": record.source or None,
        "payload": dict(record.payload),
    }


def receipt(event: NewEvent, given: Receipt) -> dict[str, Any]:
    """What became of a published event."""
    return {
        "position": str(given.pos),
        "type": event.type,
        "key": event.key,
        "id": event.id,
        "repeated": given.repeated,
    }


def reached(item: Any) -> dict[str, Any]:
    """A `control.events.Reached`."""
    return {"namespace": item.namespace, "schedule": item.schedule, "leaf": item.leaf, "type": item.type}


def set_aside(record: SetAside) -> dict[str, Any]:
    """What one schedule could not take."""
    return {
        "id": str(record.id),
        "namespace": record.namespace,
        "schedule": record.schedule,
        "at": moment(record.at),
        "count": record.count,
        "error": record.error,
    }


# ── what triggers have collected ───────────────────────────────────────────────────────────────────────────────────


def progress_item(item: Any) -> dict[str, Any]:
    """A partly satisfied trigger in the queue: a `control.progress.Gathered`."""
    return {
        "namespace": item.namespace,
        "schedule": item.schedule,
        "kind": "progress",
        "run": None,
        "position": None,
        "priority": None,
        "tree": None if item.tree is None else explained(item.tree),
        "waiting_for": [
            {"constraint": "trigger", "verdict": "wait", "until": moment(item.next_check_at), "why": item.why}
        ],
        "earliest": None,
        "next_check_at": moment(item.next_check_at),
        "expires_at": None,
    }


def progress(item: Any) -> dict[str, Any]:
    """A `control.progress.Gathered`."""
    return {
        "namespace": item.namespace,
        "schedule": item.schedule,
        "satisfied": item.satisfied,
        "why": item.why,
        "unsatisfiable": item.unsatisfiable,
        "fired_at": moment(item.fired_at),
        "next_check_at": moment(item.next_check_at),
        "tree": None if item.tree is None else explained(item.tree),
    }


def explained(node: Any) -> dict[str, Any]:
    """A `domain.explaining.Explained`: one node of a trigger."""
    return {
        "node": node.type,
        "satisfied": node.satisfied,
        "value": measured(node.type, node.value),
        "threshold": measured(node.type, node.threshold),
        "why": node.why,
        "decides_at": moment(node.decides_at),
        "children": [explained(child) for child in node.children],
    }


def measured(type: str, value: Any) -> Any:
    """A figure of a trigger's node: durations and instants as every answer writes them."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if type in (Elapsed.TYPE, Quiet.TYPE):
        return format_duration(value)
    return moment(value) if type in _CLOCKS else value


_CLOCKS = frozenset(one.TYPE for one in TIME_TRIGGERS)


# ── sinks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def message(record: EventRecord, schedule: str | None) -> bytes:
    """An event as sinks get it: as the log shows it, with the schedule that it is about; JSON in UTF-8."""
    return to_json({**event(record), "schedule": schedule})


def sink(item: Any) -> dict[str, Any]:
    """A `control.sinks.Shown`."""
    record: SinkRecord = item.record
    said = record.document
    spec = record.spec
    filled: dict[str, Any] = {"topics": list(spec.topics), **({"topic": spec.topic} if spec.topic else {})}
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Sink",
        "metadata": {"name": record.name, **said.get("metadata", {})},
        "spec": {"type": spec.type, **filled, **said.get("spec", {})},
        "status": {
            "position": str(record.spot.pos),
            "delivered": record.delivered,
            "set_aside": record.set_aside,
            "behind": record.behind,
            "error": record.error or None,
            "error_since": moment(record.error_since),
            "moved_at": moment(record.moved_at),
            "refused": [
                {"position": str(one.pos), "type": one.type, "key": one.key, "at": moment(one.at), "reason": one.reason}
                for one in item.refused
            ],
        },
    }


# ── sources ────────────────────────────────────────────────────────────────────────────────────────────────────────


def source(item: Any) -> dict[str, Any]:
    """A `control.sources.Shown`."""
    record: SourceRecord = item.record
    said, spec = record.document, record.spec
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Source",
        "metadata": {"name": record.name, **said.get("metadata", {})},
        "spec": {"format": spec.format, "begin": spec.begin, **said.get("spec", {})},
        "status": {
            "received": record.received,
            "set_aside": record.set_aside,
            "missed": record.missed,
            "error": record.error or None,
            "error_since": moment(record.error_since),
            "moved_at": moment(record.moved_at),
            "partitions": [
                {"topic": one.topic, "partition": one.partition, "next_offset": one.next, "end_offset": one.end}
                for one in record.places
                if one.partition != ABSENT
            ],
            "refused": [
                {
                    "topic": one.topic,
                    "partition": one.partition,
                    "offset": one.offset,
                    "at": moment(one.at),
                    "reason": one.reason,
                }
                for one in item.refused
            ],
        },
    }


# ── datasets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def dataset(record: DatasetRecord) -> dict[str, Any]:
    """A dataset: declared, waited for, or both."""
    document = record.document or {}
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Dataset",
        "metadata": {"name": record.name, **document.get("metadata", {})},
        "spec": {"kind": record.kind, "name": record.name, **document.get("spec", {})},
        "status": {
            "declared": record.document is not None,
            "snapshot": None if record.snapshot is None else str(record.snapshot),
            "missing": record.missing,
            "error": record.error or None,
            "looked_at": moment(record.moved_at),
        },
    }
