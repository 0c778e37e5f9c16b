"""Into which partitions of the current spec the rows of a file go that was written under an older one.

A rewrite divides such files, so how many it writes depends on that. The bounds of a file's columns tell it, as ranges:
rows are thought to lie everywhere between. Where they may lie far apart (numbers of customers, texts) nothing is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from zlib import crc32

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    VoidTransform,
    YearTransform,
    parse_transform,
)
from pyiceberg.types import PrimitiveType

Box: TypeAlias = tuple[tuple[int, int], ...]
"""For each field of the current spec the lowest and the highest partition value, counted in whole numbers."""
_WIDEST = 1_000
"""Of values in one file that are counted one by one: more are hardly dense."""
_TIMES = (YearTransform, MonthTransform, DayTransform, HourTransform)


class Reach:
    """The current spec of a table, as far as it divides anything."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """`metadata`: a table's metadata file, as JSON. Raises ValueError, KeyError for what it should not hold."""
        self.spec: int = metadata.get("default-spec-id", 0)
        specs = metadata.get("partition-specs") or ()
        fields = next((one["fields"] for one in specs if one["spec-id"] == self.spec), ())
        self._fields: list[tuple[int, Transform[Any, Any], PrimitiveType]] = []
        if len(specs) < 2 or not fields:
            return
        schemas = metadata.get("schemas") or [metadata["schema"]]
        current = metadata.get("current-schema-id", 0)
        schema = Schema.model_validate(next(one for one in schemas if one.get("schema-id", 0) == current))
        for one in fields:
            transform: Transform[Any, Any] = parse_transform(one["transform"])
            kind = schema.find_type(one["source-id"])
            if not isinstance(transform, VoidTransform) and isinstance(kind, PrimitiveType):
                self._fields.append((one["source-id"], transform, kind))

    def asks(self, spec: int) -> bool:
        """Whether files of that spec would be divided."""
        return bool(self._fields) and spec != self.spec

    def box(self, lower: Mapping[int, bytes] | None, upper: Mapping[int, bytes] | None) -> Box | None:
        """Where the rows of a file with these bounds go; None: nobody knows."""
        found = []
        for source, transform, kind in self._fields:
            least, most = (lower or {}).get(source), (upper or {}).get(source)
            if least is None or most is None:
                return None
            span = _span(transform, kind, from_bytes(kind, least), from_bytes(kind, most), same=least == most)
            if span is None or span[1] - span[0] >= _WIDEST:
                return None
            found.append(span)
        return tuple(found)


def _span(transform: Transform[Any, Any], kind: Any, least: Any, most: Any, *, same: bool) -> tuple[int, int] | None:
    of = transform.transform(kind)
    first, last = of(least), of(most)
    if isinstance(transform, BucketTransform):
        return (first, first) if same else (0, transform.num_buckets - 1)
    if isinstance(transform, _TIMES) or (type(first) is int and type(last) is int):
        return int(first), int(last)
    code = crc32(str(first).encode())
    return (code, code) if first == last else None
