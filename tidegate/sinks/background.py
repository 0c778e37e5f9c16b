"""What all sinks share: delivering in the background, so that the relay never waits, and secrets by reference."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.domain.errors import Refused
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
            return Delivery(passed=0, fault=f"{type(fault).__name__}: {fault}")
        return task.result()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task
            self._task = None


def revealed(reference: str, environ: Mapping[str, str] = os.environ) -> str:
    """What `env:NAME` or `file:PATH` stands for; other text is itself. Raises Refused, never repeating a secret."""
    kind, _, place = reference.partition(":")
    match kind:
        case "env":
            if not environ.get(place):
                raise Refused(
                    f"The environment variable {place} is not set.", remedy="Set it where schedulers are started."
                )
            return environ[place]
        case "file":
            try:
                return Path(place).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
                raise Refused(f"The secret in {place} cannot be read: {why}.") from None
        case _:
            return reference
