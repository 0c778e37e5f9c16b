"""`tidegate events`: publish, list, who, set-aside, replay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client
from tidegate.cli.options import Namespace, Output
from tidegate.cli.output import Form, grid, when
from tidegate.domain import events
from tidegate.domain.naming import DEFAULT_NAMESPACE

app = typer.Typer(no_args_is_help=True, help="Events: publish, list, and whom they reach.")

Type = Annotated[str | None, typer.Option("--type", help="The type of event, e.g. user.file_landed.")]
Key = Annotated[str | None, typer.Option("--key", help="What it is about; the namespace may be left out.")]


@app.command()
def publish(
    type: Annotated[str, typer.Argument(help="user.NAME, or dataset.updated.", show_default=False)],
    key: Annotated[str, typer.Argument(help="namespace/name (or name), or the dataset's name.", show_default=False)],
    payload: Annotated[str, typer.Option("--payload", help="A JSON object.")] = "{}",
    id: Annotated[str | None, typer.Option("--id", help="The same again changes nothing.", show_default=False)] = None,
    time: Annotated[str | None, typer.Option("--time", help="When it happened (RFC 3339).", show_default=False)] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Publish an event."""
    body = {
        "type": type,
        "key": events.qualified(type, key, namespace),
        "id": id,
        "time": time,
        "payload": _object(payload),
    }
    with Client() as client:
        answer = client.call("POST", "/events", body={name: said for name, said in body.items() if said is not None})
    done = "was published before; nothing changed" if answer["repeated"] else "is published"
    output.show(form, answer, lambda: Text(f"{answer['type']} {answer['key']} {done}."))


@app.command("list")
def list_events(
    type: Type = None,
    key: Key = None,
    since: Annotated[str | None, typer.Option("--since", help="Arrived from this instant on (RFC 3339).")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 20,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Events, newest first."""
    whole = events.qualified(type, key, namespace) if type and key else key
    with Client() as client:
        items = list(client.items("/events", most=limit, type=type, key=whole, since=since))
    rows = ((when(one["at"]), one["type"], one["key"], one["payload"] or "") for one in items)
    output.show(form, items, lambda: grid(("ARRIVED", "TYPE", "KEY", "PAYLOAD"), rows, empty="No events."))


@app.command()
def who(
    type: Annotated[str, typer.Option("--type", help="The type of event.", show_default=False)],
    key: Annotated[str, typer.Option("--key", help="What it is about; the namespace may be left out.")],
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Which schedules such an event reaches."""
    with Client() as client:
        items = client.get("/events/subscribers", type=type, key=events.qualified(type, key, namespace))["items"]
    rows = [(f"{one['namespace']}/{one['schedule']}", one["leaf"], one["type"]) for one in items]
    output.show(form, items, lambda: grid(("SCHEDULE", "LEAF", "TYPE"), rows, empty="It reaches nobody."))


@app.command("set-aside")
def set_aside(
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Only of this namespace.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")] = 20,
    form: Output = Form.TABLE,
) -> None:
    """What schedules could not take, and why."""
    with Client() as client:
        items = list(client.items("/events/set-aside", most=limit, namespace=namespace))
    output.show(
        form, items, lambda: grid(("ID", "SCHEDULE", "AT", "EVENTS", "ERROR"), _asides(items), empty="Nothing.")
    )


@app.command()
def replay(
    number: Annotated[int, typer.Argument(help="As `tidegate events set-aside` prints it.", show_default=False)],
    form: Output = Form.TABLE,
) -> None:
    """Give what was set aside to its schedule again."""
    with Client() as client:
        answer = client.call("POST", f"/events/set-aside/{number}:replay", body={})
    told = f"{answer['count']} events go to {answer['namespace']}/{answer['schedule']} again."
    output.show(form, answer, lambda: Text(told))


def _asides(items: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (one["id"], f"{one['namespace']}/{one['schedule']}", when(one["at"]), one["count"], one["error"])
        for one in items
    ]


def _object(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--payload") from None
    if not isinstance(found, dict):
        raise typer.BadParameter('must be a JSON object, e.g. \'{"path": "a/b"}\'.', param_hint="--payload")
    return found
