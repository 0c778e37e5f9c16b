"""What an operation would do to a table, what that is worth, and what it would cost.

The gain is counted in files that readers need not open any more: a data or delete file counts 1, a manifest 0.5 (it is
read once when a query is planned), a snapshot 0.1 (it burdens metadata and storage, not queries). What a concurrent
row-level delete would throw away counts as lost: the whole rewrite, or one step of it where it goes in small steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from tidegate.domain.instants import DAY, SECOND, Instant
from tidegate.domain.maintenance import planning
from tidegate.domain.maintenance.columns import speaks_of_columns, without_columns
from tidegate.domain.maintenance.health import MIB, TableHealth
from tidegate.domain.maintenance.operations import REWRITES_ROWS, Operation
from tidegate.domain.maintenance.options import Options
from tidegate.domain.maintenance.policy import Policy
from tidegate.domain.maintenance.state import UNKNOWN, History, Prediction

MANIFEST_TARGET = 8 * MIB
EXPIRE_OLDER = 5 * DAY
"""What Iceberg keeps where neither the policy nor the table says more."""
FIRST_RATE = 8.0 * MIB
"""Bytes a second that a rewrite is thought to do before one was seen."""
FIRST_SECONDS = 5.0
"""What any operation takes beside its bytes, before one was seen."""

HOT = 24
"""Commits that take rows away, in the last day: from so many on a rewrite goes in small steps."""
_STEP_SHARE = 0.02
"""One step takes at most this share of the span between two such commits, as far as rates are known."""
_LEAST_STEP = 8 * MIB

_WORTH: Mapping[Operation, float] = {
    Operation.REWRITE_DATA_FILES: 1.0,
    Operation.REWRITE_POSITION_DELETE_FILES: 1.0,
    Operation.REWRITE_MANIFESTS: 0.5,
    Operation.EXPIRE_SNAPSHOTS: 0.1,
    Operation.REMOVE_ORPHAN_FILES: 0.1,
    Operation.COMPUTE_PARTITION_STATS: 0.0,
    Operation.COMPUTE_TABLE_STATS: 0.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """`gain`: expected, in files that need not be opened; None: unknown. `seconds`: expected to take. `conflict`: how
    likely a writer defeats it (0 to 1). `per_second`: expected gain for each second, wasted ones included."""

    gain: float | None
    seconds: float
    conflict: float
    per_second: float | None


def predictions(policy: Policy, health: TableHealth | None, now: Instant) -> dict[Operation, Prediction]:
    """What each operation of a policy would do to a table."""
    return {operation: predict(operation, health, rule.options, now) for operation, rule in policy.operations.items()}


def predict(operation: Operation, health: TableHealth | None, options: Options, now: Instant) -> Prediction:
    """What an operation with these options would do to a table of that health."""
    if health is None or health.fault is not None:
        return UNKNOWN
    if wrong := without_columns(operation, options, health.columns):
        return Prediction(bytes=0, impossible=True, why=f"It would fail: {wrong}.")
    prediction = _predicted(operation, health, options, now)
    if health.columns is None and not prediction.noop and speaks_of_columns(operation, options):
        why = f"{prediction.why} Whether the table has the columns that its options name is seen when it runs."
        return replace(prediction, why=why)
    return prediction


def _predicted(operation: Operation, health: TableHealth, options: Options, now: Instant) -> Prediction:
    match operation:
        case Operation.REWRITE_DATA_FILES:
            return _data_files(health, options)
        case Operation.REWRITE_POSITION_DELETE_FILES:
            return _position_deletes(health, options)
        case Operation.REWRITE_MANIFESTS:
            return _manifests(health)
        case Operation.EXPIRE_SNAPSHOTS:
            return _snapshots(health, options, now)
        case Operation.REMOVE_ORPHAN_FILES:
            return Prediction(bytes=0, why="Only a listing of the table's location tells what is orphaned.")
        case Operation.COMPUTE_PARTITION_STATS:
            return _statistics(health, options, health.partition_stats_snapshot)
        case Operation.COMPUTE_TABLE_STATS:
            return _statistics(health, options, health.stats_snapshot)
        case _:
            assert_never(operation)


def value(operation: Operation, prediction: Prediction, history: History, health: TableHealth | None) -> Value:
    """What a run is worth, by what it would do and by what earlier ones on this table took."""
    seconds = history.seconds if history.seconds is not None else FIRST_SECONDS
    if prediction.bytes:
        rate = history.bytes_per_second or FIRST_RATE
        seconds = FIRST_SECONDS + prediction.bytes / rate
    commits = (health.row_delete_commits or 0) if health is not None else 0
    at_stake = seconds
    if commits >= HOT and prediction.bytes:  # a conflict then costs a step, and not the whole
        at_stake = min(prediction.bytes, step_bytes(commits)) / (history.bytes_per_second or FIRST_RATE)
    conflict = 1 - math.exp(-commits / (DAY / SECOND) * at_stake) if operation in REWRITES_ROWS else 0.0
    if prediction.removes is None:
        return Value(gain=None, seconds=seconds, conflict=conflict, per_second=None)
    fewer = max(0, prediction.removes) + prediction.others + prediction.deletes
    gain = fewer * _WORTH[operation] * (1 - conflict)
    return Value(gain=gain, seconds=seconds, conflict=conflict, per_second=gain / (seconds * (1 + conflict)))


def step_bytes(commits_a_day: int) -> int:
    """How large a step may be so that it seldom meets one of so many commits."""
    span = DAY / SECOND / max(1, commits_a_day)
    return max(_LEAST_STEP, int(span * _STEP_SHARE * FIRST_RATE))


def cost(operation: Operation, prediction: Prediction, health: TableHealth | None) -> int | None:
    """The bytes that a run may rewrite: what is predicted, else all there is of its kind; None: nobody knows."""
    if prediction.bytes is not None:
        return prediction.bytes
    match operation:
        case Operation.REWRITE_DATA_FILES:
            return health.data_bytes if health is not None else None
        case Operation.REWRITE_POSITION_DELETE_FILES:
            return health.delete_bytes if health is not None else None
        case Operation.REWRITE_MANIFESTS:
            return health.manifest_bytes if health is not None else None
        case _:
            return 0


def _data_files(health: TableHealth, options: Options) -> Prediction:
    if health.data_files == 0:
        return Prediction(removes=0, files=0, bytes=0, why="The table has no data files.")
    if health.files is None:
        return Prediction(why="The sizes of its files are not known.")
    if "branch" in options and options["branch"] != "main":
        return Prediction(why="Only the main branch is assessed.")
    planner = planning.planner_of(options, health.target_file_bytes)
    planned = planning.groups(health.files, planner, health.spec)
    files, size = sum(group.files for group in planned), sum(group.bytes for group in planned)
    others = sum(group.others for group in planned)
    if not planned:
        return Prediction(
            removes=0, files=0, bytes=0, why="No partition has enough small, large or deleted-from files."
        )
    if "where" in options:
        why = f"At most {files} files: those of them that the predicate selects."
        return Prediction(files=files, bytes=size, why=why)
    known = [group.written for group in planned if group.written is not None]
    if len(known) < len(planned):
        why = f"{files} files, of which some are divided by the newest partition spec, into how many is not known."
        return Prediction(others=others, files=files, bytes=size, why=why)
    written = sum(known)
    also = f", {others} of them not for their number" if others else ""
    why = f"{files} files in {len(planned)} {'group' if len(planned) == 1 else 'groups'} become {written}{also}."
    deletes = sum(group.deletes for group in planned)
    return Prediction(removes=files - written, others=others, deletes=deletes, files=files, bytes=size, why=why)


def _position_deletes(health: TableHealth, options: Options) -> Prediction:
    count = health.position_delete_files
    if count is None:
        return Prediction(why="Its delete files are not known.")
    if count == 0 or (count == 1 and options.get("rewrite-all") is not True):
        why = f"It has {count or 'no'} position delete file{'' if count == 1 else 's'}."
        return Prediction(removes=0, files=0, bytes=0, why=why)
    return Prediction(
        files=count, bytes=health.delete_bytes, why=f"At most {count} position delete files become fewer."
    )


def _manifests(health: TableHealth) -> Prediction:
    if health.manifests is None or health.manifest_bytes is None:
        return Prediction(why="Its manifests are not known.")
    if health.manifests == 0:
        return Prediction(removes=0, files=0, bytes=0, why="It has no manifests.")
    kinds = 2 if health.delete_files else 1
    ideal = max(kinds, -(-health.manifest_bytes // MANIFEST_TARGET))
    removes = max(0, health.manifests - ideal)
    why = f"{health.manifests} manifests become about {min(ideal, health.manifests)}."
    return Prediction(removes=removes, files=health.manifests, bytes=health.manifest_bytes, why=why)


def _snapshots(health: TableHealth, options: Options, now: Instant) -> Prediction:
    if options.get("snapshot_ids") or options.get("clean_expired_metadata") is True:
        return Prediction(bytes=0, why="What the named snapshots or unused metadata hold is not known beforehand.")
    older, keep = options.get("older_than"), options.get("retain_last")
    age = older if isinstance(older, int) else health.max_snapshot_age or EXPIRE_OLDER
    kept = keep if isinstance(keep, int) else health.min_snapshots or 1
    times = health.snapshot_times
    if times is None:
        if health.snapshots is not None and health.snapshots <= kept:
            return Prediction(removes=0, bytes=0, why=f"It has {health.snapshots} snapshots; {kept} are kept.")
        return Prediction(bytes=0, why="When its snapshots were committed is not known.")
    count = sum(at < now - age for at in times[: max(0, len(times) - kept)])
    return Prediction(removes=count, bytes=0, why=f"{count} of {len(times)} snapshots are old enough to expire.")


def _statistics(health: TableHealth, options: Options, of: int | None) -> Prediction:
    if health.snapshot is None:
        return Prediction(removes=0, bytes=0, why="The table has no snapshot.")
    wanted = options.get("snapshot_id", health.snapshot)
    if of == wanted and "columns" not in options:
        return Prediction(removes=0, bytes=0, why="There are statistics of that snapshot already.")
    return Prediction(bytes=0, why="There are no statistics of that snapshot.")
