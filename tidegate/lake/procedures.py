"""Iceberg's maintenance procedures, as the Spark SQL that calls them.

Everything that a person gave becomes a literal: table names are quoted level by level, texts are escaped, and a value
goes where `domain.maintenance.options` says that the procedure takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.domain.instants import Instant, format_instant
from tidegate.domain.maintenance.accepted import OPTIONS, Kind, Option, Place
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import Options, Value


def call(table: str, operation: Operation, options: Options, now: Instant) -> str:
    """The statement. `options` are typed, as `options.check` gives them; ages are counted back from `now`."""
    known = OPTIONS[operation]
    arguments = {"table": text(quoted(table))}
    settings: dict[str, str] = {}
    for name, value in options.items():
        match known[name].place:
            case Place.ARGUMENT:
                arguments[name] = _argument(known[name], value, now)
            case Place.OPTION:
                settings[name] = _setting(value)
            case Place.OURS:
                continue
    if settings:
        arguments["options"] = _map(settings)
    given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    return f"CALL {_name(table.split('.')[0])}.system.{operation.value}({given})"


def quoted(table: str) -> str:
    """A table's path as an identifier: each level between backticks."""
    return ".".join(_name(level) for level in table.split("."))


def text(value: str) -> str:
    """A text as a SQL literal."""
    plain = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{plain}'"


def timestamp(at: Instant) -> str:
    """An instant as a SQL literal, whatever the session's zone."""
    return f"TIMESTAMP {text(format_instant(at).replace('T', ' '))}"


def _name(level: str) -> str:
    return "`" + level.replace("`", "``") + "`"


def _argument(option: Option, value: Value, now: Instant) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() if option.kind is Kind.AGE:
            return timestamp(now - value)
        case int():
            # `spec_id` is an int for the procedure, snapshots are bigint.
            return f"{value}L" if option.name.startswith("snapshot") else str(value)
        case float():
            return repr(value)
        case str():
            return text(value)
        case dict():
            return _map(value)
        case _:
            return _array(value)


def _array(values: Sequence[str | int]) -> str:
    return f"array({', '.join(text(one) if isinstance(one, str) else f'{one}L' for one in values)})"


def _map(values: Mapping[str, str]) -> str:
    return f"map({', '.join(f'{text(name)}, {text(value)}' for name, value in values.items())})"


def _setting(value: Value) -> str:
    """As Iceberg reads it from its map of texts."""
    return str(value).lower() if isinstance(value, bool) else str(value)
