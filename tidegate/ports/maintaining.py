"""What the assessor and the caretaker ask of a store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlTx
from tidegate.ports.engine import Membership
from tidegate.ports.lake import DatasetReads
from tidegate.ports.tables import TablesReads


class AssessorStore(TablesReads, Membership, Protocol):
    def changing(self) -> AbstractAsyncContextManager[ControlTx]: ...


class CaretakerStore(TablesReads, DatasetReads, Membership, Protocol):
    def changing(self) -> AbstractAsyncContextManager[ControlTx]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An operation on a table that is to be started. `bytes`: to be reserved; `keep`: snapshots that somebody still
    needs; `after`: runs on the table that died since one came through (`handover.AFTER`); `policy` empty: a person
    asked, and none speaks for the table; `history`: what became of it so far."""

    table: str
    operation: Operation
    options: JsonObject = field(default_factory=dict)
    timeout: Duration | None = None
    policy: str = ""
    policy_rev: int = 0
    bytes: int = 0
    keep: Sequence[int] = ()
    after: Sequence[JsonObject] = ()
    history: JsonObject | None = None
    manual: bool = False
    who: str = ""


class Starter(Protocol):
    """Whoever makes the run of a maintenance and reserves it, in a transaction that holds the maintenance lock."""

    async def __call__(self, tx: ControlTx, wish: Wish, now: Instant) -> RunKey: ...
