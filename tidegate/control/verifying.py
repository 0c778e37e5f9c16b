"""Contradictions in what is declared, against everything that is stored or declared with it: warnings, or with
`strict` a refusal. Read beside the transaction: they are advice, and nothing is decided by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.documents.declared import Declaration, Pool, Program, Schedule
from tidegate.domain.constraints import POOL, Blackout, Concurrency, Load
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.schedules import ScheduleSpec
from tidegate.domain.verification import Around, awaited, verify
from tidegate.ports.control import ControlStore

_SPARK = ("pyspark", "spark_sql")


@dataclass(frozen=True, slots=True)
class _About:
    """What is known of a program."""

    groups: tuple[str, ...]
    pool: str


async def warnings(
    store: ControlStore,
    schedules: Sequence[Schedule],
    beside: Iterable[Declaration] = (),
) -> Mapping[tuple[str, str], tuple[Fault, ...]]:
    """What contradicts itself, by (namespace, name); schedules without warnings are left out. `beside`: documents that
    are declared with them."""
    others = list(beside)
    pools, calendars = await _resources(store, schedules, others)
    known: dict[tuple[str, str], _About] = {}
    for one in others:
        if isinstance(one, Program):
            pool = one.spec.pool or ("spark" if one.spec.TYPE in _SPARK else "default")
            known[one.metadata.namespace, one.metadata.name] = _About(one.spec.groups, pool)
    starts = await _starts(store, schedules)
    now = await store.now()
    found: dict[tuple[str, str], tuple[Fault, ...]] = {}
    for one in schedules:
        namespace, program = one.metadata.namespace, one.spec.program
        about = known.get((namespace, program))
        if about is None and _asks(one.spec):
            record = await store.program(namespace, program)
            about = None if record is None else _About(record.ref.spec.groups, record.ref.pool)
            known[namespace, program] = about or _About((), "default")
        around = Around(
            program=f"{namespace}/{program}",
            program_groups=about.groups if about else (),
            pool=about.pool if about else "",
            pools=pools,
            calendars=calendars,
            starts=starts,
        )
        if faults := verify(one.spec, around, now):
            found[namespace, one.metadata.name] = tuple(faults)
    return found


def refuse(faults: Iterable[Fault], what: str) -> None:
    """Under `strict`: raises Invalid when there is any."""
    listed = list(faults)
    if listed:
        raise Invalid(listed, what=what)


def _asks(spec: ScheduleSpec) -> bool:
    """Whether anything is compared with what its program says; the default limit of one is below any pool's."""
    return any(isinstance(one, Concurrency) and (one.max > 1 or ":" in one.scope) for one in spec.constraints)


async def _resources(
    store: ControlStore, schedules: Sequence[Schedule], beside: Sequence[Declaration]
) -> tuple[dict[str, int], frozenset[str]]:
    """By pool the slots that its runs may have, borrowed ones included, and names of calendars, where anything asks for
    them."""
    constraints = [one for schedule in schedules for one in schedule.spec.constraints]
    pools: dict[str, int] = {}
    if any(isinstance(one, Load) and one.resource.startswith(POOL) for one in constraints) or any(
        _asks(one.spec) for one in schedules
    ):
        pools = {one.name: one.slots + (one.borrow[1] if one.borrow else 0) for one in await store.pools()}
    declared = [one for one in beside if isinstance(one, Pool)]
    pools |= {one.metadata.name: one.slots + (one.borrow[1] if one.borrow else 0) for one in declared}
    calendars = {one.metadata.name for one in beside if one.KIND == "Calendar"}
    if any(isinstance(one, Blackout) for one in constraints):
        calendars |= {calendar.name for calendar, _ in await store.calendars()}
    return pools, frozenset(calendars)


async def _starts(store: ControlStore, schedules: Sequence[Schedule]) -> dict[str, list[tuple[str, str]]]:
    """program -> programs that are started by its runs, and by which schedule."""
    if not any(True for one in schedules for _ in awaited(one.spec.trigger)):
        return {}
    mine = {(one.metadata.namespace, one.metadata.name) for one in schedules}
    edges = [(one.metadata.namespace, one.metadata.name, one.spec) for one in schedules]
    cursor: str | None = None
    while True:
        page = await store.schedules(None, cursor, 1000)
        stored = ((one.metadata.namespace, one.metadata.name, one.spec) for one in page)
        edges += [one for one in stored if one[:2] not in mine]
        if len(page) < 1000:
            break
        cursor = str(page[-1].id)
    found: dict[str, list[tuple[str, str]]] = {}
    for namespace, name, spec in edges:
        for _, program in awaited(spec.trigger):
            found.setdefault(program, []).append((f"{namespace}/{spec.program}", f"{namespace}/{name}"))
    return found
