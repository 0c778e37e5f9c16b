"""What a mistake of the source is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """`old` occurs exactly once in `path` and becomes `new`; `check` is a test, as pytest names it."""

    name: str
    what: str
    path: str
    old: str
    new: str
    check: str
