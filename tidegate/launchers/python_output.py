"""What a pooled function prints goes to its attempt's log, which is made with the first byte.

Two ways lead there. Python's own streams (print, sys.stderr, logging) write to the log at once. What is written to
the descriptors 1 and 2 below Python (a child process, a C library) lands in the host's spool, a plain file, and is
copied from there: before each write of the first way, a few times a second while the function runs, and at its end. A
pipe would be no good: a C library that fills it while it holds the interpreter's lock would wait for ever for its
reader. A silent function costs no file and no directory.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

CHUNK = 1 << 20
SPOOL_LIMIT = 1 << 20


class Output:
    """The one place that knows whose output it is. `begin` and `end` by the main thread, `drain` by any."""

    def __init__(self, spool: str, fallback: str) -> None:
        """`spool` takes descriptors 1 and 2 from now on; `fallback` what nobody owns."""
        self._lock = threading.RLock()
        self._spool = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._fallback = os.open(fallback, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._position = os.fstat(self._spool).st_size
        self._make: Callable[[], str] | None = None
        self._log = -1
        self.full: OSError | None = None
        """The fault that a full disk caused in this attempt."""
        os.dup2(self._spool, 1)
        os.dup2(self._spool, 2)
        sys.stdout = self._stream(1)
        sys.stderr = self._stream(2)

    def _stream(self, descriptor: int) -> io.TextIOWrapper:
        raw = _Raw(self, descriptor)
        return io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )

    def begin(self, make: Callable[[], str]) -> None:
        """From now on output is that of an attempt; `make` makes its directory and gives the log's path."""
        self.drain()
        self._make, self.full = make, None

    def end(self) -> bool:
        """The attempt is over. Whether it has a log."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        with self._lock:
            with contextlib.suppress(OSError):
                self.drain()
            logged, self._make = self._log >= 0, None
            if logged:
                os.close(self._log)
                self._log = -1
            if self._position > SPOOL_LIMIT:
                os.ftruncate(self._spool, 0)
                self._position = 0
        return logged

    def write(self, data: bytes | memoryview) -> None:
        with self._lock:
            self.drain()
            self._append(data)

    def drain(self) -> None:
        """Copy what lies in the spool."""
        if os.fstat(self._spool).st_size == self._position:
            return
        with self._lock:
            while data := os.pread(self._spool, CHUNK, self._position):
                self._append(data)
                self._position += len(data)

    def _append(self, data: bytes | memoryview) -> None:
        try:
            if self._log < 0 and self._make is not None:
                self._log = os.open(self._make(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            target = self._log if self._log >= 0 else self._fallback
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.full = error
            raise


class _Raw(io.RawIOBase):
    def __init__(self, output: Output, descriptor: int) -> None:
        self._output = output
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        self._output.write(data)
        return len(data)
