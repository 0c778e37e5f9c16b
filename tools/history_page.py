"""Prints docs/reference/history.md from the code: every table of history, every column and its meaning."""

from __future__ import annotations

import sys

from tidegate.domain.history import SCHEMA, TABLES, Table

HEAD = f"""# Tables of history

Made from the code by `make reference`; a test keeps it equal.

What can be asked of runs, attempts, events and maintenance: as views of the schema `{SCHEMA}` in PostgreSQL, and by
the same names as DataFrames in Spark ([how](../how-to/query-history.md)). Names stay; new columns come at the end. In
PostgreSQL instants are `timestamp with time zone`, in Spark `timestamp`; spans are seconds, days are days in UTC. JSON
is `jsonb` in PostgreSQL and text in Spark. Null means that it is not so, not yet so, or not known; unknown is never 0.

To have PostgreSQL look at few days only, a condition in SQL names the column that is said to find the rows, for example
`slot >= {SCHEMA}.micros(now() - interval '7 days')`; in Spark a condition on `day` does the same."""


def section(table: Table) -> list[str]:
    unit = "`micros(timestamptz)`" if table.reach.per_day > 1 else "`day_number(date)`"
    lines = [
        "",
        f"## {table.name}",
        "",
        f"{table.meaning[0].upper()}{table.meaning[1:]}. Rows are found by `{table.reach.column}` (of {unit}); no two"
        f" have the same {', '.join(f'`{one}`' for one in table.key)}.",
        "",
        "| Column | PostgreSQL | Spark | Meaning |",
        "| --- | --- | --- | --- |",
    ]
    return lines + [
        f"| `{one.name}` | {one.kind.postgres} | {one.kind.spark} | {one.meaning} |" for one in table.columns
    ]


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for table in TABLES.values() for line in section(table))]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
