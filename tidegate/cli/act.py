"""Commands that change what runs: enable, disable, freeze, delete, trigger, cancel, rerun; and logs."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from tidegate.cli import output
from tidegate.cli.client import Client, log_pieces, segment
from tidegate.cli.look import path_of
from tidegate.cli.options import (
    KEPT,
    AnyNamespace,
    DeletedKind,
    Namespace,
    Output,
    Run,
    Schedule,
    arguments,
    collection,
    run_id,
)
from tidegate.cli.output import Form, when
from tidegate.domain.naming import DEFAULT_NAMESPACE


class Rest(StrEnum):
    """How a schedule rests."""

    DROP, KEEP, BACKLOG, HOLD = "drop", "keep", "backlog", "hold"


def enable(
    schedule: Schedule,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the revision.")] = "",
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Let a schedule work: it reacts to what comes from now on."""
    _switch("enable", schedule, namespace, {"reason": reason} if reason else {}, form)


def disable(
    schedule: Schedule,
    mode: Annotated[
        Rest | None,
        typer.Option(
            "--mode",
            help="drop: what waits ends, what comes is ignored. keep: what waits starts when it may, what comes is "
            "ignored. backlog: runs are made, and start once it is enabled. hold: as backlog, merged into one. "
            "[default: drop]",
            show_default=False,
        ),
    ] = None,
    expire: Annotated[
        bool, typer.Option("--expire", help="Runs that backlog or hold keep back expire by waiting.timeout.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the revision.")] = "",
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Let a schedule rest, in one of four ways; running attempts end by themselves."""
    given = (("mode", mode and mode.value), ("reason", reason), ("expire", expire))
    body = {key: value for key, value in given if value}
    _switch("disable", schedule, namespace, body, form)


def _switch(verb: str, schedule: str, namespace: str, body: dict[str, Any], form: Form) -> None:
    with Client() as client:
        answer = client.call("POST", f"{path_of('schedules', namespace, schedule)}:{verb}", body=body)
    following = (answer.get("status") or {}).get("next_fire")
    nexts = f"; next fire {when(following)}" if following else ""
    output.show(form, answer, lambda: Text(f"Schedule {namespace}/{schedule} is {verb}d{nexts}."))


def freeze(
    reason: Annotated[str, typer.Option("--reason", help="Shown to whoever asks why nothing starts.")] = "",
    form: Output = Form.TABLE,
) -> None:
    """Let nothing start any more, of any schedule. What runs goes on."""
    with Client() as client:
        answer = client.call("PUT", "/freeze", body={"reason": reason} if reason else {})
    why = f": {answer['reason']}" if answer["reason"] else ""
    said = f"Frozen by {answer['who']} since {when(answer['since'])}{why}. To lift it: tidegate unfreeze"
    output.show(form, answer, lambda: Text(said))


def unfreeze(form: Output = Form.TABLE) -> None:
    """Let things start again, first those of the highest priority."""
    with Client() as client:
        before = client.get("/freeze")
        client.call("DELETE", "/freeze")
        answer = client.get("/freeze")
    said = "The freeze is lifted." if before["frozen"] else "Nothing was frozen."
    output.show(form, answer, lambda: Text(said))


def delete(
    kind: DeletedKind,
    name: Annotated[str, typer.Argument(help="Its name.", show_default=False)],
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Delete one thing. A program or application takes its schedules along: it says which."""
    what = collection(kind, but=KEPT)
    if what in KEPT:
        raise typer.BadParameter(f"{what} cannot be deleted: {KEPT[what]}.", param_hint="KIND")
    with Client() as client:
        along = _taken_along(client, what, namespace, name)
        client.call("DELETE", path_of(what, namespace, name))
    one = _ONE.get(what, what[:-1]).capitalize()
    gone = {"kind": one, "name": name, "deleted": True, "schedules": along}
    also = f", and with it the schedules {', '.join(along)}" if along else ""
    output.show(form, gone, lambda: Text(f"{one} {name} is deleted{also}."))


_ONE = {"policies": "policy"}
"""Of kinds whose plural has more than an s."""


def _taken_along(client: Client, what: str, namespace: str, name: str) -> list[str]:
    """The schedules that go with a program or an application."""
    if what not in ("programs", "applications"):
        return []
    found = client.items(path_of("schedules", namespace))
    if what == "programs":
        return sorted(one["metadata"]["name"] for one in found if one["spec"].get("program") == name)
    return sorted(one["metadata"]["name"] for one in found if one["metadata"].get("application") == name)


def trigger(
    schedule: Schedule,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", help="NAME=VALUE for this run; a value that is JSON is read as JSON.")
    ] = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    form: Output = Form.TABLE,
) -> None:
    """Ask for a run now; also of a schedule that is disabled."""
    given = arguments(arg or ())
    with Client() as client:
        path = f"{path_of('schedules', namespace, schedule)}:trigger"
        run = client.call("POST", path, body={"arguments": given} if given else {})
    hint = f"Run {run['id']} is {run['state']}. Follow it: tidegate logs -f {run['id']}"
    output.show(form, run, lambda: Text(hint))


def cancel(run: Run, namespace: AnyNamespace = None, form: Output = Form.TABLE) -> None:
    """Cancel a run, wherever it stands: politely first, then by force."""
    _run_verb(run, "cancel", namespace, form)


def rerun(run: Run, namespace: AnyNamespace = None, form: Output = Form.TABLE) -> None:
    """Ask for an old run again, with its inputs, arguments and fire time."""
    _run_verb(run, "rerun", namespace, form)


def _run_verb(run: str, verb: str, namespace: str | None, form: Form) -> None:
    with Client() as client:
        answer = client.call("POST", f"{run_path(run, namespace)}:{verb}")
    output.show(form, answer, lambda: Text(f"Run {answer['id']} is {answer['state']}."))


def run_path(run: str, namespace: str | None) -> str:
    """The path of a run; under its namespace when one is named."""
    prefix = f"/namespaces/{segment(namespace)}" if namespace else ""
    return f"{prefix}/runs/{segment(run_id(run))}"


def logs(
    run: Run,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="Which attempt. [default: newest]")] = None,
    namespace: AnyNamespace = None,
    form: Output = Form.TABLE,
) -> None:
    """What a run's programs printed. As JSON or YAML: a list of pieces {attempt, offset, text}; with -f, JSON pieces
    come one a line, as they grow."""
    path = run_path(run, namespace)
    said: list[dict[str, Any]] = []

    def piece(chunk: dict[str, Any]) -> None:
        told = {key: chunk[key] for key in ("attempt", "offset", "text")}
        if form is Form.TABLE:
            sys.stdout.write(chunk["text"])
        elif follow and form is Form.JSON and chunk["text"]:
            sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        elif chunk["text"]:
            said.append(told)
        sys.stdout.flush()

    with Client() as client:
        for chunk in log_pieces(client, path, attempt, follow=follow):
            piece(chunk)
    if not chunk["next_offset"] and chunk["complete"] and form is Form.TABLE:
        output.note(f"It printed nothing. What became of it: tidegate explain {run}")
    if form is Form.YAML or (form is Form.JSON and not follow):
        output.show(form, said, lambda: None)
