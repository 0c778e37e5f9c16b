"""`tidegate policies`: what is asked for, and whether maintenance starts by itself at all."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client
from tidegate.cli.look import table_of
from tidegate.cli.options import Output
from tidegate.cli.output import Form, when

app = typer.Typer(
    invoke_without_command=True, help="Maintenance policies: list them, switch automatic maintenance off and on."
)
Reason = Annotated[str, typer.Option("--reason", help="Shown to whoever asks why nothing is maintained.")]


@app.callback()
def whole(context: typer.Context, form: Output = Form.TABLE) -> None:
    """Maintenance policies: list them, switch automatic maintenance off and on."""
    if context.invoked_subcommand is None:
        list_policies(form)


@app.command("list")
def list_policies(form: Output = Form.TABLE) -> None:
    """Every policy, and whether maintenance starts by itself (in JSON `status.automatic` of each)."""
    with Client() as client:
        items = list(client.items("/policies"))
        switch = client.get("/maintenance")
    if not switch["automatic"]:
        output.note(_said(switch))
    for one in items:
        if one["status"]["warning"]:
            output.note(f"{one['metadata']['name']}: {one['status']['warning']}")
    output.show(form, items, lambda: table_of("policies", items))


@app.command()
def disable(reason: Reason = "", form: Output = Form.TABLE) -> None:
    """Start no maintenance by itself any more, of any table. What runs goes on; by hand it is started all the same."""
    _switch("disable", reason, form)


@app.command()
def enable(reason: Reason = "", form: Output = Form.TABLE) -> None:
    """Let maintenance start by itself again, where policies say so."""
    _switch("enable", reason, form)


def _switch(verb: str, reason: str, form: Form) -> None:
    with Client() as client:
        answer = client.call("POST", f"/maintenance:{verb}", body={"reason": reason} if reason else {})
    output.show(form, answer, lambda: Text(_said(answer)))


def _said(switch: dict[str, Any]) -> str:
    if switch["automatic"]:
        return "Maintenance starts by itself, where policies say so."
    why = f": {switch['reason']}" if switch["reason"] else ""
    return (
        f"Automatic maintenance was switched off by {switch['who']}, {when(switch['since'])}{why}. "
        "To switch it on: tidegate policies enable"
    )
