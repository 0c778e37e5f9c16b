"""What arrival started, counted again from outside: from the tables' own snapshots and rows, and from the database's
rows of runs and events. Nothing here uses Tidegate's triggers or its own explanation of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg

from demo.proof import SECOND, Claim

FLIGHTS, WEATHER = "lake.raw.flights", "lake.raw.weather"
CONSUMERS = {
    "delays": "3 days | 20 s",
    "report": "both | 30 s",
    "cleanup": "quiet 10 s",
}
"""What starts the schedules that no clock starts, for people."""
DAYS, SINCE_LAST_RUN, LONGEST, QUIET = 3, 20 * SECOND, 30 * SECOND, 10 * SECOND


@dataclass(frozen=True)
class Started:
    """A run that arrival started. `inputs`: dataset -> from_snapshot, to_snapshot, rows, events, partitions."""

    created_at: int
    started_at: int
    outcome: str
    inputs: Mapping[str, Mapping[str, Any]]


def started(connection: psycopg.Connection[Any], schedule: str) -> list[Started]:
    """The runs of a schedule that started, oldest first."""
    rows = connection.execute(
        "SELECT r.created_at, r.started_at, coalesce(r.outcome, 'open'), r.inputs"
        " FROM run r JOIN schedule s ON s.id = r.schedule_id"
        " WHERE s.namespace = 'demo' AND s.name = %s AND r.started_at IS NOT NULL ORDER BY r.started_at",
        [schedule],
    ).fetchall()
    return [Started(created, begun, outcome, inputs or {}) for created, begun, outcome, inputs in rows]


def outcomes(connection: psycopg.Connection[Any]) -> dict[str, Counter[str]]:
    """Per schedule, how its runs ended."""
    return {
        name: Counter(
            dict(
                connection.execute(
                    "SELECT coalesce(r.outcome, 'open'), count(*) FROM run r JOIN schedule s ON s.id = r.schedule_id"
                    " WHERE s.namespace = 'demo' AND s.name = %s GROUP BY 1",
                    [name],
                ).fetchall()
            )
        )
        for name in CONSUMERS
    }


def told(connection: psycopg.Connection[Any], dataset: str) -> dict[int, int]:
    """The snapshots of which events told, in order, and when each event arrived (microseconds)."""
    rows = connection.execute(
        "SELECT (payload->>'snapshot')::bigint, at FROM event WHERE type = 'dataset.updated' AND key = %s ORDER BY pos",
        [dataset],
    ).fetchall()
    return dict(rows) if len(dict(rows)) == len(rows) else {}


def commits(
    tables: Mapping[str, Any],
    past: Collection[int],
    connection: psycopg.Connection[Any],
    claims: Callable[[Claim], None],
) -> None:
    """Each commit that brought rows is one event; what only rewrites is none. `tables`: PyIceberg tables by name, whose
    older snapshots may have expired; `past`: snapshots from before anybody watched."""
    right, seen = True, []
    for name, table in tables.items():
        snapshots = table.metadata.snapshots
        brought = [one.snapshot_id for one in snapshots if int(one.summary.get("added-records") or 0)]
        brought = [number for number in brought if number not in _rewrites(snapshots) and number not in past]
        events = told(connection, name)
        right &= set(brought) <= events.keys() and not events.keys() & _rewrites(snapshots)
        seen.append(f"{name}: {len(brought)} commits with rows that have not expired, {len(events)} events")
    claims(Claim("each commit of new rows is one event, and one that only rewrites is none", right, "; ".join(seen)))


def _rewrites(snapshots: Sequence[Any]) -> set[int]:
    return {one.snapshot_id for one in snapshots if one.summary.operation.value == "replace"}


def ranges(
    runs: Sequence[Started],
    name: str,
    dataset: str,
    total: int,
    past: Collection[int],
    claims: Callable[[Claim], None],
) -> None:
    """The inputs of a consumer's runs join without gap or overlap, and hold all rows. `past`: snapshots from before
    anybody watched, at one of which the first may begin."""
    at, joined, rows = None, True, 0
    for run in runs:
        given = run.inputs[dataset]
        if given["to_snapshot"] is not None:
            first = at is None and given["from_snapshot"] is not None and int(given["from_snapshot"]) in past
            joined &= first or given["from_snapshot"] in (at, given["to_snapshot"])
            at, rows = given["to_snapshot"], rows + int(given["rows"])
    failed = [run.outcome for run in runs if run.outcome != "succeeded"]
    claims(
        Claim(
            f"the inputs of {name!r} from {dataset} join without gap or overlap, and hold every row",
            joined and rows == total and not failed,
            f"{len(runs)} runs read {rows:,} of {total:,} rows" + (f"; {failed}" if failed else ""),
        )
    )


def reasons(connection: psycopg.Connection[Any], claims: Callable[[Claim], None]) -> None:
    """Each run started for the reason that its trigger names, by the arrivals and starts on record."""
    events = {name: told(connection, name) for name in (FLIGHTS, WEATHER)}
    row = connection.execute(
        "SELECT min(r.valid_from) FROM schedule s JOIN revision r ON r.schedule_id = s.id"
        " WHERE s.namespace = 'demo' AND s.name = 'delays' AND r.mode = 'enabled'"
    ).fetchone()
    assert row is not None
    last, by_days, by_time, wrong = int(row[0]), 0, 0, 0
    for run in started(connection, "delays"):
        if len(run.inputs[FLIGHTS]["partitions"]) >= DAYS:
            by_days += 1
        elif run.created_at - last >= SINCE_LAST_RUN:
            by_time += 1
        else:
            wrong += 1
        last = run.started_at
    claims(
        Claim(
            "'delays' ran after 3 new days, or 20 s after its last start",
            not wrong and by_days + by_time > 0,
            f"{by_days} by days, {by_time} by time, {wrong} without a reason",
        )
    )
    both, waited, wrong = 0, 0, 0
    for run in started(connection, "report"):
        # By what had come when it was made: what came while it waited for its turn joined it.
        arrived = [_arrivals(events[name], run.inputs[name], run.created_at) for name in (FLIGHTS, WEATHER)]
        first = min((min(one) for one in arrived if one), default=run.created_at)
        if all(arrived):
            both += 1
        elif run.created_at - first >= LONGEST:
            waited += 1
        else:
            wrong += 1
    claims(
        Claim(
            "'report' ran with both, or 30 s after the first with what there was",
            not wrong and both + waited > 0,
            f"{both} with both, {waited} after 30 s, {wrong} without a reason",
        )
    )
    silences = []
    for run in started(connection, "cleanup"):
        # The longest since the run before it: another may come after the silence, before the run is made.
        come = [*_arrivals(events[FLIGHTS], run.inputs[FLIGHTS], run.created_at), run.created_at]
        silences.append(max((later - one for one, later in pairwise(come)), default=0))
    claims(
        Claim(
            "'cleanup' ran when no flights had come for 10 s",
            bool(silences) and min(silences) >= QUIET,
            f"{len(silences)} runs, after silences of " + ", ".join(f"{one / SECOND:.1f} s" for one in silences),
        )
    )


def _arrivals(events: Mapping[int, int], given: Mapping[str, Any], until: int) -> list[int]:
    """When those events of an input arrived that came by an instant. The first input may begin where nobody watched,
    so that no event told of its beginning."""
    order = list(events)
    if given["to_snapshot"] is None or given["to_snapshot"] == given["from_snapshot"]:
        return []
    before = None if given["from_snapshot"] is None else int(given["from_snapshot"])
    begin = order.index(before) + 1 if before is not None and before in events else 0
    found = order[begin : order.index(int(given["to_snapshot"])) + 1]
    return [events[one] for one in found if events[one] <= until]


def results(
    delays: Any, report: Any, per_day: Mapping[str, int], weather: int, claims: Callable[[Claim], None]
) -> None:
    """What the consumers wrote, against the rows that landed. `delays` and `report` are whole tables (pyarrow)."""
    mart: Counter[str] = Counter()
    for day, count in zip(delays["flight_date"].to_pylist(), delays["flights"].to_pylist(), strict=True):
        mart[day.isoformat()] += count
    claims(
        Claim(
            "each landed flight is counted in the mart exactly once",
            bool(mart) and mart == Counter(per_day),
            f"{len(mart)} days, {mart.total():,} flights",
        )
    )
    flights = sum(per_day.values())
    counted = (sum(report["new_flights"].to_pylist()), sum(report["new_weather"].to_pylist()))
    claims(
        Claim(
            "the reports tell of each landed row exactly once",
            counted == (flights, weather),
            f"{report.num_rows} reports tell of {counted[0]:,} flights and {counted[1]:,} hours of weather",
        )
    )
