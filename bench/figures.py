"""What a benchmark answers: a figure beside its goal, in one form for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """One measured figure. `goal` is a bound on `value`: at least it when `more_is_better`, else at most it."""

    name: str
    value: float
    unit: str
    goal: float | None
    more_is_better: bool
    how: str
    """What was measured, on what, how often."""

    @property
    def reached(self) -> bool | None:
        """None where there is no goal: a figure that only explains another."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal


def at_least(name: str, value: float, unit: str, goal: float | None, how: str) -> Figure:
    return Figure(name, value, unit, goal, True, how)


def at_most(name: str, value: float, unit: str, goal: float | None, how: str) -> Figure:
    return Figure(name, value, unit, goal, False, how)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; `share` between 0 and 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)
