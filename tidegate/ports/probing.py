"""Readings of resources that `load` constraints ask for: what the prober asks of a store and of probes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from tidegate.domain.addresses import http_fault
from tidegate.domain.constraints import Gauge
from tidegate.domain.ids import Fence
from tidegate.domain.instants import HOUR, SECOND, Duration, Instant, parse_duration
from tidegate.ports.engine import Membership
from tidegate.ports.records import PoolRecord


class ProberStore(Membership, Protocol):
    async def awaited(self) -> Sequence[str]:
        """Resources (probes and `pool:NAME`) for which somebody waits, in a queue `load:RESOURCE:LIMIT`."""

    async def pools(self) -> Sequence[PoolRecord]:
        """All, by name."""

    async def record_gauge(self, fence: Fence, resource: str, gauge: Gauge, now: Instant) -> None:
        """Replace the last reading. In each of its queues (one for each limit) the first are judged again."""


class Reading(NamedTuple):
    """A number, or why there is none now."""

    value: float | None
    error: str = ""


class Probe(Protocol):
    """Where a resource is read."""

    async def read(self) -> float:
        """A finite number. Raises Unavailable, with why, when there is none now."""


class Probes(Protocol):
    """All probes of the settings."""

    @property
    def every(self) -> Mapping[str, Duration]:
        """The name of each, and how often it is read."""

    async def read(self, names: Collection[str]) -> Mapping[str, Reading]:
        """Read these, at the same time. Raises nothing."""


# ── what the settings say of one ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSpec:
    """`[probes.NAME]` of the settings: what a constraint `{type: load, resource: NAME, below: …}` reads; PROBE_KEYS
    says what each key means."""

    type: str
    url: str = ""
    argv: tuple[str, ...] = ()
    master: str = ""
    value: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    every: Duration = 10 * SECOND
    timeout: Duration = 5 * SECOND

    @classmethod
    def of(cls, name: str, given: Any) -> ProbeSpec:
        """From the settings. Raises ValueError with a sentence for each thing that is wrong."""
        if not isinstance(given, Mapping):
            raise ValueError(f"{name!r} must be a table with at least `type`")
        known = [one.name for one in fields(cls)]
        wrong = [f"{name} knows no {key!r} (known: {', '.join(known)})" for key in given if key not in known]
        if given.get("type") not in _NEEDS:
            wrong.append(f"the `type` of {name} must be one of {', '.join(_NEEDS)}")
        else:
            wrong += [f"{name} {reason}" for reason in _wrong_with(given)]
        spans: dict[str, Duration] = {}
        for key in ("every", "timeout"):
            try:
                spans |= {key: _span(given[key])} if key in given else {}
            except ValueError as fault:
                wrong.append(f"{key} of {name}: {fault}")
        if wrong:
            raise ValueError("; ".join(wrong))
        argv = tuple(given.get("argv", ()))
        return cls(**{**given, **spans, "argv": argv})


PROBE_KEYS = {
    "type": "`http`: what a GET of `url` answers; `command`: what `argv` prints; `spark`: percent of a cluster's cores "
    "in use. What stands here is what a constraint `{type: load, resource: NAME, below: …}` reads",
    "url": "of type `http`: the address",
    "argv": "of type `command`: the command and its arguments, never given to a shell",
    "master": "of type `spark`: the address of the pages of a standalone master or of a YARN resource manager",
    "value": "a JSON pointer to the number, e.g. `/cores/used`; empty: all that is answered is the number",
    "headers": "of the request, by name; `env:NAME` is that environment variable of the scheduler",
    "every": "how often it is read, a second to an hour",
    "timeout": "how long it may take to answer; after that it has no value, and who asks for it waits",
}
_NEEDS = {"http": ("url", "value", "headers"), "command": ("argv", "value"), "spark": ("master", "headers")}
"""What a type needs, first, and what else it may say."""


def _wrong_with(given: Mapping[str, Any]) -> list[str]:
    kind = given["type"]
    needed, *_ = may = _NEEDS[kind]
    found = []
    if not given.get(needed):
        found.append(f"lacks `{needed}`, which a probe of type {kind} needs")
    found += [f"is of type {kind}, which has no `{key}`" for key in ("url", "argv", "master", "value", "headers")
              if key in given and key not in may]  # fmt: skip
    for key in {"url", "master", "value"} & given.keys():
        if not isinstance(given[key], str):
            found.append(f"needs text as `{key}`")
        elif key != "value" and http_fault(given[key]):
            found.append(f"needs an address http://… or https://… as `{key}`, not {given[key]!r}")
        elif key == "value" and given[key] and not given[key].startswith("/"):
            found.append(f"needs a JSON pointer such as /cores/free as `value`, not {given[key]!r}")
    argv = given.get("argv", [])
    if not isinstance(argv, list | tuple) or not all(isinstance(one, str) and one for one in argv):
        found.append('needs a list of texts as `argv`, e.g. ["free-cores", "--cluster", "a"]')
    headers = given.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for one in headers.values()):
        found.append("needs texts by name as `headers`")
    return found


def _span(value: object) -> Duration:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; write it with a unit, like PT30S or 30s")
    span = parse_duration(value)
    if not SECOND <= span <= HOUR:
        raise ValueError("must lie between a second and an hour")
    return span
