"""With very many tables maintenance keeps neither the scheduler's loop nor a transaction for long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engine.care import COMPACT, FLIGHTS, CareWorld
from engine.worlds import crank

from tidegate.control import care, policies, programs, tables
from tidegate.documents import deciding, parsing, picture
from tidegate.documents.declared import Program
from tidegate.documents.table_sentences import why
from tidegate.domain.errors import Conflict, Refused
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import MINUTE, Instant
from tidegate.domain.maintenance import decision
from tidegate.engine.caretaker import Caretaker, CaretakerSettings
from tidegate.ports.control import ControlTx
from tidegate.ports.maintaining import Wish
from tidegate.ports.tables import Measured
from tidegate.sim.memory.lake_tables import TablesReading

TABLES = 120
BUDGET = {"operations": 3}


class Stretches:
    """How many tables are predicted for, and decided about, between two turns of all else; and in a transaction."""

    def __init__(self, world: CareWorld, patch: pytest.MonkeyPatch) -> None:
        self.world, self.inside = world, False
        self.now = dict.fromkeys(("predicted", "decided"), 0)
        self.longest, self.held, self.total = dict(self.now), dict(self.now), dict(self.now)
        store: Any = world.store
        predict, decide, changing = deciding.predict, decision.decide, store.changing
        patch.setattr(deciding, "predict", lambda *given: self.count("predicted", predict(*given)))
        for module in ("documents.picture", "domain.maintenance.choosing"):
            patch.setattr(f"tidegate.{module}.decide", lambda *given: self.count("decided", decide(*given)))

        async def breathe() -> None:
            self.now = dict.fromkeys(self.now, 0)

        @asynccontextmanager
        async def watched() -> AsyncIterator[Any]:
            self.inside = True
            try:
                async with changing() as tx:
                    yield tx
            finally:
                self.inside = False

        patch.setattr(store, "breathe", breathe, raising=False)
        patch.setattr(store, "changing", watched)

    def count(self, kind: str, answer: Any) -> Any:
        self.now[kind] += 1
        self.total[kind] += 1
        self.longest[kind] = max(self.longest[kind], self.now[kind])
        self.held[kind] += self.inside
        return answer


@pytest.fixture
def world() -> CareWorld:
    world = CareWorld()
    world.policy(operations=COMPACT, budget=BUDGET)
    for number in range(TABLES):
        world.write(table=f"lake.raw.t{number}")
    world.pass_time(MINUTE)
    world.step(world.assessor)
    return world


@pytest.mark.requirement("CARE-13")
def test_a_pass_over_many_tables_is_taken_in_slices_and_no_transaction_thinks(
    world: CareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Stretches(world, monkeypatch)
    world.step(world.caretaker)
    assert len(world.open()) == 3
    assert seen.total["decided"] >= TABLES and seen.total["predicted"] >= TABLES
    assert seen.longest["decided"] <= picture.SLICE and seen.longest["predicted"] <= 2
    assert seen.held["decided"] == 3 and seen.held["predicted"] == 0


def test_what_did_not_change_is_neither_read_nor_predicted_again(
    world: CareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.step(world.caretaker)
    seen = Stretches(world, monkeypatch)
    world.write(table="lake.raw.t7")
    world.pass_time(MINUTE)
    world.step(world.assessor)
    before = seen.total["predicted"]
    world.step(world.caretaker)
    assert seen.total["predicted"] == before + 1


def test_what_changed_after_it_was_decided_about_is_not_started_by_the_old_figures(
    world: CareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the decision and the lock one of the chosen is measured anew: it has no small files any more."""
    decided = picture.Picture.decided
    compacted = []

    async def slowly(self: picture.Picture, *given: Any) -> picture.Decided:
        found = await decided(self, *given)
        chosen = sorted(name for name, some in found.decisions.items() if some[0].verdict is decision.Verdict.RUN)
        (record,) = await world.store.tables([chosen[0]])
        async with world.store.changing() as tx:
            health = {**(record.health or {}), "small_files": 0}
            await tx.record_health([Measured(table=chosen[0], location="later", health=health)], world.now)
        compacted.append(chosen[0])
        return found

    monkeypatch.setattr(picture.Picture, "decided", slowly)
    world.step(world.caretaker)
    assert compacted and len(world.open()) == 2
    assert compacted[0] not in {one.order.table for one in world.open()}


