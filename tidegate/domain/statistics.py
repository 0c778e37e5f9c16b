"""A schedule's statistics: attempts in which the program ran, and runs that began and ended."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.instants import Duration, Instant


@dataclass(slots=True)
class Tally:
    """What one transaction adds to one schedule. A streak that a success broke begins anew."""

    last_start: Instant | None = None
    last_finish: Instant | None = None
    last_success: Instant | None = None
    last_run_success: bool | None = None
    runs: int = 0
    successes: int = 0
    failures: int = 0
    crashes: int = 0
    timeouts: int = 0
    duration: Duration = 0
    failing: int = 0
    crashing: int = 0
    broken: bool = False

    def attempt(self, outcome: str, began: Instant, finished: Instant) -> None:
        """Count an attempt in which the program ran. Lost workers and cancellations say nothing about it."""
        self.last_start = max(self.last_start or began, began)
        self.last_finish = max(self.last_finish or finished, finished)
        self.duration += finished - began
        if outcome != "lost":
            self.last_run_success = outcome == "succeeded"
        match outcome:
            case "succeeded":
                self.successes += 1
                self.last_success = max(self.last_success or finished, finished)
                self.failing = self.crashing = 0
                self.broken = True
            case "crashed":
                self.crashes += 1
                self.crashing += 1
                self.failing += 1
            case "timed_out":
                self.timeouts += 1
                self.failing += 1
            case "failed":
                self.failures += 1
                self.failing += 1
            case _:
                pass
