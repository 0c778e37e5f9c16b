"""Prints docs/reference/maintenance-options.md from the code: every option of every operation."""

from __future__ import annotations

import sys

from tidegate.domain.maintenance.accepted import OPTIONS, Kind, Option, Place

HEAD = """# Options of maintenance operations

Made from the code by `make reference`; a test keeps it equal.

What `options` of an operation in a MaintenancePolicy may say, by Iceberg's own names: all that Iceberg 1.12 for Spark
accepts. Anything else is refused, with the nearest name. Ages are durations, counted back from when the operation runs;
sizes may have a unit. What is left out is decided by the table's properties and by Iceberg, as the default says."""

KINDS = {
    Kind.TEXT: "text",
    Kind.BOOL: "`true`, `false`",
    Kind.INT: "whole number",
    Kind.NUMBER: "number",
    Kind.BYTES: "size",
    Kind.AGE: "duration",
    Kind.TEXTS: "list of text",
    Kind.INTS: "list of whole numbers",
    Kind.MAP: "mapping of text",
}


def row(option: Option) -> str:
    kind = ", ".join(f"`{word}`" for word in option.words) or KINDS[option.kind]
    about = option.about + (f" (where rows are arranged by {option.only})" if option.only else "")
    ours = " (Tidegate's own)" if option.place is Place.OURS else ""
    return f"| `{option.name}` | {kind} | {option.default or 'none'} | {about}{ours} |"


def page() -> str:
    """The whole page."""
    lines = [HEAD, ""]
    for operation, options in OPTIONS.items():
        lines += [f"## {operation.value}", "", "| Option | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
        lines += [*(row(option) for option in options.values()), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
