"""Records as the JSON of INTERFACES.md: what REST, `-o json` and World answer alike. Pure; absent is null.

Every function takes plain records and gives a dict of JSON values; instants are RFC 3339, durations ISO 8601.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tidegate.documents import encode
from tidegate.documents.order import ordered
from tidegate.domain.calendars import Calendar, closed_until
from tidegate.domain.errors import Fault
from tidegate.domain.evidence import MOST_EVENTS, ranges
from tidegate.domain.instants import SECOND, Instant, format_duration, format_instant, parse_instant
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject, Mode
from tidegate.ports.engine import Instance
from tidegate.ports.records import (
    AttemptRecord,
    Change,
    Freeze,
    Metadata,
    PoolRecord,
    ProgramRecord,
    RunRecord,
    ScheduleRecord,
    Stats,
)


def moment(instant: Instant | None) -> str | None:
    """An instant as JSON."""
    return None if instant is None else format_instant(instant)


def page(items: Iterable[Mapping[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    """A list's answer."""
    return {"items": [dict(item) for item in items], "next": next_cursor}


# ── runs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(record: RunRecord) -> dict[str, Any]:
    """A run, or a stretch of missed fires."""
    by, of = (record.caused_by, None) if record.cause != "rerun" else (None, record.caused_by)
    return {
        "id": str(record.key),
        "namespace": record.namespace,
        "schedule": record.schedule,
        "revision": record.rev,
        "program": record.program,
        "state": record.state.value,
        "reason": record.reason or None,
        "fire_time": moment(record.fire_time),
        "fire_time_to": moment(record.fire_time_to),
        "previous_fire_time": moment(record.previous_fire),
        "count": record.count,
        "cause": {
            "type": record.cause.value,
            "by": by or of or None,
            "fire_time": moment(record.fire_time),
            "events": _events(record),
        },
        "arguments": None if record.arguments is None else dict(record.arguments),
        "priority": record.priority,
        "created_at": moment(record.created_at),
        "ready_at": moment(record.ready_at),
        "started_at": moment(record.started_at),
        "finished_at": moment(record.finished_at),
        "expires_at": moment(record.expires_at),
        "merged_into": record.merged_into,
        "timed_out_waiting": bool((record.evidence or {}).get("timed_out_waiting")),
        "upstream": (record.evidence or {}).get("upstream"),
        "inputs": [run_input(name, given) for name, given in (record.inputs or {}).items()],
        "waiting_for": _waiting_for(record),
        "attempts": [attempt(one) for one in record.attempts],
    }


def _events(record: RunRecord) -> dict[str, Any]:
    """The events that made a run: how many, the first ten and the last ten (once its input is closed)."""
    if not record.evidence:
        return {"count": 0, "first": [], "last": []}
    count = sum(high - low for low, high in ranges(record.evidence).values())
    told = list(record.evidence.get("events", ()))
    return {"count": count, "first": told[:MOST_EVENTS], "last": told[-MOST_EVENTS:]}


def run_input(dataset: str, given: JsonObject) -> dict[str, Any]:
    """One dataset's input: everything after `from_snapshot` up to `to_snapshot`."""
    snapshots = {name: given.get(name) for name in ("from_snapshot", "to_snapshot")}
    return {
        "dataset": dataset,
        **{name: None if one is None else str(one) for name, one in snapshots.items()},
        **{name: given.get(name) for name in ("rows", "bytes", "events")},
        "partitions": list(given.get("partitions", ())),
    }


def attempt(record: AttemptRecord) -> dict[str, Any]:
    """One try of a run."""
    return {
        "number": record.key.number,
        "state": record.state,
        "backend": record.backend,
        "backend_id": record.backend_id,
        "created_at": moment(record.created_at),
        "started_at": moment(record.started_at),
        "finished_at": moment(record.finished_at),
        "error": None if record.error is None else _error(record.error),
    }


def _error(error: JsonObject) -> dict[str, Any]:
    return {"code": error.get("code"), "message": error.get("message"), "exit_status": error.get("exit_status")}


def _waiting_for(record: RunRecord) -> list[dict[str, Any]]:
    if record.state is not State.WAITING:
        return []
    told = []
    if not record.waiting_for and record.attempts and record.wake_at is not None:
        number = len(record.attempts)
        why = f"Attempt {number + 1} starts no earlier than {format_instant(whole_second(record.wake_at))}"
        why += f"; attempt {number} {_end_of(record.attempts[-1])}."
        told.append({"constraint": "retry", "verdict": "wait", "until": moment(record.wake_at), "why": why})
    for one in record.waiting_for:
        until = one.get("until")
        told.append(
            {
                "constraint": one.get("constraint"),
                "verdict": one.get("verdict", "wait"),
                "until": moment(until) if isinstance(until, int) else until,
                "why": one.get("why"),
            }
        )
    return told


