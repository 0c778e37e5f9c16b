"""The journal of a pooled process: what it began and how it ended, so that a worker finds it though nobody listened.

One line a fact, appended by one write(2): `b ID` began, `f JSON` finished ([id, outcome, error, at]), `k ID` is about
to be killed on request, `g ID ...` on record elsewhere. What was only queued is not in it: it never began, and may
begin again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

NAME = "journal"
COMPACT_AT = 4 << 20
"""Bytes after which a journal is written anew with only what is still wanted."""


@dataclass(slots=True)
class Found:
    """What a journal says. `finished`: id -> [outcome, error, at]; `running`: begun and not ended."""

    finished: dict[str, list[Any]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    killed: set[str] = field(default_factory=set)


def read(directory: str) -> Found:
    """The journal of a pool directory; a last line that is not whole does not count."""
    found = Found()
    try:
        with open(f"{directory}/{NAME}", encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]
    except FileNotFoundError:
        return found
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "b":
            found.running.add(rest)
        elif kind == "f":
            identity, *how = json.loads(rest)
            found.running.discard(identity)
            found.finished[identity] = how
        elif kind == "k":
            found.killed.add(rest)
        elif kind == "g":
            for identity in rest.split():
                found.finished.pop(identity, None)
                found.running.discard(identity)
    return found


class Journal:
    """The host's side. Not safe for threads: its caller holds a lock."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/{NAME}"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = 0

    def append(self, lines: str) -> None:
        data = lines.encode()
        written = os.write(self._file, data)
        self._size += written
        if written < len(data):
            os.write(self._file, data[written:])  # says what stopped it: a full disk

    def compact(self, finished: Iterable[tuple[str, list[Any]]]) -> None:
        """Forget what was forgotten, once it is worth the while. Nothing may be running."""
        if self._size < COMPACT_AT:
            return
        draft = self._path + ".new"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        lines = "".join(finished_line(identity, how) for identity, how in finished)
        os.write(file, lines.encode())
        os.rename(draft, self._path)
        os.close(self._file)
        self._file, self._size = file, 0


def finished_line(identity: str, how: list[Any]) -> str:
    return f"f {json.dumps([identity, *how])}\n"


def mark_killed(directory: str, identity: str) -> None:
    """Note, from outside and while the host is frozen, that it is about to be killed because of this attempt."""
    with open(f"{directory}/{NAME}", "a", encoding="utf-8") as file:
        file.write(f"k {identity}\n")
