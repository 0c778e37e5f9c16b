"""`tidegate sinks`: replay."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client, segment
from tidegate.cli.options import Output
from tidegate.cli.output import Form

app = typer.Typer(no_args_is_help=True, help="Sinks: send again what one refused.")


@app.callback()
def _group() -> None:
    """One command is a group, too."""


@app.command()
def replay(
    name: Annotated[str, typer.Argument(help="Name of a sink.", show_default=False)],
    position: Annotated[
        int | None,
        typer.Option("--position", help="Only this event, as `describe sink` prints it.", min=0, show_default=False),
    ] = None,
    form: Output = Form.TABLE,
) -> None:
    """Send again what a sink refused, once the reason is gone."""
    body = {} if position is None else {"position": str(position)}
    with Client() as client:
        answer = client.call("POST", f"/sinks/{segment(name)}:replay", body=body)
    output.show(form, answer, lambda: Text(f"{answer['events']} events go to {name!r} again."))
