"""What the subjects of control share: pages, effects, dry runs, names that are not there."""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from tidegate.domain.errors import Conflict, NotFound, Stale
from tidegate.ports.control import ControlStore, ControlTx

T = TypeVar("T")
LIMIT, MOST = 100, 1000


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, newest first. `next` goes on from here (None: the end); opaque."""

    items: tuple[T, ...]
    next: str | None


class Effect(StrEnum):
    """What a request changed."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


class OnUpdate(StrEnum):
    """What an update does to waiting runs and progress."""

    RESET = "reset"
    """Waiting runs end superseded."""
    KEEP = "keep"
    """They stay and take the new revision."""


class _Undone(Exception):
    """Leaves a transaction without committing it."""


@asynccontextmanager
async def changing(store: ControlStore, *, dry_run: bool = False) -> AsyncIterator[ControlTx]:
    """A transaction; a dry run does all of it, conflicts included, and rolls it back."""
    try:
        async with store.changing() as tx:
            yield tx
            if dry_run:
                raise _Undone
    except _Undone:
        return


def sliced(records: Sequence[T], key: Callable[[T], str], cursor: str | None, limit: int) -> Page[T]:
    """A page of a short list that is read whole, in its own order; the cursor is the key of the last one seen. Where
    that one is gone meanwhile, a list in the order of its keys goes on behind where it stood, any other begins anew."""
    keys = [key(one) for one in records]
    if cursor is None:
        begin = 0
    elif cursor in keys:
        begin = keys.index(cursor) + 1
    else:
        begin = bisect_right(keys, cursor) if keys == sorted(keys) else 0
    chosen = tuple(records[begin : begin + bounded(limit)])
    more = begin + len(chosen) < len(records)
    return Page(chosen, key(chosen[-1]) if chosen and more else None)


def bounded(limit: int) -> int:
    """A page's size, from 1 to 1000."""
    return max(1, min(limit, MOST))


def not_found(kind: str, name: str, known: Iterable[str] = (), *, namespace: str = "") -> NotFound:
    """`schedule 'sales/ordres' does not exist; did you mean 'orders'?`"""
    whole = f"{namespace}/{name}" if namespace else name
    return NotFound(f"{kind} {whole!r} does not exist{nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing."""
    near = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def taken(kind: str, name: str) -> Conflict:
    """For who wanted a new one. Raised by the transaction that writes, it keeps of two who create at once only one."""
    return Conflict(f"{kind} {name!r} exists already", remedy="Update it, or choose another name.")


def check_revision(kind: str, name: str, expected: int | None, actual: int | None) -> None:
    """Raises Stale when somebody expected another revision than the newest (0: that there is none)."""
    if expected is None:
        return
    if expected == 0 and actual is not None:
        raise taken(kind, name)
    if expected != 0 and expected != actual:
        now = f"revision {actual} is the newest" if actual is not None else "it does not exist"
        raise Stale(f"{kind} {name!r}: the change was made for revision {expected}, but {now}", remedy="Read it again.")
