"""The keys of a spec in the order in which people write them: databases keep none."""

from __future__ import annotations

from typing import Any

from tidegate.domain.schedules import JsonObject

ORDER = (
    *("type", "enabled", "program", "entry", "sql", "argv", "arguments", "conf", "environment", "isolation", "pool"),
    *(
        "priority",
        "groups",
        "trigger",
        "triggers",
        "constraints",
        "waiting",
        "catch_up",
        "retry",
        "timeout",
        "deadline",
    ),
    *(
        "max_attempts",
        "expression",
        "every",
        "anchor",
        "timezone",
        "seconds",
        "dst_gap",
        "dst_overlap",
        "delay",
        "time",
        "every_days",
    ),
    *(
        "days",
        "earliest",
        "latest",
        "dataset",
        "bytes",
        "rows",
        "count",
        "changed",
        "event",
        "key",
        "match",
        "outcomes",
    ),
    *("since", "after", "n", "for", "max_wait", "start", "end", "jitter", "latch", "policy", "runs", "grace", "window"),
    *("resource", "below", "calendar", "duration", "stop_at_end", "finish", "from"),
    *("factor", "max_delay", "max", "per", "scope", "run", "then", "unmet"),
)
"""How the keys of a spec follow each other, since a database keeps no order; others come after them."""
_RANK = {key: rank for rank, key in enumerate(ORDER)}
FREE = frozenset({"arguments", "conf", "environment", "match", "labels"})
"""What stands below these keys is not ours to arrange."""


def ordered(spec: JsonObject) -> dict[str, Any]:
    """A spec with its keys in the order in which people write them."""
    keys = sorted(spec, key=lambda key: _RANK.get(key, len(ORDER)))
    return {key: spec[key] if key in FREE else _ordered(spec[key]) for key in keys}


def _ordered(value: Any) -> Any:
    match value:
        case dict():
            return ordered(value)
        case list():
            return [_ordered(one) for one in value]
        case _:
            return value
