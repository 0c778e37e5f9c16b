"""The claim on an attempt's identity, as a driver takes it: the same file that `launchers.attempts` reads.

Made complete under another name and then linked, so that exactly one of all starters and sealers gets it; the end is
written into its padding by one pwrite. (launchers.shim says why; a test holds the two together. A driver does not
import the launchers, which know nothing of Spark either.)
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

_NAME = "process"
_END_AT = 256
_SIZE = 512


class Claim:
    """This process has the attempt; `end` says how it ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def end(self, *, status: int, stop: str | None) -> None:
        """`stop` is `polite` or `kill` when it had been asked to end. Once."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        said = {"status": status, "stop": stop, "at": time.clock_gettime_ns(clock) // 1000}
        os.pwrite(self._descriptor, json.dumps(said).encode().ljust(_SIZE - _END_AT), _END_AT)
        os.close(self._descriptor)


def take_claim(directory: Path) -> Claim | None:
    """Claim the attempt of this directory for ever; None when it has an owner or was sealed."""
    draft = directory / f".{_NAME}.{os.getpid()}"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, json.dumps(process_name()).encode().ljust(_SIZE))
        os.fsync(descriptor)
        os.link(draft, directory / _NAME)
    except OSError as fault:
        os.close(descriptor)
        if isinstance(fault, FileExistsError):
            return None
        raise
    finally:
        draft.unlink()
    return Claim(descriptor)


def process_name() -> dict[str, Any]:
    """This process by boot, pid and kernel start time: never mistaken for another."""
    boot, stat = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/stat")
    try:
        start = int(stat.read_bytes().rpartition(b")")[2].split()[19])
        return {"boot": boot.read_text().strip(), "pid": os.getpid(), "start": start}
    except OSError:
        import psutil

        own = psutil.Process()
        boot_name = f"booted-{int(psutil.boot_time())}"
        return {"boot": boot_name, "pid": own.pid, "start": int(own.create_time() * 100)}