def whole_second(at: Instant) -> Instant:
    """Where a sentence need not be exact: the next whole second."""
    return -(-at // SECOND) * SECOND


def _end_of(attempt: AttemptRecord) -> str:
    message = (attempt.error or {}).get("message")
    return f"{attempt.state.replace('_', ' ')} ({message.rstrip('.')})" if message else attempt.state.replace("_", " ")


def queue_item(record: RunRecord, *, position: int) -> dict[str, Any]:
    """A waiting run in the queue. `position`: 1 is the next to start, of what the list shows, unless something that it
    waits for comes later; `earliest`: not before, by what was known when it was last looked at."""
    waits = _waiting_for(record)
    known = [one["until"] for one in waits if one["until"] is not None]
    backoff = moment(record.wake_at) if record.attempts else None
    return {
        "namespace": record.namespace,
        "schedule": record.schedule,
        "kind": "run",
        "run": str(record.key),
        "position": position,
        "priority": record.priority,
        "tree": None,
        "waiting_for": waits,
        "earliest": max([*known, *([backoff] if backoff else [])], key=parse_instant, default=None),
        "next_check_at": moment(record.wake_at),
        "expires_at": moment(record.expires_at),
    }


# ── declarations ───────────────────────────────────────────────────────────────────────────────────────────────────


def metadata(given: Metadata) -> dict[str, Any]:
    """All of it, null where nothing is said."""
    return {
        "namespace": given.namespace,
        "name": given.name,
        "application": given.application,
        "labels": dict(given.labels),
        "owner": given.owner,
        "description": given.description,
    }


def schedule_document(record: ScheduleRecord) -> dict[str, Any]:
    """The document as it would be sent back: what PATCH merges into and `get -o yaml` begins with."""
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Schedule",
        "metadata": metadata(record.metadata),
        "spec": ordered(record.document),
    }


def schedule(
    record: ScheduleRecord, stats: Stats, *, next_fire: Instant | None, unsatisfiable: str | None = None
) -> dict[str, Any]:
    """A schedule. `expire`: whether runs that it holds expire.

    `next_fire`: the nominal time of its next fire (see `control.schedules.next_fire`)."""
    enabled, works = record.mode is Mode.ENABLED, record.mode.works
    return {
        **schedule_document(record),
        "status": {
            "enabled": enabled,
            "mode": None if enabled else record.mode.value,
            "expire": record.held_expires if works and not enabled else None,
            "reason": record.reason or None,
            "revision": record.rev,
            "created_at": moment(record.created_at),
            "updated_at": moment(record.valid_from),
            "next_fire": moment(next_fire) if works else None,
            "last_fire": moment(record.last_fire),
            "last_run": moment(stats.last_start),
            "streak": stats.consecutive_failures,
            "next_start": moment(record.next_due) if works else None,
            "unsatisfiable": unsatisfiable,
            "warnings": None,  # of an answer to a write that has any
        },
    }


def revision(number: Any, document: JsonObject, author: str, reason: str) -> dict[str, Any]:
    """One revision (`number` is the domain's Revision) of a schedule."""
    return {
        "revision": number.rev,
        "valid_from": moment(number.valid_from),
        "enabled": number.mode is Mode.ENABLED,
        "mode": None if number.mode is Mode.ENABLED else number.mode.value,
        "expire": number.held_expires if number.mode.works and number.mode is not Mode.ENABLED else None,
        "reason": reason or None,
        "author": author,
        "spec": ordered(document),
    }


def program_document(record: ProgramRecord) -> dict[str, Any]:
    """The document as it would be sent back."""
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Program",
        "metadata": {
            "namespace": record.ref.namespace,
            "name": record.ref.name,
            "application": record.application,
            "labels": {},
            "owner": "",
            "description": "",
            **record.document.get("metadata", {}),
        },
        "spec": ordered(record.document["spec"]),
    }


def program(record: ProgramRecord) -> dict[str, Any]:
    """A program."""
    return {
        **program_document(record),
        "status": {
            "revision": record.ref.rev,
            "updated_at": moment(record.valid_from),
            "type": record.ref.kind,
            "pool": record.ref.pool,
        },
    }


def namespace(name: str, document: JsonObject) -> dict[str, Any]:
    """A namespace."""
    said = {
        "name": name,
        "labels": document.get("labels", {}),
        "owner": document.get("owner", ""),
        "description": document.get("description", ""),
    }
    return {"apiVersion": encode.API_VERSION, "kind": "Namespace", "metadata": said, "spec": {}}


def calendar(calendar: Calendar, document: JsonObject, now: Instant) -> dict[str, Any]:
    """`status.closed_until`: null while it is open."""
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Calendar",
        "metadata": dict(document.get("metadata") or {"name": calendar.name}),
        "spec": ordered(document.get("spec") or {}),
        "status": {"closed_until": moment(closed_until(calendar, now))},
    }


