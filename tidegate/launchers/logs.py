"""Logs of attempts, read by offset while they grow, by any process that can reach the home."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from tidegate.domain.ids import AttemptKey
from tidegate.domain.instants import Duration, Instant
from tidegate.launchers.attempts import Attempts
from tidegate.launchers.places import ENDED, LOG
from tidegate.launchers.processes import alive
from tidegate.ports.launching import LogChunk


class FileLogs:
    """Reads HOME/attempts/<identity>/log. Offsets are bytes; text is UTF-8, what is not becomes U+FFFD.

    A chunk never ends inside a character, so the pieces put together are the whole. `ended` answers for attempts of
    which the files say nothing (a silent function leaves none): pass a look-up of the run's state, if there is one.
    """

    def __init__(self, home: Path, ended: Callable[[AttemptKey], Awaitable[bool]] | None = None) -> None:
        self.attempts = Attempts(home)
        self._ended = ended

    async def read(self, attempt: AttemptKey, offset: int, limit: int = 65536) -> LogChunk:
        """At most about `limit` bytes from `offset`; an empty text while there is nothing more yet."""
        complete = self._known_to_have_ended(attempt.identity)
        if not complete and self._ended is not None:
            complete = await self._ended(attempt)
        # Read only after asking whether it has ended: what was written before the end is then seen.
        data, size = await asyncio.to_thread(_read, self.attempts.log(attempt.identity), offset, max(limit, 4))
        at_end = offset + len(data) >= size
        text, used = codecs.utf_8_decode(data, "replace", at_end and complete)
        return LogChunk(text=text, next_offset=offset + used, complete=complete and at_end)

    def _known_to_have_ended(self, identity: str) -> bool:
        claim = self.attempts.claim(identity)
        if claim is None:
            return (self.attempts.directory(identity) / ENDED).exists()
        return claim.owner is None or claim.end is not None or not alive(claim.owner)

    async def remove_older(self, now: Instant, age: Duration) -> int:
        """Remove the directories of attempts that have had no change for `age` (microseconds) and do not run any more.

        `now` is compared with the files' times. The claims go with them: `age` must be longer than a zombie can live
        (days). Returns how many went.
        """
        return await asyncio.to_thread(self._remove, now - age)

    def _remove(self, before: Instant) -> int:
        removed = 0
        for directory in self.attempts.root.glob("??/*"):
            if _changed(directory) >= before:
                continue
            claim = self.attempts.claim(directory.name)
            if claim is not None and claim.owner is not None and claim.end is None and alive(claim.owner):
                continue
            shutil.rmtree(directory, ignore_errors=True)
            removed += 1
        return removed


def _read(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    try:
        with open(path, "rb") as log:
            size = os.fstat(log.fileno()).st_size
            return os.pread(log.fileno(), limit, offset), size
    except FileNotFoundError:
        return b"", 0


def _changed(directory: Path) -> Instant:
    newest = 0
    for path in (directory, directory / LOG):
        with contextlib.suppress(OSError):
            newest = max(newest, path.stat().st_mtime_ns // 1000)
    return newest
