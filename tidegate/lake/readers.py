"""Who reads the tables that changed: this process, or another reader when it is much at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidegate.ports.lake import News, Order, Reader

_AT_ONCE = 20
"""Tables that one call to a thread reads: in between, others get their turn."""


class LocalReader:
    """Reads in a thread of this process."""

    async def read(self, orders: Sequence[Order]) -> Sequence[News]:
        found: list[News] = []
        for first in range(0, len(orders), _AT_ONCE):
            found += await asyncio.to_thread(_read_all, orders[first : first + _AT_ONCE])
        return found

    async def close(self) -> None:
        """Nothing is held."""


class ByNumber:
    """`few` reads up to `threshold` tables, `many` more than that."""

    def __init__(self, few: Reader, many: Reader, threshold: int) -> None:
        self._few, self._many, self._threshold = few, many, threshold

    async def read(self, orders: Sequence[Order]) -> Sequence[News]:
        return await (self._many if len(orders) > self._threshold else self._few).read(orders)

    async def close(self) -> None:
        await self._few.close()
        await self._many.close()


def _read_all(orders: Sequence[Order]) -> list[News]:
    from tidegate.lake.reading import read  # PyIceberg takes half a second and 100 MB: only who needs it

    return [read(order) for order in orders]
