"""Preview: the next fires of a schedule, or of a trigger that is not declared, from any instant. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control import schedules
from tidegate.control.common import bounded
from tidegate.domain import fires
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.instants import Instant, parse_instant
from tidegate.domain.triggers import Trigger
from tidegate.ports.control import ControlStore

_FIRST, _LAST = parse_instant("1900-01-01T00:00:00Z"), parse_instant("2200-01-01T00:00:00Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """One fire. `local_time` in the trigger's zone with its offset; `note` says what is special about it."""

    fire_time: Instant
    due: Instant
    local_time: str
    note: str


async def of_schedule(
    store: ControlStore, namespace: str, name: str, *, after: Instant | None = None, count: int = 10
) -> tuple[Previewed, ...]:
    """The next fires after an instant (None: now), as if it were enabled. Raises NotFound, Invalid."""
    record = await schedules.get(store, namespace, name)
    now = await store.now()
    start = now if after is None else after
    last = record.last_fire if record.last_fire is not None and record.last_fire <= start else None
    return _preview(record.spec.trigger, f"{namespace}/{name}", start, count, last)


async def of_trigger(
    store: ControlStore, trigger: Trigger, *, after: Instant | None = None, count: int = 10
) -> tuple[Previewed, ...]:
    """The same of a trigger that is not declared; its jitter is unknown, since it depends on the schedule's name."""
    return _preview(trigger, None, await store.now() if after is None else after, count, None)


def _preview(
    trigger: Trigger, name: str | None, after: Instant, count: int, last_fire: Instant | None
) -> tuple[Previewed, ...]:
    if not _FIRST <= after < _LAST:
        raise Invalid([Fault("after", "must lie between the years 1900 and 2199")], what="the request")
    found = fires.preview(trigger, after, bounded(count), last_fire=last_fire)
    return tuple(
        Previewed(
            fire_time=one.fire_time,
            due=one.fire_time if name is None else fires.due(name, trigger, one.fire_time),
            local_time=one.local_time,
            note=one.note,
        )
        for one in found
    )
