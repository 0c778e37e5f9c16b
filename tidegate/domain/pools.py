"""The pools that are always there, since programs that name none take them (`domain.programs.POOLS`).

An upgrade of the database makes them (`store.migrate`), so a version that adds one comes with a migration.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.instants import SECOND, Duration

BUILT_IN = frozenset({"default", "spark", "spark_submit", "http", "publish"})
ELSEWHERE = (10, SECOND, 20)
"""Where another system is asked to start work, it is asked so often at most."""


def built_in(cores: int) -> Mapping[str, tuple[int, tuple[int, Duration, int] | None]]:
    """Name -> slots, and the launch rate (max, per, burst) or None, on a machine with so many cores."""
    return {
        "default": (4 * cores, None),
        "spark": (2, None),
        "spark_submit": (4, ELSEWHERE),
        "http": (4 * cores, ELSEWHERE),
        "publish": (1000, None),  # nothing runs: a slot is given back in the transaction that takes it
    }
