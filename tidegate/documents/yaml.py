"""YAML as we read it: the core rules of YAML 1.2 (`22:00`, `NO` and dates are text), with the line of every value.

Nodes are composed by ruamel.yaml and turned into plain JSON values here, so that no library's taste for dates, octals
or sexagesimal numbers comes in. JSON is YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.jsonable import path_of

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL, _HEX = re.compile(r"0o[0-7]+"), re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MOST_NODES = 200_000
_LONGEST_NUMBER = 40  # characters; 64 bits need 20
_CORE = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """One document of a file, read but not checked. `lines`: path -> line (from 1); `line`: where it begins."""

    value: Any
    line: int
    lines: dict[str, int]

    def line_of(self, path: str) -> int:
        """The line of a path, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, self.line)


def read(text: str, name: str) -> tuple[list[Read], list[Fault]]:
    """Every document of a text, and what no document may hold (keys twice, keys that are no text, foreign tags), with
    `name` and line. Raises Invalid when it is no YAML."""
    loader = YAML(typ="safe", pure=True)
    loader.allow_duplicate_keys = True  # found below, with a path
    faults: list[Fault] = []
    found: list[Read] = []
    try:
        for node in loader.compose_all(text):
            if node is None:
                continue
            reader = _Reader(name, faults)
            value = reader.value(node, ())
            if value is not None:
                found.append(Read(value, node.start_mark.line + 1, reader.lines))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise Invalid([Fault(where, f"is not YAML: {reason or error}")], what=name) from None
    except (YAMLError, RecursionError) as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        reason = getattr(error, "reason", None) or "it is nested too deeply"
        raise Invalid([Fault(f"{name}:{line}", f"is not YAML: {reason}")], what=name) from None
    return found, faults


class _Reader:
    """Turns one document's nodes into values and keeps where they stand."""

    def __init__(self, name: str, faults: list[Fault]) -> None:
        self.name = name
        self.faults = faults
        self.lines: dict[str, int] = {}
        self._left = _MOST_NODES

    def value(self, node: Node, path: Path) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Invalid([Fault(self.name, f"says more than {_MOST_NODES} things in one document")], what=self.name)
        self.lines.setdefault(path_of(path), node.start_mark.line + 1)
        match node:
            case MappingNode():
                return dict(self._pairs(node, path))
            case SequenceNode():
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            case ScalarNode():
                return self._scalar(node, path)
        raise AssertionError(f"no such node: {type(node).__name__}")

    def _pairs(self, node: MappingNode, path: Path) -> Iterator[tuple[Any, Any]]:
        seen: set[Any] = set()
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._fault(key_node, path, "a key must be text")
                continue
            key = self._scalar(key_node, path)
            if not isinstance(key, str):
                self._fault(key_node, path, f'a key must be text; put it in quotes: "{key_node.value}"')
                key = str(key_node.value)
            if key in seen:
                self._fault(key_node, (*path, key), "is given twice")
            seen.add(key)
            self.lines[path_of((*path, key))] = key_node.start_mark.line + 1
            yield key, self.value(value_node, (*path, key))

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        text = str(node.value)
        tag = node.ctag if hasattr(node, "ctag") else None
        said = str(tag or node.tag or "")
        if node.style in ("'", '"', "|", ">"):
            return text
        if said and said not in _CORE and said != "!":
            self._fault(node, path, f"has the tag {said}, which means nothing here; leave it out")
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if len(text) > _LONGEST_NUMBER and any(one.fullmatch(text) for one in (_INT, _OCTAL, _HEX)):
            self._fault(node, path, "is a whole number too large to keep; write it as text, in quotes")
            return 0
        if _INT.fullmatch(text):
            return int(text)
        if _OCTAL.fullmatch(text):
            return int(text[2:], 8)
        if _HEX.fullmatch(text):
            return int(text[2:], 16)
        if match := _NO_NUMBER.fullmatch(text):
            return float("nan") if match[2] is None else float(f"{match[1]}inf")
        return float(text) if _FLOAT.fullmatch(text) else text

    def _fault(self, node: Node, path: Path, reason: str) -> None:
        where = f"{self.name}:{node.start_mark.line + 1} {path_of(path)}".rstrip()
        self.faults.append(Fault(where, reason))
