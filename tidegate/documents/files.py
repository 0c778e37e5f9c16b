"""Files of documents: several in one, YAML or JSON; faults with their lines, and nothing from a file with a fault.

flights.yaml:12 spec.trigger.expression: ...
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.documents import declared, icalendar
from tidegate.documents.parsing import DEFAULT_NAMESPACE, parse
from tidegate.documents.yaml import Read, read
from tidegate.domain.errors import Fault, Invalid, NotFound, Refused


def check(
    text: str, name: str, *, default_namespace: str = DEFAULT_NAMESPACE, folder: Path = Path()
) -> list[declared.Declaration]:
    """Every document of a text, checked; `name` stands in the faults, `folder` is where the files lie that a document
    names. Raises Invalid with all faults of all of them."""
    made: list[declared.Declaration] = []
    documents, faults = read(text, name)
    for one in documents:
        try:
            made.append(parse(with_ics(folder, one.value), default_namespace=default_namespace))
        except Invalid as invalid:
            faults += [_placed(fault, one, name) for fault in invalid.faults]
    faults += _twice(made, name)
    if faults:
        raise Invalid(faults, what=name)
    if not made:
        raise Invalid([Fault(name, "holds no document; one begins with apiVersion: tidegate/v1")], what=name)
    return made


def raw_documents(path: Path, *, default_namespace: str = DEFAULT_NAMESPACE) -> list[dict[str, Any]]:
    """Every document of a file as plain JSON values, checked: what a client sends to the server.

    A relative file in a program's `entry` is looked up beside the document that names it: a worker runs elsewhere. So
    is a calendar's `ics`, and what it holds is sent. Raises Invalid with every fault of the whole file, NotFound,
    Refused.
    """
    text, folder = _read_text(path), path.resolve().parent
    check(text, path.name, default_namespace=default_namespace, folder=folder)
    return [_beside(path, with_ics(folder, one.value)) for one in read(text, path.name)[0]]


def with_ics(folder: Path, document: Any) -> Any:
    """A calendar with the content of the file that its `ics` names; anything else as it is. Raises Invalid."""
    spec = document.get("spec") if isinstance(document, dict) and document.get("kind") == "Calendar" else None
    named = spec.get("ics") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(named, str) or icalendar.is_content(named):
        return document
    try:
        content = (folder / named).read_text("utf-8-sig")
    except (OSError, ValueError) as fault:
        reason = (
            "is not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else getattr(fault, "strerror", str(fault))
        )
        raise Invalid([Fault("spec.ics", f"names the file {named!r}, which cannot be read: {reason}")]) from None
    if not icalendar.is_content(content):
        reason = f"names the file {named!r}, which is no iCalendar file: it does not begin with {icalendar.BEGINNING}"
        raise Invalid([Fault("spec.ics", reason)])
    return {**document, "spec": {**spec, "ics": content}}


def place_of(text: str, name: str, kind: str, namespace: str, thing: str, path: str) -> str:
    """Where a path of one document of a text is, like `flights.yaml:12 spec.trigger`; `namespace`: of what names none
    and of the thing. The path alone where the text does not show it."""
    for one in read(text, name)[0]:
        about = one.value.get("metadata") if isinstance(one.value, dict) else None
        if not isinstance(about, dict) or (one.value.get("kind"), about.get("name")) != (kind, thing):
            continue
        if about.get("namespace") in (None, namespace):
            return f"{name}:{one.line_of(path)} {path}"
    return path


def text_of(path: Path) -> str:
    """A file's text. Raises NotFound, Refused, Invalid."""
    return _read_text(path)


def _beside(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    spec = document.get("spec")
    if not isinstance(spec, dict) or document.get("kind") != "Program":
        return document
    entry = spec.get("entry")
    file, colon, function = entry.partition(":") if isinstance(entry, str) else ("", "", "")
    if not file.endswith(".py") or Path(file).is_absolute():
        return document
    return {**document, "spec": {**spec, "entry": f"{path.resolve().parent / file}{colon}{function}"}}


def _read_text(path: Path) -> str:
    if path.suffix == ".py" and path.is_file():
        raise Refused(f"{str(path)!r} is a Python file.", remedy=f"For those: tidegate deploy {path}")
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise NotFound(f"there is no file {str(path)!r}") from None
    except IsADirectoryError:
        raise Refused(f"{str(path)!r} is a directory.", remedy="Name a file of documents.") from None
    except UnicodeDecodeError as error:
        raise Invalid([Fault(path.name, f"is not UTF-8 text (byte {error.start})")], what=path.name) from None
    except OSError as error:
        raise Refused(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _placed(fault: Fault, document: Read, name: str) -> Fault:
    return Fault(f"{name}:{document.line_of(fault.path)} {fault.path}".rstrip(), fault.reason)


def _twice(made: Sequence[declared.Declaration], name: str) -> list[Fault]:
    """The same thing declared twice in one file."""
    seen: set[tuple[str, str, str]] = set()
    faults = []
    for one in made:
        key = (one.KIND, one.metadata.namespace, one.metadata.name)
        if key in seen:
            whole = f"{key[1]}/{key[2]}" if key[1] else key[2]
            faults.append(Fault(name, f"declares the {key[0].lower()} {whole!r} twice"))
        seen.add(key)
    return faults
