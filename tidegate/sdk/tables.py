"""`client.tables`: how tables are, what is decided about them, maintenance by hand; and the shapes of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.sdk.answers import Declared, read
from tidegate.sdk.connection import segment

if TYPE_CHECKING:
    from tidegate.sdk.client import Client


@dataclass(frozen=True, kw_only=True)
class PolicyStatus:
    """`tables`: how many of the known ones it speaks for; `warning`: why it speaks for none; `automatic`: whether
    maintenance starts by itself at all."""

    revision: int
    updated_at: datetime
    author: str
    tables: int
    warning: str | None
    automatic: bool


@dataclass(frozen=True, kw_only=True)
class Policy(Declared):
    status: PolicyStatus


@dataclass(frozen=True, kw_only=True)
class PolicyRevision:
    """`spec` None: by it the policy was deleted."""

    revision: int
    valid_from: datetime
    author: str
    spec: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Switch:
    """Whether maintenance starts by itself; if not, by whose word, since when and why."""

    automatic: bool
    who: str | None
    since: datetime | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """`score`: its debt; `worst`: the severity of its worst issue; None while nobody measured it. `current`: measured
    as it is now; `missing`: not in its catalog any more; `warning`: of policies of equal rank only a name decided."""

    table: str
    policy: str | None
    warning: str | None
    score: float | None
    worst: str | None
    issues: tuple[str, ...]
    assessed_at: datetime | None
    current: bool
    missing: bool
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Issue:
    severity: str
    kind: str
    value: Any
    threshold: Any
    why: str


@dataclass(frozen=True, kw_only=True)
class Term:
    name: str
    points: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Debt:
    score: float
    terms: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True)
class Health:
    """`metrics`: the figures that are known, by name."""

    table: str
    snapshot: str | None
    assessed_at: datetime | None
    metrics: Mapping[str, Any]
    issues: tuple[Issue, ...]
    debt: Debt
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    assessed_at: datetime
    snapshot: str | None
    metrics: Mapping[str, Any]
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Care:
    """One maintenance. `outcome` None: under way. `result`: what it really changed."""

    run: str
    table: str
    operation: str
    policy: str | None
    policy_revision: int | None
    manual: bool
    started_at: datetime
    settled_at: datetime | None
    outcome: str | None
    bytes: int
    result: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Condition:
    """`value` None: nobody knows the figure."""

    name: str
    value: Any
    threshold: Any


@dataclass(frozen=True, kw_only=True)
class Prediction:
    removes: int | None
    files: int | None
    bytes: int | None
    noop: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What is decided of an operation now. `conditions_ignored`: they do not count, by a setting. `blocked_by`:
    schedule, window, throttle, budget, constraint, predicted_noop."""

    operation: str
    should_run: bool
    conditions_met: tuple[Condition, ...]
    conditions_unmet: tuple[Condition, ...]
    next_eligible_time: datetime | None
    forced: bool
    blocked_by: tuple[str, ...]
    why: str
    due_since: datetime | None
    conditions_ignored: bool
    prediction: Prediction
    last_run: datetime | None
    last_outcome: str | None
    failures: int
    unchanged: int


@dataclass(frozen=True, kw_only=True)
class Status:
    catalog: str
    namespace: str
    table: str
    policy: str | None
    policy_revision: int | None
    operations: tuple[Operation, ...]


@dataclass(frozen=True, kw_only=True)
class Maintained:
    """`run` None: a dry run."""

    table: str
    operation: str
    run: str | None
    policy: str | None
    prediction: Prediction


class Tables:
    """Tables of all catalogs, by their paths `catalog.namespace.table`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, *, limit: int | None = None) -> Iterator[Table]:
        """Every table, by name."""
        return self._client._items(Table, "/tables", limit)

    def get(self, table: str) -> Table:
        return read(Table, self._client.connection.get(_path(table)))

    def health(self, table: str) -> Health:
        """Its figures, what is the matter, and its debt term by term."""
        return read(Health, self._client.connection.get(f"{_path(table)}/health"))

    def history(self, table: str, *, limit: int | None = None) -> Iterator[Measured]:
        """What was measured of it, newest first."""
        return self._client._items(Measured, f"{_path(table)}/history", limit)

    def status(self, table: str) -> Status:
        """Of each operation whether it is to run now, and every reason."""
        return read(Status, self._client.connection.get(f"{_path(table)}/trigger-status"))

    def runs(self, table: str, *, limit: int | None = None) -> Iterator[Care]:
        """Its maintenance, newest first."""
        return self._client._items(Care, f"{_path(table)}/runs", limit)

    def maintain(
        self, table: str, operation: str | None = None, *, policy: str | None = None, dry_run: bool = False
    ) -> tuple[Maintained, ...]:
        """Start an operation now, or all that its policy enables; a dry run only says what each would do."""
        given = {"operation": operation, "policy": policy, "dry_run": dry_run or None}
        body = {name: value for name, value in given.items() if value is not None}
        answer = self._client.connection.call("POST", f"{_path(table)}:maintain", body=body)
        return tuple(read(Maintained, one) for one in answer["items"])

    def policy_revisions(self, policy: str) -> tuple[PolicyRevision, ...]:
        """Every revision of a policy, newest first; of a deleted one, too."""
        found = self._client.connection.items(f"/policies/{segment(policy)}/revisions")
        return tuple(read(PolicyRevision, one) for one in found)

    def automatic(self) -> Switch:
        """Whether maintenance starts by itself."""
        return read(Switch, self._client.connection.get("/maintenance"))

    def enable(self, *, reason: str = "") -> Switch:
        """Let maintenance start by itself, where policies say so."""
        return self._switch("enable", reason)

    def disable(self, *, reason: str = "") -> Switch:
        """Start no maintenance by itself any more; what runs goes on, and by hand it is started all the same."""
        return self._switch("disable", reason)

    def _switch(self, verb: str, reason: str) -> Switch:
        body = {"reason": reason} if reason else {}
        return read(Switch, self._client.connection.call("POST", f"/maintenance:{verb}", body=body))


def _path(table: str) -> str:
    return f"/tables/{segment(table)}"
