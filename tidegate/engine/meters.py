"""Counts what the parts do. A plain object in the process; the doors show it as metrics."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Meter:
    """One part's counters since the process started. `seconds` is the time its steps took, waiting for the database
    included."""

    steps: int = 0
    did: int = 0
    failures: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def step(self, did: int, seconds: float) -> None:
        self.steps += 1
        self.did += did
        self._took(seconds)

    def fail(self, seconds: float) -> None:
        self.steps += 1
        self.failures += 1
        self._took(seconds)

    def _took(self, seconds: float) -> None:
        self.seconds += seconds
        self.longest = max(self.longest, seconds)


@dataclass(slots=True)
class Meters:
    """A process's counters, by the name of the part."""

    parts: dict[str, Meter] = field(default_factory=dict)

    def of(self, part: str) -> Meter:
        return self.parts.setdefault(part, Meter())
