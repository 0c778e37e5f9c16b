"""Options and arguments that several commands take, each written once."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.output import Form
from tidegate.domain.errors import TidegateError
from tidegate.domain.ids import parse_run_id

Output = Annotated[Form, typer.Option("-o", "--output", help="How to print the answer.")]
Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Whose names are meant.")]
AnyNamespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Only if it is of this namespace.", show_default=False)
]
File = Annotated[str, typer.Option("-f", "--file", help="A YAML or JSON file, or - for standard input.")]
Schedule = Annotated[str, typer.Argument(help="Name of a schedule.", show_default=False)]
Run = Annotated[str, typer.Argument(help="Id of a run, as `tidegate runs` prints it.", show_default=False)]
Home = Annotated[
    Path | None, typer.Option("--home", help="Everything this machine keeps. [default: TIDEGATE_HOME or ~/.tidegate]")
]

KINDS = {
    "schedule": "schedules",
    "program": "programs",
    "application": "applications",
    "app": "applications",
    "apps": "applications",
    "namespace": "namespaces",
    "ns": "namespaces",
    "pool": "pools",
    "calendar": "calendars",
    "run": "runs",
    "dataset": "datasets",
    "sink": "sinks",
    "source": "sources",
    "instance": "instances",
    "lease": "leases",
    "policy": "policies",
    "table": "tables",
}
NAMESPACED = frozenset({"schedules", "programs", "applications", "runs"})
LISTED = {"instances": "tidegate get instances", "leases": "tidegate get leases"}
"""What is only shown as a list, and how."""
KEPT = {
    "runs": "retention drops them; `tidegate cancel` ends one",
    "instances": "they are processes, which end by themselves",
    "leases": "they lapse by themselves",
    "tables": "Tidegate looks after them and deletes none; drop the table in its catalog",
}
"""What is shown and never deleted here, and why."""


def _words(but: Collection[str] = ()) -> str:
    """One word for each kind but these, the first that it has."""
    first = {what: word for word, what in reversed(KINDS.items())}
    *most, last = (first[what] for what in dict.fromkeys(KINDS.values()) if what not in but)
    return f"{', '.join(most)} or {last}."


Kind = Annotated[str, typer.Argument(help=_words(), show_default=False)]
DescribedKind = Annotated[str, typer.Argument(help=_words(but=LISTED), show_default=False)]
DeletedKind = Annotated[str, typer.Argument(help=_words(but=KEPT), show_default=False)]


def collection(kind: str, *, but: Collection[str] = ()) -> str:
    """The collection that a word means: singular, plural or short. Wrong usage (exit 2) when it is none, told with the
    known ones; `but`: those that are of no use here are not told."""
    word = kind.lower()
    found = KINDS.get(word) or (word if word in KINDS.values() else None)
    if found is None:
        known = ", ".join(what for what in dict.fromkeys(KINDS.values()) if what not in but)
        raise typer.BadParameter(f"{kind!r} is no kind; known are {known}.", param_hint="KIND")
    return found


def one_of(kind: str) -> str:
    """The collection, of a kind whose things have a page each. Wrong usage (exit 2) when it is none."""
    what = collection(kind, but=LISTED)
    if what in LISTED:
        raise typer.BadParameter(f"{what} are only listed: {LISTED[what]}.", param_hint="KIND")
    return what


def is_run_id(text: str) -> bool:
    try:
        parse_run_id(text)
    except ValueError:
        return False
    return True


def run_id(text: str) -> str:
    """A run's id, checked before anybody is asked."""
    try:
        parse_run_id(text)
    except ValueError as error:
        raise TidegateError(f"{error}.") from None
    return text


def arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """`k=v` pairs; a value that is JSON is what it says, everything else is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE.", param_hint="--arg")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found
