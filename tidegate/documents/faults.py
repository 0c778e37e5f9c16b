"""Faults of a document: pydantic's errors rewritten into our sentences and paths.

Paths follow what the person wrote (`spec.constraints[1].max`); names of models and of union members never appear. The
walk along an error's location is directed by the models' types, which is also how the nearest known key is found.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tidegate.documents import refusals
from tidegate.domain import plugins
from tidegate.domain.errors import Fault
from tidegate.domain.jsonable import path_of, say

UNIONS = {
    "trigger": "a type of trigger",
    "triggers": "a type of trigger",
    "constraints": "a type of constraint",
    "spec": "a type of program",
}
"""The field that holds a union -> how to call its members."""


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """Every fault of a document that `model` refused, in the order of the document's fields."""
    found = []
    for one in error.errors(include_url=False):
        path, where = _follow(model, one["loc"])
        found.append(Fault(path_of(path), _reason(one, path, where)))
    return found


# ── following a location through the models ────────────────────────────────────────────────────────────────────────


def _bare(annotation: Any) -> Any:
    """Without Annotated and Optional."""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
            rest = [one for one in typing.get_args(annotation) if one is not type(None)]
            if len(rest) != 1:
                return annotation
            annotation = rest[0]
        else:
            return annotation


def members(annotation: Any) -> dict[str, type[BaseModel]]:
    """The models of a union tagged by `type`, by their tag; empty when the annotation is no such union."""
    bare = _bare(annotation)
    if typing.get_origin(bare) not in (typing.Union, types.UnionType):
        return {}
    models = [_bare(one) for one in typing.get_args(bare)]
    return {typing.get_args(one.model_fields["type"].annotation)[0]: one for one in models}


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the keys that people write."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _follow(annotation: Any, location: Sequence[int | str]) -> tuple[list[int | str], Any]:
    """The path a person knows, and the type that holds the last part of it."""
    path: list[int | str] = []
    holder: Any = None
    for part in location:
        if tagged := members(annotation):
            annotation = tagged.get(str(part), annotation)
            continue
        if part == "[key]":
            continue
        path.append(part)
        holder = annotation = _bare(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = fields_of(annotation).get(str(part))
            annotation = field.annotation if field else None
        else:
            arguments = typing.get_args(annotation)
            annotation = arguments[0] if isinstance(part, int) and arguments else None
    return path, holder if not members(annotation) else annotation


# ── our sentences ──────────────────────────────────────────────────────────────────────────────────────────────────

_SHAPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
}


def _reason(error: Any, path: Sequence[int | str], where: Any) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    match kind:
        case "wrong":
            return str(context["reason"])
        case "missing":
            return f"is missing{_needed(where, path)}"
        case "extra_forbidden":
            return _unknown_key(str(path[-1]), where)
        case "union_tag_invalid" | "union_tag_not_found":
            return _unknown_type(kind, given, path, where)
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}, not {given}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}, not {given}"
        case "too_short" | "string_too_short":
            return "must not be empty"
        case "too_long" | "string_too_long":
            return f"must have at most {context['max_length']} {'characters' if isinstance(given, str) else 'items'}"
        case "literal_error":
            return f"must be {context['expected']}, not {say(given)}"
        case "finite_number":
            return "must be a finite number"
        case "value_error":
            return str(context["error"])
    if shape := _SHAPES.get(kind):
        return f"must be {shape}, not {say(given)}"
    return str(error["msg"])


def _needed(where: Any, path: Sequence[int | str]) -> str:
    field = fields_of(where).get(str(path[-1])) if isinstance(where, type) and issubclass(where, BaseModel) else None
    return f": {field.description}" if field and field.description else ""


def _unknown_key(key: str, where: Any) -> str:
    if not (isinstance(where, type) and issubclass(where, BaseModel)):
        return "is not known here"
    return refusals.unknown(key, "a key here", fields_of(where))


def _unknown_type(kind: str, given: Any, path: Sequence[int | str], where: Any) -> str:
    field = next((part for part in reversed(path) if isinstance(part, str)), "")
    what, made = UNIONS[field], refusals.MADE_BY if field == "spec" else {}
    known = [tag for tag in members(where) if tag != "custom"]
    if "kafka" in known:  # of the specs that are unions, the other one
        what, made = "a type of sink", {}
    if field != "spec":
        known += plugins.known()
    if kind == "union_tag_not_found":
        if not isinstance(given, dict):
            return f"must be a mapping with a type, not {say(given)}"
        return f"has no `type`; it is {what}, one of {', '.join(known)}"
    tag = given.get("type")
    if not isinstance(tag, str):
        return f"`type` must be text, one of {', '.join(known)}, not {say(tag)}"
    if tag in made:
        return refusals.made_by(tag, known)
    return refusals.unknown(tag, what, known)
