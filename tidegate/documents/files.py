"""Files of documents: several in one, YAML or JSON; faults with their lines, and nothing from a file with a fault.

flights.yaml:12 spec.trigger.expression: ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.documents import declared, icalendar
from tidegate.documents.parsing import parse
from tidegate.documents.yaml import Read, read
from tidegate.domain.errors import Fault, Invalid, NotFound, Refused
from tidegate.domain.naming import DEFAULT_NAMESPACE

MOST = 10_000
"""Documents that one request may write, all of them or none."""


def check(
    text: str, name: str, *, default_namespace: str = DEFAULT_NAMESPACE, folder: Path = Path()
) -> list[declared.Declaration]:
    """Every document of a text, checked; `name` stands in the faults, `folder` is where the files lie that a document
    names. Raises Invalid with all faults of all of them."""
    reads, faults = read(text, name)
    return _check(reads, faults, name, folder, default_namespace)


def _check(
    reads: Sequence[Read], found: Sequence[Fault], name: str, folder: Path, default_namespace: str
) -> list[declared.Declaration]:
    made: list[declared.Declaration] = []
    faults = list(found)
    for one in reads:
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


@dataclass(frozen=True, slots=True)
class Documents:
    """What a client sends to the server. `notes`: what is no fault, and still worth a look."""

    name: str
    values: list[dict[str, Any]]
    notes: tuple[str, ...]
    _reads: tuple[Read, ...]

    def placed(self, faults: Sequence[Fault]) -> list[Fault]:
        """Faults that the server found, `documents[2].spec.program`, by the line that the person knows."""
        return [self._placed(fault) for fault in faults]

    def place(self, kind: str, namespace: str, name: str, path: str) -> str:
        """Where a path of one document is, like `flights.yaml:12 spec.trigger`; `namespace`: of what names none and of
        the thing. The path alone where no document shows it."""
        for one in self._reads:
            about = one.value.get("metadata")
            if one.value.get("kind") != kind or not isinstance(about, dict) or about.get("name") != name:
                continue
            if about.get("namespace") in (None, namespace):
                return f"{self.name}:{one.line_of(path)} {path}"
        return path

    def _placed(self, fault: Fault) -> Fault:
        match = _OF_ONE.fullmatch(fault.path)
        if match is None or int(match[1]) >= len(self._reads):
            return fault
        return _placed(Fault(match[2], fault.reason), self._reads[int(match[1])], self.name)


_OF_ONE = re.compile(r"documents\[(\d{1,9})\]\.?(.*)", re.DOTALL)


def raw_documents(path: Path, *, default_namespace: str = DEFAULT_NAMESPACE) -> Documents:
    """Every document of a file as plain JSON values, checked.

    A relative file in a program's `entry` is looked up beside the document that names it: a worker runs elsewhere. So
    is a calendar's `ics`, and what it holds is sent. Raises Invalid with every fault of the whole file, NotFound,
    Refused.
    """
    return of_text(_read_text(path), path.name, path.resolve().parent, default_namespace=default_namespace)


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


def of_text(text: str, name: str, folder: Path, *, default_namespace: str = DEFAULT_NAMESPACE) -> Documents:
    """The same of a text; relative files are looked up in `folder`. Raises Invalid."""
    reads, found = read(text, name)
    if len(reads) > MOST:
        reason = f"holds {len(reads):,} documents, and at most {MOST:,} are written at once: divide it"
        raise Invalid([Fault(name, reason)], what=name)
    _check(reads, found, name, folder, default_namespace)
    faults: list[Fault] = []
    notes: list[str] = []
    for one in reads:
        for at, spec in _programs(one.value):
            file, colon, function = spec["entry"].partition(":")
            whole = folder / file
            if not Path(file).is_absolute():
                spec["entry"] = f"{whole}{colon}{function}"
                if not whole.is_file():
                    reason = f"there is no file {str(whole)!r}; a relative path begins where the document lies"
                    faults.append(_placed(Fault(f"{at}.entry", reason), one, name))
            elif not whole.is_file():
                line = one.line_of(f"{at}.entry")
                notes.append(f"{name}:{line} there is no file {file!r} on this machine; a worker will look for it.")
    if faults:
        raise Invalid(faults, what=name)
    return Documents(name, [with_ics(folder, one.value) for one in reads], tuple(notes), tuple(reads))


def _programs(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and spec of each program of a checked document whose entry lies in a file."""
    spec = document.get("spec") or {}
    found = [("spec", spec)] if document["kind"] == "Program" else []
    if document["kind"] == "Application":
        listed = enumerate(spec.get("programs") or ())
        found = [(f"spec.programs[{index}].spec", one["spec"]) for index, one in listed]
    for at, one in found:
        entry = one.get("entry")
        if isinstance(entry, str) and entry.partition(":")[0].endswith(".py"):
            yield at, one


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