def freeze(given: Freeze | None) -> dict[str, Any]:
    """Nothing starts while `frozen`; the other keys are null when it is not."""
    if given is None:
        return {"frozen": False, "who": None, "since": None, "reason": None}
    return {"frozen": True, "who": given.who, "since": moment(given.since), "reason": given.reason}


def pool(record: PoolRecord) -> dict[str, Any]:
    """A pool."""
    rate = None
    if record.rate_max is not None and record.rate_per is not None:
        rate = (record.rate_max, record.rate_per, record.rate_burst or record.rate_max)
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "Pool",
        "metadata": {"name": record.name},
        "spec": encode.pool(record.slots, rate, record.borrow),
        "status": {
            "used": record.used,
            "free": record.slots - record.used,
            "borrowed": record.borrowed,
            "lent": record.lent,
        },
    }


# ── answers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def stats(record: Stats, *, next_start: Instant | None) -> dict[str, Any]:
    """Statistics of a schedule (FAIL-6)."""
    return {
        "last_start": moment(record.last_start),
        "last_finish": moment(record.last_finish),
        "last_success": moment(record.last_success),
        "last_run_success": record.last_run_success,
        "next_start": moment(next_start),
        "total_runs": record.total_runs,
        "total_successes": record.total_successes,
        "total_failures": record.total_failures,
        "total_crashes": record.total_crashes,
        "total_timeouts": record.total_timeouts,
        "total_duration": format_duration(record.total_duration),
        "consecutive_failures": record.consecutive_failures,
        "consecutive_crashes": record.consecutive_crashes,
        "consecutive_unchanged": 0,
    }


class _Previewed(Protocol):
    @property
    def fire_time(self) -> Instant: ...
    @property
    def local_time(self) -> str: ...
    @property
    def note(self) -> str: ...


def preview(fire: _Previewed) -> dict[str, Any]:
    """One fire of a preview (a `control.preview.Previewed`)."""
    return {"fire_time": moment(fire.fire_time), "local_time": fire.local_time, "note": fire.note or None}


def explain(explanation: Any) -> dict[str, Any]:
    """A `control.explain.Explanation`."""
    return {
        "verdict": explanation.verdict,
        "summary": explanation.summary,
        "blocker": explanation.blocker,
        "earliest": moment(explanation.earliest),
        "release": explanation.release,
        "tree": _node(explanation.tree),
    }


def _node(node: Any) -> dict[str, Any]:
    return {
        "node": node.node,
        "satisfied": node.satisfied,
        "value": node.value,
        "threshold": node.threshold,
        "why": node.why,
        "children": [_node(child) for child in node.children],
    }


def deployed(result: Any) -> dict[str, Any]:
    """A `control.applications.Deployed`: schedules at the top, as the interface has it."""
    warned = {name: warnings(faults) for name, faults in result.warnings.items()}
    return {**_counts(result.schedules), "programs": _counts(result.programs), "warnings": warned}


def warnings(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """What contradicts itself in a document, as problems tell of faults."""
    return [{"path": one.path, "reason": one.reason} for one in faults]


def _counts(counts: Any) -> dict[str, Any]:
    return {key: list(getattr(counts, key)) for key in ("created", "updated", "deleted", "unchanged")}


def applied(item: Any) -> dict[str, Any]:
    """A `control.apply.Applied`."""
    return {
        "kind": item.kind,
        "namespace": item.namespace or None,
        "name": item.name,
        "result": item.effect.value,
        "hint": item.hint or None,
        "warnings": warnings(item.warnings),
    }


def difference(item: Any) -> dict[str, Any]:
    """A `control.apply.Difference`."""
    return {
        "kind": item.kind,
        "namespace": item.namespace or None,
        "name": item.name,
        "exists": item.exists,
        "same": item.same,
        "fields": [{"path": one.path, "stored": one.stored, "given": one.given} for one in item.fields],
        "note": item.note or None,
    }


def change(record: Change) -> dict[str, Any]:
    """One line of the audit log."""
    return {
        "id": str(record.id),
        "at": moment(record.at),
        "who": record.who,
        "action": record.action,
        "kind": record.kind,
        "namespace": record.namespace or None,
        "name": record.name,
        "before": None if record.before is None else dict(record.before),
        "after": None if record.after is None else dict(record.after),
    }


def instance(record: Instance) -> dict[str, Any]:
    """A living process."""
    return {
        "id": str(record.id),
        "role": record.role,
        "name": record.name,
        "host": record.host,
        "pid": record.pid,
        "epoch": record.epoch,
        "up_since": moment(record.up_since),
        "heartbeat": moment(record.heartbeat),
    }
