"""One real broker for all of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .broker import Broker, NoBroker


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        made.start()
    except NoBroker as why:
        pytest.skip(str(why))
    yield made
    made.kill()
