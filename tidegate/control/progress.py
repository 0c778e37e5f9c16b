"""What a schedule's trigger has collected, what it lacks, and whether it can be satisfied at all.

By the code that decides: what is acknowledged by now is folded in as the matcher would, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.control import schedules
from tidegate.control.common import LIMIT, Page, bounded
from tidegate.domain import events
from tidegate.domain.collected import Deadline
from tidegate.domain.errors import TidegateError
from tidegate.domain.explaining import Explained, explain
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.progress import advance
from tidegate.domain.triggers import (
    All,
    AnyOf,
    DataSize,
    Happened,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Then,
    Trigger,
    below,
    nodes,
)
from tidegate.ports.collecting import Collecting
from tidegate.ports.control import ControlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """`tree`: None where it could not be evaluated, then `why` says why. `next_check_at`: when silence alone will next
    be looked at. `satisfied`: it fires in a moment."""

    namespace: str
    schedule: str
    satisfied: bool
    tree: Explained | None
    why: str
    fired_at: Instant | None
    next_check_at: Instant | None
    deadlines: tuple[Deadline, ...] = ()
    unsatisfiable: str | None = None


async def of_schedule(store: ControlStore, namespace: str, name: str) -> Gathered | None:
    """None for a schedule that collects nothing now: by its trigger, or since it rests. Raises NotFound."""
    record = await schedules.get(store, namespace, name)
    now = await store.now()
    found = await store.collected([record.id], now)
    if not found:
        return None
    return _gathered(found[0], now, await unsatisfiable(store, found[0].revision.spec.trigger))


async def page(
    store: ControlStore, namespace: str | None, *, cursor: str | None = None, limit: int = LIMIT
) -> Page[Gathered]:
    """Triggers that are partly satisfied: what the queue shows beside waiting runs."""
    ids, onward = await store.partly(namespace, cursor, bounded(limit))
    now = await store.now()
    found = await store.collected(ids, now) if ids else ()
    return Page(tuple(_gathered(one, now, None) for one in found), onward)


def _gathered(one: Collecting, now: Instant, impossible: str | None) -> Gathered:
    namespace, _, name = one.name.partition("/")
    trigger = one.revision.spec.trigger
    try:
        done = advance(trigger, one.progress, one.bulk, one.given, one.facts)
        tree = explain(trigger, done.progress, one.facts, now, done.deadlines)
    except TidegateError as error:
        return Gathered(
            namespace=namespace,
            schedule=name,
            satisfied=False,
            tree=None,
            why=str(error),
            fired_at=one.progress.fired_at,
            next_check_at=None,
            unsatisfiable=impossible,
        )
    return Gathered(
        namespace=namespace,
        schedule=name,
        satisfied=bool(done.fires),
        tree=tree,
        why=tree.why,
        fired_at=done.progress.fired_at,
        next_check_at=min((deadline.at for deadline in done.deadlines), default=None),
        deadlines=done.deadlines,
        unsatisfiable=impossible,
    )


# ── what can never be satisfied ────────────────────────────────────────────────────────────────────────────────────


async def unsatisfiable(store: ControlStore, trigger: Trigger) -> str | None:
    """Why a tree cannot be satisfied as things stand, since it names a program that does not exist; None if it can."""
    missing = await _missing(store, [trigger])
    dead = _dead(trigger, missing)
    return None if dead is None else f"{dead}. It goes on by itself when there is one."


async def unsatisfiable_of(store: ControlStore, triggers: Mapping[ScheduleId, Trigger]) -> Mapping[ScheduleId, str]:
    """The same for many; those that can be satisfied are left out."""
    missing = await _missing(store, list(triggers.values()))
    found = {schedule: _dead(trigger, missing) for schedule, trigger in triggers.items()} if missing else {}
    return {schedule: f"{why}. It goes on by itself when there is one." for schedule, why in found.items() if why}


async def _missing(store: ControlStore, triggers: Sequence[Trigger]) -> frozenset[str]:
    """Programs and tables that are named and not there; a table is only known to be missing once it was looked for."""
    leaves = [node for one in triggers for node in nodes(one)]
    gone = set()
    for whole in sorted({leaf.program for leaf in leaves if isinstance(leaf, ProgramStatus)}):
        namespace, _, name = whole.partition("/")
        if await store.program(namespace, name) is None:
            gone.add(f"program {whole}")
    named = sorted({dataset for leaf in leaves if (dataset := _dataset(leaf)) is not None})
    if named:
        gone |= {f"table {one.name}" for one in await store.datasets(named) if one.missing}
    return frozenset(gone)


def _dataset(leaf: Trigger) -> str | None:
    match leaf:
        case Partition() | DataSize():
            return leaf.dataset
        case Happened(event=events.DATASET_UPDATED):
            return leaf.key
    return None


def _dead(trigger: Trigger, missing: frozenset[str]) -> str | None:
    """What keeps it from ever being satisfied: `any` only loses a leg, `all` needs every one."""
    match trigger:
        case ProgramStatus() if f"program {trigger.program}" in missing:
            return f"there is no program {trigger.program}"
        case Partition() | DataSize() | Happened() if f"table {_dataset(trigger)}" in missing:
            return f"there is no table {_dataset(trigger)}"
        case All(max_wait=int(), then=Then.RUN):
            every = [_dead(leg, missing) for leg in trigger.triggers]
            return every[0] if all(every) else None  # it runs with what there is
        case All() | Quiet():
            return next((why for leg in below(trigger) if (why := _dead(leg, missing))), None)
        case AnyOf() | NOf():
            whys = [why for leg in trigger.triggers if (why := _dead(leg, missing))]
            needed = trigger.n if isinstance(trigger, NOf) else 1
            return whys[0] if len(trigger.triggers) - len(whys) < needed else None
    return None
