"""Apply: many documents in one transaction; diff: how they differ from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.control.common import Effect, OnUpdate
from tidegate.documents.declared import Declaration
from tidegate.ports.control import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of one document. `hint` says what a person may want to do next (how to enable)."""

    kind: str
    namespace: str
    name: str
    effect: Effect
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """`stored` or `given` None: not there."""

    path: str
    stored: Any
    given: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one document differs. Not `exists`: applying would create it. `note`: drift that applying does not change."""

    kind: str
    namespace: str
    name: str
    exists: bool
    fields: tuple[FieldDifference, ...]
    note: str = ""

    @property
    def same(self) -> bool:
        return self.exists and not self.fields


async def apply(
    store: ControlStore,
    documents: Sequence[Declaration],
    *,
    who: str,
    on_update: OnUpdate = OnUpdate.RESET,
    dry_run: bool = False,
) -> tuple[Applied, ...]:
    """Write all of them or none: namespaces, pools, programs, applications, schedules, whatever their order in the
    file. Raises Invalid, Conflict."""
    raise NotImplementedError


async def diff(store: ControlStore, documents: Sequence[Declaration]) -> tuple[Difference, ...]:
    """Field by field against what is stored; `enabled` against the mode a person set is a note."""
    raise NotImplementedError
