"""Who reads the tables that changed: this process, or another reader when it is much at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.ports.lake import News, Order, Reader

_AT_ONCE = 20
"""Tables that one call to a thread reads: in between, others get their turn."""


class LocalReader:
    """Reads in threads of its own in this process: storage that does not answer takes none of those that all of the
    process shares."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(thread_name_prefix="tables")

    async def read(self, orders: Sequence[Order]) -> Sequence[News]:
        found: list[News] = []
        loop = asyncio.get_running_loop()
        for first in range(0, len(orders), _AT_ONCE):
            found += await loop.run_in_executor(self._threads, _read_all, orders[first : first + _AT_ONCE])
        return found

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


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
