"""`tidegate import`: what another scheduler says, as documents of ours to be looked at and applied."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import output
from tidegate.cli.output import Form
from tidegate.domain.errors import NotFound, Refused


class Source(StrEnum):
    """Whose words are read."""

    FLOE = "floe"


def import_(
    source: Annotated[Source, typer.Argument(help="floe: maintenance policies as JSON.", show_default=False)],
    file: Annotated[str, typer.Argument(help="A file, or - for standard input.", show_default=False)],
    form: Annotated[Form, typer.Option("-o", "--output", help="yaml, or json for one list.")] = Form.YAML,
) -> None:
    """Print the documents that say the same here; nothing is changed. Apply them by `| tidegate apply -f -`."""
    from tidegate.documents import floe

    documents, notes = floe.policies(_text(file), "stdin" if file == "-" else Path(file).name)
    if form is Form.JSON:
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
    else:
        sys.stdout.write("---\n".join(output.as_yaml(document) for document in documents))
    for note in notes:
        output.note(note)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {file!r}") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise Refused(
            f"{file!r} cannot be read: {getattr(fault, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from None
