"""The eight scenarios through REST: each at full length in virtual time and scaled on the real system; alone, and all
of them together in a long run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from control.conftest import NoLogs
from doors.running import tidegate_up
from fastapi import FastAPI

from tidegate.api.app import create_app
from tidegate.api.context import Doors
from tidegate.sim.memory import MemoryStore
from tidegate.sim.testing import World

from .life import LIFE
from .stages import Cast, Real, Story, Virtual, play, play_at_once
from .stories import SCENARIOS

MARKS = ("GATE-6", "LIFE-1", "LIFE-6", "LIFE-4", "GATE-4", "DATA-5", "LIFE-5", "GATE-17")
each = pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, id=f"{number}-{one.__name__}", marks=pytest.mark.requirement(f"SCEN-{number}", mark))
        for number, (one, mark) in enumerate(zip(SCENARIOS, MARKS, strict=True), start=1)
    ],
)


@pytest.fixture(scope="session")
def doors() -> FastAPI:
    return create_app(Doors(store=MemoryStore(lambda: 0), logs=NoLogs()))


@pytest.fixture
def virtual(doors: FastAPI) -> Virtual:
    world = World(at="2026-03-28T21:00Z")  # the night in which clocks are put forward
    doors.state.doors = Doors(store=world._sim.store, logs=NoLogs())
    return Virtual(world, doors)


lives = pytest.mark.parametrize("story", [pytest.param(one, id=one.__name__) for one in LIFE])


@pytest.mark.requirement("LIFE-2", "LIFE-3", "LIFE-4")
@lives
def test_lives_at_full_length_in_virtual_time(virtual: Virtual, story: Callable[[Cast], Story]) -> None:
    play(virtual, story(Cast(virtual, "life")))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.requirement("LIFE-2", "LIFE-3", "LIFE-4")
def test_lives_on_the_real_system(real: Real) -> None:
    play_at_once(real, *(story(Cast(real, f"life-{number}")) for number, story in enumerate(LIFE)))
    assert real.ask("GET", "/audit/ledger").json()["holds"]


@each
def test_at_full_length_in_virtual_time(virtual: Virtual, scenario: Callable[[Cast], Story]) -> None:
    play(virtual, scenario(Cast(virtual, "story")))


@pytest.mark.slow
@pytest.mark.requirement("GATE-17", "LIFE-7")
def test_all_of_them_together_again_and_again(virtual: Virtual) -> None:
    rng = random.Random(5)

    def season(scenario: Callable[[Cast], Story], number: int) -> Story:
        for episode in range(6):
            yield rng.randrange(0, 2_400_000_000)
            yield from scenario(Cast(virtual, f"s{number}-{episode}"))

    play(virtual, *(season(one, number) for number, one in enumerate(SCENARIOS, start=1)))
    assert virtual.ask("GET", "/audit/ledger").json()["holds"]


# ── the real system ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with tidegate_up(tmp_path_factory.mktemp("scenarios") / "home") as up:
        stage = Real(up)
        with closing(stage.http):
            yield stage


@pytest.mark.slow
@pytest.mark.timeout(240)
@each
def test_scaled_on_the_real_system(real: Real, scenario: Callable[[Cast], Story]) -> None:
    play(real, scenario(Cast(real, f"alone-{SCENARIOS.index(scenario) + 1}")))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.requirement("GATE-17", "LIFE-7")
def test_all_of_them_together_on_the_real_system(real: Real) -> None:
    stories = [scenario(Cast(real, f"together-{number}")) for number, scenario in enumerate(SCENARIOS, start=1)]
    play_at_once(real, *stories)
    assert real.ask("GET", "/audit/ledger").json()["holds"]