def test_more_than_one_transaction_may_start_are_started_at_once_in_several(world: CareWorld) -> None:
    world.policy(operations=COMPACT)
    world.caretaker._settings = CaretakerSettings(most=50)
    for number in (50, 100, 120):
        outcome = crank(world.caretaker.step(world.now))
        assert len(world.open()) == number and outcome.left == (number < TABLES)


def test_what_a_budget_holds_is_put_on_record_for_all_of_many_tables(world: CareWorld) -> None:
    world.step(world.caretaker)
    held = [one for one in crank(world.store.care()).values() if one["rewrite_data_files"].get("held_at")]
    assert len(held) == TABLES - 3
    assert FLIGHTS not in crank(world.store.care())


def test_a_table_whose_start_is_refused_takes_no_other_along_and_is_told_of_once(world: CareWorld) -> None:
    world.policy(operations=COMPACT)
    refused = "lake.raw.t3"

    async def start(tx: ControlTx, wish: Wish, now: Instant) -> RunKey:
        run = await care.begin(tx, wish, now)
        if wish.table == refused:
            raise Conflict("the name is another's")
        return run

    caretaker = Caretaker(world.store, start, world.fence, CaretakerSettings(most=TABLES))
    outcome = crank(caretaker.step(world.now))
    assert outcome.did == TABLES - 1 == len(world.open()) and refused not in {one.order.table for one in world.open()}
    assert [note.split()[0] for note in outcome.notes] == [refused] and "another's" in outcome.notes[0]
    world.pass_time(MINUTE)
    other = Caretaker(world.store, start, world.fence, CaretakerSettings(most=TABLES))
    assert crank(caretaker.step(world.now)).notes == crank(other.step(world.now)).notes == ()
    (shown,) = crank(tables.status(world.store, refused)).decisions
    assert (shown.verdict, shown.blocks[0].by) == (decision.Verdict.WAIT, decision.Blocker.CONSTRAINT)
    assert "not tried again until" in why(shown) and "the name is another's" in why(shown)
    world.pass_time(5 * MINUTE)
    assert len(crank(caretaker.step(world.now)).notes) == 1, "it is tried again"


def test_nobody_takes_the_name_of_the_program_that_maintains_tables(world: CareWorld) -> None:
    document = {"kind": "Program", "metadata": {"namespace": "maintenance", "name": "maintenance"}}
    parsed = parsing.parse({"apiVersion": "tidegate/v1", **document, "spec": {"type": "command", "argv": ["true"]}})
    assert isinstance(parsed, Program)
    with pytest.raises(Refused, match="maintains tables"):
        crank(programs.put(world.store, parsed, who="ann"))
    world.step(world.caretaker)
    assert len(world.open()) == 3


def test_the_doors_read_no_more_tables_than_they_show(world: CareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read = TablesReading.tables, list[Any]()

    async def counted(self: TablesReading, names: Any = None, **given: Any) -> Any:
        found = await asked(self, names, **given)
        read.extend(found)
        return found

    monkeypatch.setattr(TablesReading, "tables", counted)  # of the store, and of its transactions
    first = crank(tables.page(world.store, limit=7))
    second = crank(tables.page(world.store, cursor=first.next, limit=7))
    shown = [one.record.table for one in (*first.items, *second.items)]
    assert shown == sorted(f"lake.raw.t{number}" for number in range(TABLES))[:14] and len(read) == 14
    assert crank(policies.reach(world.store))["nightly"][0].tables == TABLES and len(read) == 14
    crank(tables.maintain(world.store, shown[0], who="ann"))
    assert len(read) == 15


@pytest.mark.requirement("CARE-8")
def test_a_status_reads_only_what_changed_since_the_last_one(world: CareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.status("lake.raw.t1")
    seen = Stretches(world, monkeypatch)
    world.status("lake.raw.t2")
    assert seen.total["predicted"] <= 2 and seen.longest["decided"] <= picture.SLICE
