"""Types of triggers and constraints of installed packages: found by their entry points, checked when a document names
one.

A package declares `[project.entry-points."tidegate.triggers"]` with `TYPE = "package.module:Plugin"`; the class (or an
instance) is a `domain.plugins.LeafPlugin`. For constraints the group is `tidegate.constraints`, and the class a
`domain.constraints.ConstraintPlugin`. Whoever parses documents or runs the engine loads them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

from pydantic import Field

from tidegate.documents.base import Document
from tidegate.documents.scalars import JsonMap, wrong
from tidegate.domain import constraints, plugins
from tidegate.domain.errors import Refused

TRIGGERS = "tidegate.triggers"
CONSTRAINTS = "tidegate.constraints"


@cache
def load() -> None:
    """Make every installed type known, once a process. Raises Refused for a package that is broken."""
    for name, plugin in _found(TRIGGERS, "trigger", plugins.known()):
        plugins.register(name, plugin)
    for name, plugin in _found(CONSTRAINTS, "constraint", constraints.known()):
        constraints.register(name, plugin)


def _found(group: str, what: str, known: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for point in entry_points(group=group):
        if point.name in known:
            continue
        try:
            found = point.load()
        except Exception as error:
            raise Refused(
                f"The {what} type {point.name!r} of {point.value} cannot be loaded: {error!r}",
                remedy="Mend or remove the package that provides it.",
                code="plugin.broken",
            ) from error
        yield point.name, found() if isinstance(found, type) else found


class Plugged(Document):
    """A leaf of a plug-in: its `type` is the plug-in's, everything beside it are its parameters."""

    type: Literal["custom"]
    plugin: str = Field(description="the type of trigger, as its package calls it")
    parameters: JsonMap = Field(default_factory=dict, description="what stands beside `type`")


def recognised(value: object) -> object:
    """A trigger whose type a plug-in provides, as a `Plugged`; anything else as it is."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return value
    load()
    plugin = plugins.known().get(value["type"])
    if plugin is None:
        return value
    parameters: dict[Any, Any] = {key: said for key, said in value.items() if key != "type"}
    if faults := plugin.faults(parameters):
        raise wrong("; ".join(faults))
    return {"type": "custom", "plugin": value["type"], "parameters": parameters}
