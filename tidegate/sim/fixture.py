"""The pytest plugin: one fixture, `world`, a Tidegate in virtual time for tests of users' applications.

Loaded by every pytest run where Tidegate is installed, so it imports nothing but pytest until a test asks for a world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidegate.sim.testing import World


@pytest.fixture
def world() -> World:
    """A fresh Tidegate on a virtual clock: `world.deploy(app, at=...)`, `world.advance("1m")`, `world.runs("name")`."""
    from tidegate.sim.testing import World

    return World()
