"""What tests wait for, and where they listen."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait for something to hold; what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.05)
    return found


async def comes(holds: Callable[[], Any], seconds: float = 240) -> None:
    """The same among other tasks."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)
