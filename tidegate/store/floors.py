"""A low-water mark under the head of a queue that is ordered by time.

Entries that were taken leave dead index entries behind, and as long as some transaction on the server holds an old
snapshot none of them can be removed: each look at the head then walks over all of them (25 ms after 150,000, against
0.1 ms). So each process remembers below which instant nothing was left, and looks only above it.

Why that is safe: the mark only rises to just below the earliest entry that a plain read sees, which includes entries
that others have claimed, and never closer than a margin to now, for what others are about to commit. Whatever still
ends up below it (an edit by another process) lowers it by notification, and a look without it, every few seconds,
finds what no notification told of.
"""

from __future__ import annotations

import time

from tidegate.domain.instants import SECOND, Duration, Instant

BOTTOM: Instant = -(1 << 62)
_MARGIN = SECOND
_SWEEP_EVERY = 5.0  # seconds between looks without the mark


class Floor:
    """One process's mark under one queue."""

    def __init__(self) -> None:
        self._value = BOTTOM
        self._now = BOTTOM
        self._swept = time.monotonic()

    def look(self, now: Instant | None = None) -> Instant:
        """The mark to look above, once every few seconds the bottom."""
        if now is not None:
            self._now = max(self._now, now)
        if time.monotonic() - self._swept > _SWEEP_EVERY:
            self._swept = time.monotonic()
            self._value = BOTTOM
        return self._value

    def seen(self, now: Instant) -> None:
        """The database's time is at least this."""
        self._now = max(self._now, now)

    def rise(self, earliest: Instant | None) -> None:
        """A plain read above the mark saw this earliest entry (None: nothing at all)."""
        limit = self._now - _MARGIN
        self._value = max(self._value, min(limit, earliest - 1) if earliest is not None else limit)

    def lower(self, to: Instant = BOTTOM) -> None:
        """Something may have appeared at `to`, or anywhere."""
        self._value = min(self._value, to - 1 if to > BOTTOM else BOTTOM)

    def lower_by(self, span: Duration) -> None:
        """Something may have appeared within this span before now."""
        self._value = min(self._value, self._now - span)
