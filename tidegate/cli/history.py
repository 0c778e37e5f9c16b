"""`tidegate history`: keep what happened for longer than the database does."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from tidegate.cli import output
from tidegate.cli.database import database_url
from tidegate.cli.options import Home, Output
from tidegate.cli.output import Form, grid
from tidegate.domain.errors import Refused

app = typer.Typer(
    help="What happened: keep it for longer (asking: docs/how-to/query-history.md).", no_args_is_help=True
)


@app.callback()
def whole() -> None:
    """What happened: keep it for longer than the database does."""


@app.command()
def export(
    to: Annotated[
        str, typer.Option("--to", help="A folder or URI (Parquet), or catalog.namespace (Iceberg).", show_default=False)
    ],
    from_day: Annotated[
        str | None, typer.Option("--from-day", help="Write from this day on anew, e.g. 2026-11-21.", show_default=False)
    ] = None,
    to_day: Annotated[
        str | None, typer.Option("--to-day", help="Write up to this day anew, the day in it.", show_default=False)
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this one; may be repeated. [default: all]")
    ] = None,
    home: Home = None,
    form: Output = Form.TABLE,
) -> None:
    """Put whole days of history into an archive, by Spark. Without days: those that it lacks. Repeating is harmless."""
    from tidegate import settings as configuration
    from tidegate.wiring.history import archive_history

    first, last = _day(from_day), _day(to_day)
    settings = configuration.load(home=home)
    done = archive_history(settings, database_url(home), to, tables=table or (), first=first, last=last)
    items = [{"table": one.table, "day": str(one.day), "rows": one.rows, "left": one.left or None} for one in done]
    rows = [(one.table, str(one.day), one.rows, one.left or "archived") for one in done]
    empty = "The archive has every day that is over."
    output.show(form, items, lambda: grid(("TABLE", "DAY", "ROWS", ""), rows, empty=empty))


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise Refused(f"{text!r} is no day; write it like 2026-11-21.") from None
