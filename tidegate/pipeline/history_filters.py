"""Which conditions of a query on history PostgreSQL can judge, and as what.

A condition on `day`, or on the instant whose day that is, narrows the days that are read at all. Others become SQL that
means the same in PostgreSQL as in Spark: text is compared byte by byte, null is never equal. What cannot be said so is
left to Spark, which is always right and only slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

from pyspark.sql import datasource as spark

from tidegate.domain.history import Column, Kind, Table

Days: TypeAlias = tuple[tuple[int, int], ...]
"""Days since 1970 in UTC, as spans from (in it) to (not in it), ascending."""
EVER: Days = ((-(1 << 40), 1 << 40),)
_EPOCH = date(1970, 1, 1)
_COMPARED = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
_VALUES: dict[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.INSTANT: (datetime,),
    Kind.DAY: (date,),
    Kind.NUMBER: (float, int),
    Kind.COUNT: (int,),
    Kind.INTEGER: (int,),
    Kind.FLAG: (bool,),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a filter comes to: SQL with its values, and the days outside of which no row can fulfil it."""

    sql: str = ""
    values: tuple[Any, ...] = ()
    days: Days = EVER


def translate(one: Any, table: Table) -> Condition | None:
    """A filter of Spark's; None: it is left to Spark."""
    if isinstance(one, spark.Not):
        return _negated(one.child, table)
    column = table.column(one.attribute[0]) if len(one.attribute) == 1 else None
    if column is None:
        return None
    if column.kind is Kind.DAY:
        return _of_day(one)
    match one:
        case spark.IsNull():
            return Condition(f"{column.name} IS NULL")
        case spark.IsNotNull():
            return Condition(f"{column.name} IS NOT NULL")
        case spark.In():
            return _within(one, column, table)
    if not _comparable(column, one.value):
        return None
    return _compared(one, column, table)


def _compared(one: Any, column: Column, table: Table) -> Condition | None:
    said = f'{column.name} COLLATE "C"' if column.kind is Kind.TEXT else column.name
    match one:
        case spark.EqualNullSafe():
            return Condition(f"{said} IS NOT DISTINCT FROM %s", (one.value,))
        case spark.StringStartsWith():
            return Condition(f"starts_with({column.name}, %s)", (one.value,))
        case spark.StringContains():
            return Condition(f"position(%s IN {column.name}) > 0", (one.value,))
        case spark.StringEndsWith():
            return Condition(f"right({column.name}, length(%s)) = %s", (one.value, one.value))
    operator = _COMPARED.get(type(one))
    if operator is None:
        return None
    days = _span(operator, _day_of(one.value)) if column.name == table.dated else EVER
    return Condition(f"{said} {operator} %s", (one.value,), days)


def _within(one: Any, column: Column, table: Table) -> Condition | None:
    if not one.value or not all(_comparable(column, value) for value in one.value):
        return None
    days = EVER
    if column.name == table.dated:
        days = together(_span("=", _day_of(value)) for value in one.value)
    return Condition(f"{column.name} = ANY(%s)", (list(one.value),), days)


def _negated(one: Any, table: Table) -> Condition | None:
    """Of three-valued logic: what is null fulfils neither a comparison nor its negation, in both systems."""
    inner = translate(one, table)
    return Condition(f"NOT ({inner.sql})", inner.values) if inner is not None and inner.sql else None


def _of_day(one: Any) -> Condition | None:
    """`day` follows from the number by which rows are found, and is never null."""
    match one:
        case spark.IsNotNull():
            return Condition()
        case spark.In() if one.value and all(type(value) is date for value in one.value):
            return Condition(days=together(_span("=", number_of(value)) for value in one.value))
    operator = "=" if isinstance(one, spark.EqualNullSafe) else _COMPARED.get(type(one))
    if operator is None or type(one.value) is not date:
        return None
    number = number_of(one.value)
    match operator:  # a day is a span: what is after it begins with the next
        case ">":
            return Condition(days=_span(">=", number + 1))
        case "<":
            return Condition(days=_span("<=", number - 1))
    return Condition(days=_span(operator, number))


def _comparable(column: Column, value: Any) -> bool:
    if isinstance(value, bool) and column.kind is not Kind.FLAG:
        return False
    if isinstance(value, float) and math.isnan(value):
        return False
    if isinstance(value, datetime) and value.tzinfo is None:
        return False
    return isinstance(value, _VALUES.get(column.kind, ()))


# ── days ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def number_of(day: date) -> int:
    """Days since 1970."""
    return (day - _EPOCH).days


def day_of(number: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + number)


def _day_of(instant: datetime) -> int:
    return number_of(instant.astimezone(UTC).date())


def _span(operator: str, day: int) -> Days:
    first, last = EVER[0]
    match operator:
        case "=":
            return ((day, day + 1),)
        case ">" | ">=":
            return ((day, last),)
        case _:
            return ((first, day + 1),)


def together(many: Iterable[Days]) -> Days:
    """The days of any of these."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(span for days in many for span in days):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return tuple(found)


def common(one: Days, other: Days) -> Days:
    """The days of both."""
    spans = (
        (max(first, low), min(end, high))
        for first, end in one
        for low, high in other
        if max(first, low) < min(end, high)
    )
    return tuple(sorted(spans))


def written(days: Days) -> str:
    """As an option of the data source: `20781-20783,20790-20791`, without spaces; read by `read_days`."""
    return ",".join(f"{first}-{end}" for first, end in days)


def read_days(text: str) -> Days:
    """Raises ValueError when `written` cannot have written it."""
    spans = (part.split("-") for part in text.split(",") if part)
    return tuple((int(first), int(end)) for first, end in spans)


def each(days: Days) -> Sequence[int]:
    """Every one of these days."""
    return [day for first, end in days for day in range(first, end)]
