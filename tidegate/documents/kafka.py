"""What sinks and sources have in common where they speak to Kafka."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from tidegate.documents.scalars import wrong
from tidegate.domain.addresses import servers_fault

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _servers(servers: str) -> str:
    if reason := servers_fault(servers):
        raise wrong(reason)
    return servers


def _topic(topic: str) -> str:
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise wrong(f"{topic!r} is no name of a Kafka topic: 1 to 249 letters, digits, '.', '_' and '-'")
    return topic


Servers = Annotated[
    str,
    Field(description="its bootstrap servers, `host:port, host:port`", min_length=1, max_length=4000),
    AfterValidator(_servers),
]
Topic = Annotated[str, AfterValidator(_topic)]
