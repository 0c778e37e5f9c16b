"""The home directory of one machine, and who may use it: one Tidegate at a time.

The right to a home is an flock on `HOME/lock`: the kernel gives it back when its holder dies, however it dies, so a
file left behind by a dead process locks nobody out. The pid inside is for the message only.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from tidegate.domain.errors import Refused

LAYOUT = 1
"""The number of the home's layout, in `HOME/version`. Raise it when an older Tidegate could not live in it any more."""


class HomeLock:
    """The exclusive right to one home, until `release` or the end of the process."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle: int | None = handle

    def release(self) -> None:
        """Give the home back. Safe to repeat."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.ftruncate(handle, 0)
            os.close(handle)

    def __enter__(self) -> HomeLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def prepare(home: Path) -> Path:
    """Make the home (mode 0700) where it is missing; its absolute path. Other files in it are left alone.

    Raises Refused when it cannot be made or used, or was written by a newer version.
    """
    home = home.expanduser().absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_version(home)
    except OSError as error:
        raise Refused(
            f"The home {home} cannot be used: {error.strerror}.",
            remedy="Name another with --home or TIDEGATE_HOME, or make room and mend its permissions.",
            code="home_unusable",
        ) from error
    return home


def acquire(home: Path) -> HomeLock:
    """Take the home for this process. Raises Refused, naming home and pid, when another process has it."""
    home = prepare(home)
    handle = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise Refused(
            f"The home {home} is in use by a running Tidegate (pid {pid}).",
            remedy="Stop that one first, or name another home with --home or TIDEGATE_HOME.",
            code="home_in_use",
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return HomeLock(home, handle)


def held(home: Path) -> bool:
    """Whether some process has the home at this moment. Makes and changes nothing."""
    try:
        handle = os.open(home.expanduser().absolute() / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _check_version(home: Path) -> None:
    file = home / "version"
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        file.write_text(f"{LAYOUT}\n")
        return
    if not text.isdecimal() or int(text) > LAYOUT:
        raise Refused(
            f"The home {home} was written by a newer Tidegate (layout {text[:20]}; this one knows {LAYOUT}).",
            remedy="Install that version again, or name another home with --home or TIDEGATE_HOME.",
            code="home_newer",
        )
