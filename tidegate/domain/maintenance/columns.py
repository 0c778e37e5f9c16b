"""The columns that an operation's options speak of, and whether the table has them.

What cannot be read for certain (a transform that nobody here knows, a quoted literal) is left to Iceberg.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator

from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import Options

_LISTED = 20
"""So many columns of a table are named."""
_CURVE = re.compile(r"\s*(?:zorder|hilbert)\s*\((.*)\)\s*", re.I | re.S)
_DIRECTION = re.compile(r"(\s+(asc|desc))?(\s+nulls\s+(first|last))?\s*$", re.I)
_COMMA = re.compile(r",(?![^(]*\))")
_LEVEL = r"(?:`[^`]+`|[^\W\d]\w*)"
_NAME = re.compile(rf"{_LEVEL}(?:\.{_LEVEL})*")
_TRANSFORM = re.compile(r"\w+\s*\((.*)\)", re.S)


def without_columns(operation: Operation, options: Options, columns: Collection[str] | None, table: str = "") -> str:
    """Why it cannot be done: `there is no column 'nope' in lake.raw.t (it has: id, day)`; "" where nothing is known
    against it. `columns`: of the table, nested ones with their path; None: unknown."""
    if columns is None:
        return ""
    for name, any_case in _asked(operation, options):
        by_lower = {one.lower(): one for one in columns}
        if name not in columns and not (any_case and name.lower() in by_lower):
            near = difflib.get_close_matches(name.lower(), by_lower, 1, 0.6)
            hint = f"; did you mean {by_lower[near[0]]!r}?" if near else ""
            more = f" and {len(columns) - _LISTED} more" if len(columns) > _LISTED else ""
            there = f" in {table}" if table else ""
            return f"there is no column {name!r}{there}{hint} (it has: {', '.join(list(columns)[:_LISTED])}{more})"
    return ""


def speaks_of_columns(operation: Operation, options: Options) -> bool:
    """Whether the options name any."""
    return next(_asked(operation, options), None) is not None


def _asked(operation: Operation, options: Options) -> Iterator[tuple[str, bool]]:
    """Each column by name, and whether its case does not count: Iceberg looks up those of a curve as Spark does."""
    order, given = options.get("sort_order"), options.get("columns")
    if operation is Operation.REWRITE_DATA_FILES and isinstance(order, str):
        curve = _CURVE.fullmatch(order)
        for term in _COMMA.split(curve[1] if curve else order):
            name = term.strip() if curve else _DIRECTION.sub("", term.strip())
            through = _TRANSFORM.fullmatch(name)
            for one in through[1].split(",") if through else (name,):
                if _NAME.fullmatch(one.strip()):
                    yield one.strip().replace("`", ""), curve is not None
    elif operation is Operation.COMPUTE_TABLE_STATS and isinstance(given, tuple):
        yield from ((str(one), False) for one in given)
