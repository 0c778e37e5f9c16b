"""Values to canonical JSON and back: how specs are stored.

Generic over frozen dataclasses: a field's annotation says how it is read. A member of a union of dataclasses carries
its `TYPE` as `type`. Canonical means that equal values give equal text (keys sorted, no spaces, every field written
out, so that a later change of a default does not change what was declared), so texts can be compared, digested and
cached. Fields that a newer version left out of the text take their default; unknown ones are an error.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tidegate.domain.programs import ProgramSpec
from tidegate.domain.schedules import ScheduleSpec

T = TypeVar("T")
_Read = Callable[[Any], Any]
_SHARED_PARTS = 4096


def encode(value: object) -> str:
    """The canonical text of a dataclass, or of plain JSON."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def decode(kind: object, text: str) -> Any:
    """The value behind a canonical text. `kind` is a dataclass or a union of tagged ones."""
    read = _reader(kind)
    found = json.loads(text)
    return read(found) if read else found


@lru_cache(maxsize=20_000)
def decode_schedule(text: str) -> ScheduleSpec:
    """A schedule's spec; equal texts share one value."""
    return cast(ScheduleSpec, decode(ScheduleSpec, text))


@lru_cache(maxsize=20_000)
def decode_program(text: str) -> ProgramSpec:
    """A program's spec; equal texts share one value."""
    return cast(ProgramSpec, decode(ProgramSpec, text))


def to_json(value: object) -> str | None:
    """The text of a jsonb parameter; None stays null."""
    return None if value is None else _ENCODER.encode(value)


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        tag = getattr(value, "TYPE", None)
        return fields if tag is None else {"type": tag, **fields}
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case frozenset():
            return sorted(map(_plain, value))
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_plain)


@cache
def _reader(kind: object) -> _Read | None:
    """How a value of this type is read from JSON; None where it is there already."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_reader(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return cast(_Read, kind._value2member_map_.__getitem__)
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return _union_reader([member for member in arguments if member is not types.NoneType])
    if get_origin(kind) in (tuple, frozenset):
        made, item = cast(type, get_origin(kind)), _reader(arguments[0])
        return (lambda found: made(map(item, found))) if item else made
    return None


def _dataclass_reader(kind: type) -> _Read:
    special: list[tuple[str, _Read]] | None = None  # found when first needed: triggers are made of triggers
    known: dict[tuple[tuple[str, ...], tuple[Any, ...]], Any] = {}

    def read_fields(found: dict[str, Any]) -> Any:
        """Equal parts share one value: most policies of most schedules are the defaults."""
        nonlocal special
        if special is None:
            hints = get_type_hints(kind)
            readers = [(field.name, _reader(hints[field.name])) for field in dataclasses.fields(kind)]
            special = [(name, read) for name, read in readers if read is not None]
        key: tuple[tuple[str, ...], tuple[Any, ...]] | None = (tuple(found), tuple(found.values()))
        try:
            shared = known.get(key) if key else None
        except TypeError:  # it holds lists or objects
            key, shared = None, None
        if shared is not None:
            return shared
        found.pop("type", None)
        for name, read in special:
            value = found.get(name)
            if value is not None:
                found[name] = read(value)
        made = kind(**found)
        if key is not None and len(known) < _SHARED_PARTS:
            known[key] = made
        return made

    return read_fields


def _union_reader(members: list[Any]) -> _Read | None:
    if len(members) == 1:
        return _reader(members[0])
    tagged = {member.TYPE: _reader(member) for member in members if hasattr(member, "TYPE")}
    if not tagged:
        return None

    def read_tagged(found: dict[str, Any]) -> Any:
        read = tagged[found["type"]]
        assert read is not None
        return read(found)

    return read_tagged
