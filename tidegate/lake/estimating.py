"""What a maintenance operation would do to a table, by its metadata as it is now, without a Spark job.

The same plan is what a run works by: it says which snapshots may go, and whether there is anything to do at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.domain.errors import Fault, Invalid, Refused
from tidegate.domain.instants import Instant, format_duration
from tidegate.domain.maintenance.accepted import OPTIONS, Kind
from tidegate.domain.maintenance.columns import without_columns
from tidegate.domain.maintenance.health import TableHealth
from tidegate.domain.maintenance.operations import REWRITES_ROWS, Operation
from tidegate.domain.maintenance.options import Options, Value, check
from tidegate.domain.maintenance.state import Prediction
from tidegate.domain.maintenance.value import HOT, predict, step_bytes
from tidegate.lake.assessing import TableFiles, health_of
from tidegate.lake.expiry import choose
from tidegate.lake.procedures import call


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`statement`: what Spark will be asked; empty where there is nothing to do. `options`: with what it takes to be
    safe. `kept`: snapshots that are old enough to expire, and that somebody still reads from."""

    table: str
    operation: Operation
    options: Options
    prediction: Prediction
    health: TableHealth
    statement: str
    kept: tuple[int, ...] = ()
    small_steps: bool = False


def asked(arguments: Mapping[str, Any]) -> tuple[str, Operation, dict[str, Value]]:
    """Table, operation and typed options of a run's arguments. Raises Invalid, naming every fault."""
    faults: list[Fault] = []
    table = arguments.get("table")
    if not isinstance(table, str) or table.count(".") < 2 or not all(table.split(".")):
        faults.append(Fault("arguments.table", f"must be the path of a table, like lake.raw.flights, not {table!r}"))
    try:
        operation = Operation(str(arguments.get("operation")))
    except ValueError:
        known = ", ".join(Operation)
        faults.append(Fault("arguments.operation", f"must be one of {known}, not {arguments.get('operation')!r}"))
        raise Invalid(faults, what="the maintenance") from None
    raw = arguments.get("options") or {}
    if not isinstance(raw, Mapping):
        faults.append(Fault("arguments.options", f"must be a mapping, not {raw!r}"))
        raw = {}
    options, wrong = check(operation, _as_written(operation, raw))
    faults += [Fault(f"arguments.options.{fault.path}".rstrip("."), fault.reason) for fault in wrong]
    if faults:
        raise Invalid(faults, what="the maintenance")
    return str(table), operation, options


def _as_written(operation: Operation, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a policy says them; who hands over typed ones has ages in microseconds."""
    known = OPTIONS[operation]
    typed = {name for name, one in known.items() if one.kind is Kind.AGE and isinstance(raw.get(name), int)}
    return {name: format_duration(value) if name in typed else value for name, value in raw.items()}


def plan(
    table: str, operation: Operation, options: Options, files: TableFiles, *, keep: Collection[int], now: Instant
) -> Plan:
    """The plan for a table that is open. Raises Refused where it must not or cannot be done."""
    if wrong := without_columns(operation, options, files.columns() or None, table):
        raise Refused(wrong, remedy="Correct the policy's options.", code="maintenance.no_column")
    health = health_of(files, now)
    prediction = predict(operation, health, options, now)
    kept: tuple[int, ...] = ()
    chosen: Options = options
    match operation:
        case Operation.EXPIRE_SNAPSHOTS:
            _refuse_shared(table, files)
            chosen, kept = _expiry(files, options, keep, now)
            prediction = _expected(chosen, kept)
        case Operation.COMPUTE_PARTITION_STATS if not _fields_of(files):
            prediction = Prediction(removes=0, files=0, bytes=0, why="The table has no partitions.")
        case _:
            pass
    small = operation in REWRITES_ROWS and (health.row_delete_commits or 0) >= HOT
    if small:
        chosen = in_steps(chosen, step_bytes(health.row_delete_commits or 0))
    return Plan(
        table=table,
        operation=operation,
        options=chosen,
        prediction=prediction,
        health=health,
        statement=call(table, operation, chosen, now),
        kept=kept,
        small_steps=small,
    )


def in_steps(options: Options, group: int) -> dict[str, Value]:
    """A rewrite that commits as it goes, in groups of at most `group` bytes, one after the other: what collides with a
    writer is then one of them. What a person chose stays."""
    ours: dict[str, Value] = {
        "partial-progress.enabled": True,
        "partial-progress.max-commits": 100,
        "max-file-group-size-bytes": group,
        "max-concurrent-file-group-rewrites": 1,
    }
    return ours | dict(options)


def _expiry(
    files: TableFiles, options: Options, keep: Collection[int], now: Instant
) -> tuple[dict[str, Value], tuple[int, ...]]:
    """The options by which exactly the chosen snapshots expire: by number, and none for its age."""
    found = choose(files, options, keep, now)
    rest = {name: value for name, value in options.items() if name not in ("older_than", "snapshot_ids", "retain_last")}
    numbers: dict[str, Value] = {"snapshot_ids": found.expire} if found.expire else {}
    return rest | numbers | {"older_than": now}, found.kept


def _expected(options: Options, kept: tuple[int, ...]) -> Prediction:
    numbers = options.get("snapshot_ids")
    gone = len(numbers) if isinstance(numbers, tuple) else 0
    why = f"{_counted(gone)} can expire." if gone else "No snapshot can expire."
    if kept:
        why += f" {_counted(len(kept))} more would, but somebody still reads from there."
    if not gone and options.get("clean_expired_metadata") is True:
        return Prediction(bytes=0, why=f"{why} Whether specs or schemas are unused is not known beforehand.")
    return Prediction(removes=gone, files=0, bytes=0, why=why)


def _counted(number: int) -> str:
    return f"{number} snapshot{'' if number == 1 else 's'}"


def _refuse_shared(table: str, files: TableFiles) -> None:
    if files.properties.get("gc.enabled", "true").lower() == "false":
        raise Refused(
            f"{table} has gc.enabled=false: its files may belong to another table too, so nothing of it expires.",
            remedy="Set it to true only where no other table uses the files.",
            code="maintenance.expiry",
        )


def _fields_of(files: TableFiles) -> Any:
    default = files.metadata.get("default-spec-id", 0)
    specs = files.metadata.get("partition-specs") or ()
    return next((one["fields"] for one in specs if one["spec-id"] == default), files.metadata.get("partition-spec"))


def with_options(plan: Plan, options: Options, now: Instant) -> Plan:
    """The plan with other options, as a later try takes them."""
    return replace(plan, options=options, statement=call(plan.table, plan.operation, options, now))
