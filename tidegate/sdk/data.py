"""Datasets and events as people name them in Python: what triggers wait for, and what is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.domain.instants import format_instant, from_datetime, parse_size
from tidegate.sdk.triggers import When


@dataclass(frozen=True)
class Event:
    """Something that happened, to be published: a past-tense fact.

    `key` is `namespace/name` for `user.…` events (the namespace left out inside one's own), a dataset's name for
    `dataset.updated`. `id`: the publisher's own; publishing the same id again changes nothing.
    """

    type: str
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    time: datetime | None = None

    def document(self) -> dict[str, Any]:
        """The body of `POST /events`."""
        said = {"id": self.id, "time": None if self.time is None else format_instant(from_datetime(self.time))}
        told = {name: value for name, value in said.items() if value is not None}
        return {"type": self.type, "key": self.key, **told, "payload": dict(self.payload)}


@dataclass(frozen=True)
class Dataset:
    """A table or other named data. Names an input: `run.inputs[orders]`."""

    name: str

    def new(
        self,
        *,
        partitions: int | None = None,
        changed: bool | None = None,
        bytes: str | int | None = None,
        rows: int | None = None,
    ) -> When:
        """Fire by new data: any at all, or at least so many `partitions` (each name counts once; with `changed` also
        those that were changed), `bytes` ("1 GB") and `rows`. What is given must all be reached."""
        legs: list[When] = []
        if partitions is not None:
            said = {"type": "partition", "dataset": self.name, "count": partitions}
            legs.append(When(said if changed is None else {**said, "changed": changed}))
        elif changed is not None:
            raise ValueError("`changed` says which partitions count; give `partitions` too")
        if bytes is not None or rows is not None:
            amounts = {"bytes": bytes, "rows": rows}
            told = {name: amount for name, amount in amounts.items() if amount is not None}
            legs.append(When({"type": "data_size", "dataset": self.name, **told}))
        if not legs:
            return When({"type": "event", "event": "dataset.updated", "key": self.name})
        return legs[0] if len(legs) == 1 else legs[0] & legs[1]

    def updated(
        self,
        *,
        rows: int | None = None,
        bytes: str | int | None = None,
        files: int | None = None,
        partitions: Sequence[str] | None = None,
        changed: Sequence[str] | None = None,
        id: str | None = None,
    ) -> Event:
        """The event that new data came, for datasets that nobody watches: streams and sets of files."""
        payload = {
            "rows": rows,
            "bytes": parse_size(bytes) if isinstance(bytes, str) else bytes,
            "files": files,
            "partitions_added": list(partitions) if partitions is not None else None,
            "partitions_changed": list(changed) if changed is not None else None,
        }
        told = {name: value for name, value in payload.items() if value is not None}
        return Event("dataset.updated", self.name, told, id=id)

    def __str__(self) -> str:
        return self.name


def table(path: str) -> Dataset:
    """An Iceberg table by its catalog path, `catalog.namespace.table`. Raises ValueError for anything else."""
    if path.count(".") < 2 or not all(path.split(".")):
        raise ValueError(f"{path!r} is not the path of a table; write catalog.namespace.table, e.g. lake.raw.orders")
    return Dataset(path)


def dataset(name: str) -> Dataset:
    """Any other named data (a stream, a set of files) whose producer publishes `dataset.updated`."""
    return Dataset(name)
