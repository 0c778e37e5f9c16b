"""Processes of this machine, named so that a reused pid or a reboot is never taken for the process that was meant.

A pid alone is no name: it is given to somebody else as soon as its process is gone. `ProcessRef` adds the boot it
lives in and the kernel's start time, and signals go through a pidfd that was checked after it was opened, so that no
signal can reach a stranger. Where there is no pidfd (not Linux) the check and the signal are merely close together.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tidegate.launchers.shim import monotonic_us

__all__ = [
    "ProcessRef",
    "alive",
    "kill_tree",
    "monotonic_us",
    "open_pidfd",
    "ref_of",
    "send",
    "start_of",
    "this_boot",
    "tree",
]

ENDED_STATES = ("Z", "X")
UNKNOWN = 0
"""The start time of a process on a system that has no /proc: there only the pid is compared."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """One process of one boot. `start` is the kernel's: clock ticks since boot (Linux)."""

    boot: str
    pid: int
    start: int


@functools.cache
def this_boot() -> str:
    """The name of the time between two boots of this machine."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"booted-{int(psutil.boot_time())}"


def start_of(pid: int) -> int | None:
    """The start time of a living process; None when there is none, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return None if _BOOT_ID.exists() else _start_by_psutil(pid)
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0].decode() in ENDED_STATES else int(fields[19])


def _start_by_psutil(pid: int) -> int | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else int(process.create_time() * 100)
    except psutil.Error:
        return None


def ref_of(pid: int) -> ProcessRef | None:
    start = start_of(pid)
    return None if start is None else ProcessRef(this_boot(), pid, start)


def alive(ref: ProcessRef) -> bool:
    start = start_of(ref.pid)
    return ref.boot == this_boot() and start is not None and ref.start in (start, UNKNOWN)


def open_pidfd(ref: ProcessRef) -> int | None:
    """A descriptor that turns readable when this very process ends. None: gone already, or no pidfd here."""
    if not hasattr(os, "pidfd_open") or ref.boot != this_boot():
        return None
    try:
        descriptor = os.pidfd_open(ref.pid)
    except OSError:
        return None
    if not alive(ref):
        os.close(descriptor)
        return None
    return descriptor


def send(ref: ProcessRef, number: signal.Signals) -> bool:
    """Signal this very process; False when it is gone."""
    descriptor = open_pidfd(ref)
    if descriptor is None:
        if hasattr(os, "pidfd_open") or not alive(ref):
            return False
        os.kill(ref.pid, number)
        return True
    try:
        signal.pidfd_send_signal(descriptor, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


def tree(ref: ProcessRef, marker: Mapping[str, str] | None = None) -> list[psutil.Process]:
    """Everything that belongs to `ref`, without itself: its session, its descendants, and whoever carries `marker`.

    The session finds what outlived its parent, the descendants what called setsid, the marker in the environment what
    did both. Zombies are left out.
    """
    found: dict[int, psutil.Process] = {}
    living = alive(ref)
    wanted = {f"{name}={value}".encode() for name, value in (marker or {}).items()}
    for process in psutil.process_iter():
        if process.pid == ref.pid and living:
            continue
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if (_session_of(process.pid) == ref.pid and ref.boot == this_boot()) or _carries(process.pid, wanted):
                found[process.pid] = process
        except (psutil.Error, OSError):
            continue
    if living:
        with contextlib.suppress(psutil.Error):
            found.update((child.pid, child) for child in psutil.Process(ref.pid).children(recursive=True))
    return [process for process in found.values() if _running(process)]


def _carries(pid: int, wanted: set[bytes]) -> bool:
    return bool(wanted) and wanted <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def kill_tree(ref: ProcessRef, marker: Mapping[str, str] | None = None, *, patience: float = 5.0) -> bool:
    """SIGKILL to `tree(ref)` until nothing of it is left. Blocks; True when all is gone within `patience` seconds."""
    deadline = time.monotonic() + patience
    while members := tree(ref, marker):
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.kill()  # psutil compares the start time first
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
