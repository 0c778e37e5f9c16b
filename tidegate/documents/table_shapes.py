"""Policies and tables as JSON: what REST and `-o json` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from tidegate.documents import encode
from tidegate.documents.order import ordered
from tidegate.documents.shapes import moment
from tidegate.documents.table_sentences import why
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Instant, format_duration
from tidegate.domain.maintenance.debt import Debt
from tidegate.domain.maintenance.decision import Decision, Finding, Verdict
from tidegate.domain.maintenance.health import AGES, TableHealth
from tidegate.domain.maintenance.issues import Issue
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.policy import Reach, Resolution, tie_warning
from tidegate.domain.maintenance.state import NO_HISTORY, History, Prediction
from tidegate.domain.schedules import JsonObject
from tidegate.ports.tables import CareRecord, PolicyRecord, Switch, TableRecord

_NO_FIGURES = frozenset({"assessed_at", "snapshot", "fault", "files", "snapshot_times"})


def policy(record: PolicyRecord, reach: tuple[Reach, str], *, automatic: bool) -> dict[str, Any]:
    """A policy: its document, which revision of it is in force, and how many of the known tables it speaks for, with a
    warning where it keeps none; `automatic`: whether maintenance starts by itself at all."""
    reached, warning = reach
    return {
        "apiVersion": encode.API_VERSION,
        "kind": "MaintenancePolicy",
        "metadata": dict(record.document.get("metadata") or {"name": record.name}),
        "spec": ordered(record.document.get("spec") or {}),
        "status": {
            "revision": record.rev,
            "updated_at": moment(record.updated_at),
            "author": record.author,
            "tables": reached.tables,
            "warning": warning or None,
            "automatic": automatic,
        },
    }


def policy_revision(rev: int, document: JsonObject | None, author: str, at: Instant) -> dict[str, Any]:
    """One revision; `spec` null: by it the policy was deleted."""
    spec = None if document is None else ordered(document.get("spec") or {})
    return {"revision": rev, "valid_from": moment(at), "author": author, "spec": spec}


def switch(given: Switch) -> dict[str, Any]:
    """Whether maintenance starts by itself; the other keys are null when it does."""
    return {
        "automatic": given.automatic,
        "who": given.who or None,
        "since": moment(given.since),
        "reason": given.reason or None,
    }


class Known(Protocol):
    """A table with what is known of it (a `control.tables.Table`)."""

    @property
    def record(self) -> TableRecord: ...
    @property
    def resolution(self) -> Resolution: ...
    @property
    def health(self) -> TableHealth | None: ...
    @property
    def issues(self) -> Sequence[Issue]: ...
    @property
    def debt(self) -> Debt: ...


def table(known: Known) -> dict[str, Any]:
    """A table in a list. `score` and `issues` are null while nobody measured it."""
    record, policy = known.record, known.resolution.policy
    measured = known.health is not None
    return {
        "table": record.table,
        "policy": None if policy is None else policy.name,
        "warning": tie_warning(known.resolution) or None,
        "score": round(known.debt.score, 1) if measured and policy is not None else None,
        "worst": known.issues[0].severity.value if known.issues else None,
        "issues": [issue.kind for issue in known.issues] if measured else None,
        "assessed_at": moment(record.assessed_at),
        "current": record.location is not None and record.location == record.assessed,
        "missing": record.location is None,
        "error": record.error or None,
    }


def health(known: Known, now: Instant) -> dict[str, Any]:
    """The health of a table; `metrics` holds what is known only. Ages are durations, sizes bytes."""
    record, figures = known.record, known.health
    return {
        "table": record.table,
        "snapshot": None if figures is None or figures.snapshot is None else str(figures.snapshot),
        "assessed_at": moment(record.assessed_at),
        "metrics": {} if figures is None else metrics(figures, now),
        "issues": [issue_of(one) for one in known.issues],
        "debt": debt_of(known.debt),
        "error": record.error or None,
    }


def metrics(figures: TableHealth, now: Instant) -> dict[str, Any]:
    """Every figure that is known: those that conditions compare first, by their names there."""
    compared = {name: figure(name, value) for name, value in figures.metrics(now).items()}
    plain = {one.name: getattr(figures, one.name) for one in fields(figures) if one.name not in _NO_FIGURES}
    others = {
        name: moment(value) if name.endswith("_at") else str(value) if name.endswith("snapshot") else value
        for name, value in plain.items()
        if value is not None and not isinstance(value, tuple)
    }
    return {**compared, **others}


def figure(name: str, value: float | None) -> Any:
    """A figure as it is shown: ages as durations, all others as numbers."""
    if value is None or name not in AGES:
        return value
    return format_duration(int(value))


def issue_of(one: Issue) -> dict[str, Any]:
    """Something that is the matter with a table."""
    return {
        "severity": one.severity.value,
        "kind": one.kind,
        "value": figure(one.kind, one.value),
        "threshold": figure(one.kind, one.threshold),
        "why": one.why,
    }


def debt_of(one: Debt) -> dict[str, Any]:
    """A debt with its terms."""
    terms = [{"name": term.name, "points": round(term.points, 3), "why": term.why} for term in one.terms]
    return {"score": round(one.score, 3), "terms": terms}


def measured(at: Instant, figures: TableHealth, score: float | None) -> dict[str, Any]:
    """One line of a table's history."""
    return {
        "assessed_at": moment(at),
        "snapshot": None if figures.snapshot is None else str(figures.snapshot),
        "metrics": metrics(figures, at),
        "score": None if score is None else round(score, 3),
    }


