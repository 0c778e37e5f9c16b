"""Virtual time: it stands still until the simulation moves it."""

from __future__ import annotations

from tidegate.domain.instants import Instant


class VirtualClock:
    """What everything simulated reads as the database's time."""

    __slots__ = ("instant",)

    def __init__(self, instant: Instant) -> None:
        self.instant = instant

    def __call__(self) -> Instant:
        return self.instant
