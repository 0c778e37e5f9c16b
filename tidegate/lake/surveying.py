"""Who measures tables: this process, or Spark when they are many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.domain.maintenance.wire import health_json
from tidegate.ports.tables import Survey, Surveyor, SurveyOrder

_AT_ONCE = 20
"""Tables that one call to a thread measures: in between, others get their turn."""


class LocalSurveyor:
    """Measures in threads of its own in this process: storage that does not answer takes none of those that all of the
    process shares."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(thread_name_prefix="survey")

    async def survey(self, orders: Sequence[SurveyOrder]) -> Sequence[Survey]:
        found: list[Survey] = []
        loop = asyncio.get_running_loop()
        for first in range(0, len(orders), _AT_ONCE):
            found += await loop.run_in_executor(self._threads, survey_all, orders[first : first + _AT_ONCE])
        return found

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class ByNumber:
    """`few` measures up to `threshold` tables, `many` more than that."""

    def __init__(self, few: Surveyor, many: Surveyor, threshold: int) -> None:
        self._few, self._many, self._threshold = few, many, threshold

    async def survey(self, orders: Sequence[SurveyOrder]) -> Sequence[Survey]:
        return await (self._many if len(orders) > self._threshold else self._few).survey(orders)

    async def close(self) -> None:
        await self._few.close()
        await self._many.close()


def survey_all(orders: Sequence[SurveyOrder]) -> list[Survey]:
    """Measure these tables, one after the other, each for itself."""
    from tidegate.lake.assessing import assess  # PyIceberg takes half a second and 100 MB: only who needs it

    found = []
    for order in orders:
        health = assess(order.location, order.properties, order.now)
        told = None if health.fault is not None else health_json(health)
        found.append(Survey(table=order.table, health=told, error=health.fault or ""))
    return found
