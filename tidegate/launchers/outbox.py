"""What programs published, on its way to the database: one file an event, in HOME/outbox.

A program writes its event as a file that appears whole (rename), so publishing needs no network, no key and no
database, and outlives program and worker. The courier of the next worker publishes it under the id in the file, which
makes a repeat harmless, and then removes the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.launchers.places import make_private


class FileOutbox:
    """HOME/outbox. What cannot be published goes to HOME/outbox/refused, for a person to look at."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "outbox"

    def open(self) -> None:
        """Make it, for its owner's eyes only."""
        make_private(str(self.directory))

    async def waiting(self, limit: int) -> Sequence[tuple[str, Any]]:
        """Names and documents of at most so many, oldest first. One that is no JSON has the document None; one that
        cannot be read now has the OSError instead, and does not count: it holds up no other."""
        return await asyncio.to_thread(self._waiting, limit)

    def _waiting(self, limit: int) -> list[tuple[str, Any]]:
        try:
            names = sorted(name for name in os.listdir(self.directory) if name.endswith(".json"))
        except FileNotFoundError:
            return []
        found: list[tuple[str, Any]] = []
        for name in names:
            if not limit:
                break
            try:
                document = _read(self.directory / name)
            except FileNotFoundError:  # another worker of this home was faster
                continue
            except OSError as fault:
                found.append((name, fault))
                continue
            found.append((name, document))
            limit -= 1
        return found

    async def done(self, names: Sequence[str]) -> None:
        """They are published."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.directory / name).unlink()

    async def refuse(self, name: str) -> None:
        """It cannot be published: keep it, out of the way."""
        make_private(str(self.directory / "refused"))
        with contextlib.suppress(FileNotFoundError):
            (self.directory / name).rename(self.directory / "refused" / name)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
