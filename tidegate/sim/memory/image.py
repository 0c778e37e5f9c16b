"""What a standby has: an image of everything committed, and a database that goes on from an older one.

Committed rows are never changed, so that an image copies containers and no row. What belongs to the living server
(locks, sessions, open transactions) is not in it.
"""

from __future__ import annotations

from typing import Any

from tidegate.sim.memory.data import Data
from tidegate.sim.memory.tables import Ordered, Table

OF_THE_SERVER = frozenset(
    {"by_number", "wait", "listeners", "deadlocks", "sharers", "drawing", "sessions", "looked", "server"}
)

Image = dict[str, Any]


def image(data: Data) -> Image:
    """All that is committed at this moment."""
    return {name: _copied(value) for name, value in vars(data).items() if name not in OF_THE_SERVER}


def go_on_from(data: Data, old: Image) -> None:
    """The database is as it was then. Nobody may have a transaction open. Who follows the rows of a table that is no
    index (what people declare) is told what became of them."""
    for name, value in old.items():
        table = getattr(data, name)
        if isinstance(table, Table):
            before, table.rows = table.rows, value
            if table.follow is not None and getattr(table.follow, "__self__", None) is not data:
                for key in {**before, **value}:
                    if before.get(key) is not value.get(key):
                        table.follow(before.get(key), value.get(key))
        else:
            setattr(data, name, value)
    data.sessions = {number: None for number in data.here if number in data.sessions}


def _copied(value: Any) -> Any:
    match value:
        case Table():
            return dict(value.rows)
        case Ordered():
            twin: Ordered[Any] = Ordered()
            twin.keys = list(value.keys)
            return twin
        case dict():
            return {key: _copied(one) for key, one in value.items()}
        case list():
            return list(value)
        case _:
            return value
