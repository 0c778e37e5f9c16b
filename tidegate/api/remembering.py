"""The store as a request with an Idempotency-Key sees it: its first transaction also says that it was carried out.

What was done and that it was done are then one commit: a crash after it loses the answer at most, and the answer can be
made again from the notes. Transactions of control tell what they do through the port, which is where notes are taken.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

from tidegate.domain.backfills import identity
from tidegate.domain.errors import TidegateError
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Instant
from tidegate.ports.collecting import NewEvent, Receipt
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change


class Repeated(TidegateError):
    """Another request with this key was faster; this one was undone."""


class Noting:
    """A transaction that notes what is asked of it."""

    def __init__(self, tx: ControlTx) -> None:
        self._tx = tx
        self.notes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def add_run(self, *given: Any, **more: Any) -> RunKey:
        key = await self._tx.add_run(*given, **more)
        self.notes["run"] = str(key)
        return key

    async def add_backfill(self, *given: Any, **more: Any) -> int:
        number = await self._tx.add_backfill(*given, **more)
        self.notes["backfill"] = identity(number)
        return number

    async def publish(self, events: Sequence[NewEvent], now: Instant) -> Sequence[Receipt]:
        receipts = await self._tx.publish(events, now)
        self.notes["events"] = [
            {"type": event.type, "key": event.key, "id": event.id, "pos": receipt.pos, "repeated": receipt.repeated}
            for event, receipt in zip(events, receipts, strict=True)
        ]
        return receipts

    async def record_change(self, change: Change, now: Instant) -> None:
        await self._tx.record_change(change, now)
        self.notes["change"] = [change.kind, change.namespace, change.name]


class Remembering:
    """A `ControlStore` for one request."""

    def __init__(self, store: ControlStore, key: str, request: str) -> None:
        self._store = store
        self._key, self._request = key, request
        self._said = False
        self.repeated = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def changing(self) -> AbstractAsyncContextManager[ControlTx]:
        return self._store.changing() if self._said else self._first()

    @asynccontextmanager
    async def _first(self) -> AsyncIterator[ControlTx]:
        async with self._store.changing() as tx:
            noting = Noting(tx)
            yield cast(ControlTx, noting)
            if not await tx.remember(self._key, self._request, noting.notes, await tx.now()):
                self.repeated = True
                raise Repeated("Another request with this Idempotency-Key was faster.", code="idempotency_key")
        self._said = True
