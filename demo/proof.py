"""What the demo claims, proven from outside: from the database's rows and from the Iceberg table's own files.

Nothing here uses Tidegate's own audit or its recomputation: the fires that were due are counted from the clock on the
wall, the rows from the airline's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

SECOND = 1_000_000
PERIODS = {"ingest": 5, "weather": 20, "landing": 2, "disk": 3}
"""Seconds between the fires of each schedule that follows the clock; all four grids contain the epoch."""


@dataclass(frozen=True)
class Claim:
    """One promise, whether it was kept, and what was seen."""

    promise: str
    kept: bool
    seen: str


def due_fires(period: int, enabled_at: int, disabled_at: int) -> list[int]:
    """Every instant of a grid after enabling and up to disabling, in microseconds."""
    step = period * SECOND
    return list(range((enabled_at // step + 1) * step, disabled_at + 1, step))


def ledger(connection: psycopg.Connection[Any], claims: Callable[[Claim], None]) -> Mapping[str, Counter[str]]:
    """Each due fire has exactly one outcome; returns the outcomes per schedule."""
    outcomes: dict[str, Counter[str]] = {}
    for name, period in PERIODS.items():
        life = connection.execute(
            "SELECT s.id, min(r.valid_from) FILTER (WHERE r.mode = 'enabled'), max(r.valid_from)"
            " FILTER (WHERE r.mode <> 'enabled') FROM schedule s JOIN revision r ON r.schedule_id = s.id"
            " WHERE s.namespace = 'demo' AND s.name = %s GROUP BY s.id",
            [name],
        ).fetchone()
        assert life is not None, f"schedule {name} is not in the database"
        schedule, enabled_at, disabled_at = life
        due = due_fires(period, enabled_at, disabled_at)
        rows = connection.execute(
            "SELECT fire_time, coalesce(outcome, 'open') FROM run WHERE schedule_id = %s AND cause = 'fire'", [schedule]
        ).fetchall()
        stretches = connection.execute(
            "SELECT from_fire, to_fire, outcome FROM fire_range WHERE schedule_id = %s", [schedule]
        ).fetchall()
        found: Counter[int] = Counter(fire for fire, _ in rows)
        outcome: Counter[str] = Counter(ended for _, ended in rows)
        for first, last, ended in stretches:
            inside = [fire for fire in due if first <= fire <= last]
            found.update(inside)
            outcome[ended] += len(inside)
        lost = sum(found[fire] == 0 for fire in due)
        doubled = sum(count > 1 for count in found.values())
        invented = len(set(found) - set(due))
        claims(
            Claim(
                f"every due fire of {name!r} has exactly one outcome",
                not (lost or doubled or invented or outcome["open"]),
                f"{len(due)} due, {lost} lost, {doubled} doubled, {invented} invented, {outcome['open']} open",
            )
        )
        outcomes[name] = outcome
    return outcomes


def table(
    kind: str, rows: Any, fires: Mapping[str, int], expected: Mapping[str, int], claims: Callable[[Claim], None]
) -> Counter[str]:
    """Each landed day's rows are in the Iceberg table exactly once. `rows` is the whole table (pyarrow). Returns the
    rows per day that are in it."""
    landed: Counter[tuple[str, int]] = Counter()
    for day, fire in zip(rows["flight_date"].to_pylist(), rows["fire_time"].to_pylist(), strict=True):
        landed[day.isoformat(), int(fire.replace(tzinfo=UTC).timestamp()) * SECOND] += 1
    per_day: Counter[str] = Counter()
    for (day, _), count in landed.items():
        per_day[day] += count
    wrong = {day: count for day, count in per_day.items() if count != expected[day]}
    missing = {day for day in fires if expected[day]} - set(per_day)
    extra = set(per_day) - set(fires)
    claims(
        Claim(
            f"each landed day's {kind} are in the Iceberg table exactly once",
            bool(per_day) and not wrong and not missing and not extra,
            f"{len(per_day)} days, {sum(per_day.values()):,} rows"
            + (f"; wrong counts {wrong}" if wrong else "")
            + (f"; missing {sorted(missing)}" if missing else "")
            + (f"; not asked for {sorted(extra)}" if extra else ""),
        )
    )
    return per_day


def landed_days(
    connection: psycopg.Connection[Any], schedule: str, day_of: Callable[[datetime, int], Any]
) -> dict[str, int]:
    """The days of which a schedule's run succeeded, from the ledger: day -> fire time."""
    rows = connection.execute(
        "SELECT r.fire_time FROM run r JOIN schedule s ON s.id = r.schedule_id"
        " WHERE s.namespace = 'demo' AND s.name = %s AND r.outcome = 'succeeded'",
        [schedule],
    ).fetchall()
    return {day_of(datetime.fromtimestamp(fire / SECOND, UTC), PERIODS[schedule]).isoformat(): fire for (fire,) in rows}


def ends(connection: psycopg.Connection[Any], schedule: str) -> list[int]:
    """When each of a schedule's runs that succeeded ended, in microseconds."""
    rows = connection.execute(
        "SELECT r.finished_at FROM run r JOIN schedule s ON s.id = r.schedule_id"
        " WHERE s.namespace = 'demo' AND s.name = %s AND r.outcome = 'succeeded' ORDER BY 1",
        [schedule],
    ).fetchall()
    return [one for (one,) in rows]
