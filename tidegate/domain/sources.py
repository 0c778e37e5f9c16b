"""Sources: messages of other systems that become events.

A source reads partitions of topics, each from one place on. What a message becomes is said by templates
(`domain.templates`), which see of it:

    topic, partition, offset          where it lies
    key                               its key as text, or null
    value                             its value: of JSON as it is (`value.order.id`), or as text; null where it has none
    time                              its own time, RFC 3339 in UTC, or null
    headers                           by name, as text (`headers.trace`); of one that comes again the last
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.domain.instants import Instant

ROOTS = ("topic", "partition", "offset", "key", "value", "time", "headers")
"""What templates of a source may name."""
OLDEST, NEWEST = "oldest", "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventShape:
    """What of a message is an event's type, key, payload, time and id: templates. `id` empty: it gets none."""

    type: str
    key: str
    payload: Any = "{{ value }}"
    time: str = "{{ time }}"
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """What a document says of one: see `documents.sources`.

    `begin`: where a partition of a topic is begun that was never looked at. `secret` and values of `options` are
    references (`env:NAME`, `file:PATH`) where they are secret.
    """

    type: str
    servers: str
    topics: tuple[str, ...]
    event: EventShape
    format: Literal["json", "text"] = "json"
    begin: str = NEWEST
    secret: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A message as it was read. `at`: its own time (its producer's or its broker's)."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    at: Instant | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")
