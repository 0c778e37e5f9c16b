"""Sinks: where the event log is delivered to, outside of Tidegate.

A sink takes the events whose type one of its `topics` names, in the order in which they happened to each schedule. Its
place in the log is one position: what lies up to there was delivered, was set aside, or is not for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

KINDS = ("kafka", "webhook", "table")
EVERYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """What a document says of one. Which of the fields a type has: `documents.sinks`.

    `secret` and values of `options` are references (`env:NAME`, `file:PATH`) where they are secret: no stored document
    holds a password.
    """

    type: str
    topics: tuple[str, ...] = (EVERYTHING,)
    servers: str = ""
    topic: str = ""
    url: str = ""
    table: str = ""
    secret: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def wants(self, type: str) -> bool:
        """Whether events of this type are for it."""
        return any(fnmatchcase(type, pattern) for pattern in self.topics)