class Maintained(Protocol):
    """An operation that was started by hand (a `control.tables.Maintained`)."""

    @property
    def operation(self) -> Operation: ...
    @property
    def run(self) -> RunKey | None: ...
    @property
    def policy(self) -> str: ...
    @property
    def prediction(self) -> Prediction: ...
    @property
    def bytes(self) -> int | None: ...


def maintained(table: str, one: Maintained) -> dict[str, Any]:
    """`run` is null in a dry run. `prediction`: what it would do, nulls where that is not known."""
    return {
        "table": table,
        "operation": one.operation.value,
        "run": None if one.run is None else str(one.run),
        "policy": one.policy or None,
        "prediction": prediction(one.prediction, one.bytes),
    }


def prediction(one: Prediction, bytes: int | None) -> dict[str, Any]:
    """What a run would do."""
    return {"removes": one.removes, "files": one.files, "bytes": bytes, "noop": one.noop, "why": one.why}


class Judged(Protocol):
    """What is decided of a table (a `control.tables.Status`)."""

    @property
    def table(self) -> Known: ...
    @property
    def decisions(self) -> Sequence[Decision]: ...
    @property
    def histories(self) -> Mapping[Operation, History]: ...


def trigger_status(given: Judged) -> dict[str, Any]:
    """Of each operation whether it is to run now, and every reason; `policy` is null where none speaks for it."""
    catalog, *namespace, name = given.table.record.table.split(".")
    policy = given.table.resolution.policy
    return {
        "catalog": catalog,
        "namespace": ".".join(namespace),
        "table": name,
        "policy": None if policy is None else policy.name,
        "policy_revision": None if policy is None else policy.revision,
        "operations": [_operation(one, given.histories.get(one.operation, NO_HISTORY)) for one in given.decisions],
    }


def _operation(one: Decision, history: History) -> dict[str, Any]:
    return {
        "operation": one.operation.value,
        "should_run": one.verdict is Verdict.RUN,
        "conditions_met": [finding(each) for each in one.met],
        "conditions_unmet": [finding(each) for each in one.unmet],
        "conditions_ignored": one.ignored,
        "next_eligible_time": moment(one.next_eligible),
        "forced": one.forced,
        "blocked_by": list(dict.fromkeys(each.by.value for each in one.blocks)),
        "why": why(one),
        "due_since": moment(one.due_since),
        "prediction": prediction(one.prediction, one.bytes),
        "last_run": moment(history.started_at),
        "last_outcome": history.outcome,
        "failures": history.failures,
        "unchanged": history.unchanged,
    }


def finding(one: Finding) -> dict[str, Any]:
    """A condition with the figure that it was compared with; null: nobody knows it."""
    name = one.metric.value
    return {"name": name, "value": figure(name, one.value), "threshold": figure(name, one.limit)}


def care(record: CareRecord) -> dict[str, Any]:
    """One maintenance of a table. `outcome` is null while it is under way."""
    order = record.order
    return {
        "run": str(order.run),
        "table": order.table,
        "operation": order.operation,
        "policy": order.policy or None,
        "policy_revision": order.policy_rev or None,
        "manual": order.manual,
        "started_at": moment(record.at),
        "settled_at": moment(record.settled_at),
        "outcome": record.outcome,
        "bytes": record.bytes,
        "result": None if record.result is None else dict(record.result),
    }
