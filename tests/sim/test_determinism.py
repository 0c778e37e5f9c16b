"""The same seed does the same things, to the byte, in whatever process it runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidegate.domain.instants import MINUTE
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.workload import Size

SCRIPT = """
from tidegate.domain.instants import MINUTE
from tidegate.sim.feeds import Feeds
from tidegate.sim.run import Scenario, simulate
from tidegate.sim.workload import Size
print(simulate(11, Scenario(span=8 * MINUTE, size=Size(every=MINUTE), feeds=Feeds())).history.digest)
"""


def _digest(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_a_seed_has_one_history_whatever_the_hash_seed() -> None:
    assert _digest("1") == _digest("4242")


def test_seeds_differ() -> None:
    scenario = Scenario(span=3 * MINUTE, size=Size(every=MINUTE))
    assert simulate(1, scenario).history.digest != simulate(2, scenario).history.digest


def test_a_failure_names_its_seed_and_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.sim import __main__ as command
    from tidegate.sim.history import Violation
    from tidegate.sim.run import Verdict

    def broken(seed: int, scenario: Scenario) -> Verdict:
        verdict = simulate(seed, scenario)
        return Verdict(verdict.history, (Violation("one_outcome", "for the test"),), verdict.asked)

    monkeypatch.setattr(command, "simulate", broken)
    assert command.main(["--seed", "5", "--hours", "0.02"]) == 1
    said = capsys.readouterr().out
    assert "VIOLATED one_outcome: for the test" in said
    assert "python -m tidegate.sim --seed 5 --hours 0.02" in said
