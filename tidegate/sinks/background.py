"""What all sinks share: delivering in the background, so that the relay never waits."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress

from tidegate.ports.sinks import Delivery, Message


class BackgroundSink(ABC):
    """A `ports.sinks.Sink` whose `deliver` runs as a task; `changed` is called when it is done."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._task: asyncio.Task[Delivery] | None = None

    @abstractmethod
    async def deliver(self, messages: Sequence[Message]) -> Delivery:
        """Deliver these, in the order of each lane. Raises nothing that is to be expected."""

    def begin(self, messages: Sequence[Message]) -> None:
        assert self._task is None, "one batch after the other"
        self._task = asyncio.create_task(self.deliver(messages))
        self._task.add_done_callback(lambda _: self._changed())

    def result(self) -> Delivery | None:
        if self._task is None or not self._task.done():
            return None
        task, self._task = self._task, None
        fault = task.exception()
        if (
            fault is not None
        ):  # a mistake of ours, or of a library: told as any other, so that it holds up no other sink
            return Delivery(passed=0, fault=f"{type(fault).__name__}: {fault}".rstrip(".") + ".")
        return task.result()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task
            self._task = None
