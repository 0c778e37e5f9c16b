"""examples/backends.py, as people deploy it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.sdk.loading import load_apps
from tidegate.sim.testing import World

FILE = Path(__file__).resolve().parents[2] / "examples" / "backends.py"


@pytest.mark.requirement("RUN-10")
def test_an_event_at_a_fire_starts_who_listens() -> None:
    world = World(execute=True)
    [app] = load_apps(str(FILE))
    world.deploy(app, at="2026-03-29T00:00Z")
    world.advance("1d")
    [told] = world.runs("settle-eu")
    [heard] = world.runs("statement")
    [called] = world.runs("refresh-eu")
    [submitted] = world.runs("settle-lake")
    assert (submitted.state, submitted.arguments) == ("succeeded", {"region": "eu"})
    assert (told.state, heard.state, called.state) == ("succeeded", "succeeded", "succeeded")
    assert heard.created_at == told.finished_at == told.fire_time
