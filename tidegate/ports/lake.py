"""What watchers ask of catalogs, of whoever reads changed tables, and of the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.domain.ids import Fence
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.lake import ABSENT, Place
from tidegate.ports.collecting import PublishTx
from tidegate.ports.engine import Membership

# ── catalogs and tables ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSpec:
    """A catalog to be watched. Secret: `url` and `properties` may hold passwords.

    `jdbc`: Iceberg's JDBC catalog in a PostgreSQL, at `url` (libpq's) in `schema`; `rest`: any REST catalog, at the
    `uri` of the properties. The other properties are Iceberg's own (`warehouse`, `credential`, `s3.endpoint` ...).
    """

    name: str
    kind: str
    url: str = field(default="", repr=False)
    schema: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A table's metadata file, other than the one that was seen last. `location` None: there is no such table now.
    `properties`: what is needed to read its files (may hold secrets). `error`: the catalog would not say."""

    dataset: str
    location: str | None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A changed table to be read: from `place` on (None: a first look) to what `location` says."""

    dataset: str
    location: str
    place: Place | None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What was read. `events` are (type, payload) in order; `left`: there is more behind `place` in this very file.
    `error`: it could not be read, and nothing else is said."""

    dataset: str
    place: Place = ABSENT
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    left: bool = False
    error: str = ""


class Reader(Protocol):
    """Whoever reads changed tables."""

    async def read(self, orders: Sequence[Order]) -> Sequence[News]:
        """Read these tables, each for itself: one that cannot be read holds up no other, and says so in its `error`."""

    async def close(self) -> None:
        """Part with whatever it holds open."""


class Catalog(Protocol):
    """A catalog that is watched."""

    @property
    def name(self) -> str:
        """What the names of its datasets begin with."""

    async def compare(self, seen: Mapping[str, str | None]) -> Sequence[Pointer]:
        """Those of the datasets (name: the pointer seen last, None for no table) whose pointer is another now.

        Raises Unavailable when the catalog does not answer, Refused when it is none or refuses us."""

    async def tables(self) -> Sequence[Pointer]:
        """Every table that it has. Raises as `compare` does."""

    async def close(self) -> None:
        """Part with its connections."""


# ── the store ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a dataset has been told. `version` counts its moves; `error`: why it could not be read last."""

    version: int
    pointer: str | None
    place: Place
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A dataset that somebody waits for, or that is declared. `every`: its own interval. No cursor: never looked at."""

    dataset: str
    every: Duration | None = None
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A cursor's next place, from the version that was seen (0: there was no cursor)."""

    dataset: str
    version: int
    pointer: str | None
    place: Place
    error: str = ""


class WatcherTx(PublishTx, Protocol):
    async def move(self, moves: Sequence[Move], now: Instant) -> Collection[str]:
        """Move cursors; the datasets of those that still stood where they were seen. Only their events may be
        published, in the same transaction: so nothing is told twice, whoever else is watching."""

    async def forget_unwatched(self, now: Instant) -> int:
        """Remove cursors of datasets that nobody waits for any more; how many."""

    async def report_catalog(self, catalog: str, error: str, now: Instant) -> None:
        """Keep on record that a catalog does not answer, since when, and why; an empty error: it does."""


class WatcherStore(Membership, Protocol):
    def transaction(self, fence: Fence) -> AbstractAsyncContextManager[WatcherTx]: ...
    async def watched(self, catalog: str) -> Sequence[Watched]:
        """Every table of this catalog that a subscription or a Dataset document names, with its cursor."""


# ── for people ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRecord:
    """A dataset as people see it: declared, waited for, or both. `missing`: watched, and there is no such table."""

    name: str
    kind: str = "iceberg"  # iceberg, stream, files
    watch: Duration | None = None
    document: Mapping[str, Any] | None = None  # None: not declared
    pointer: str | None = None
    snapshot: int | None = None
    missing: bool = False
    error: str = ""
    moved_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFault:
    """A catalog that does not answer."""

    catalog: str
    error: str
    since: Instant


class DatasetReads(Protocol):
    async def datasets(self, names: Collection[str] | None = None) -> Sequence[DatasetRecord]:
        """Of these names, or all; by name."""

    async def catalog_faults(self) -> Sequence[CatalogFault]:
        """Those that do not answer now, by name."""


class DatasetTx(Protocol):
    """A person's transaction."""

    async def put_dataset(
        self, name: str, *, kind: str, watch: Duration | None, document: Mapping[str, Any], now: Instant
    ) -> None:
        """Declare a dataset, or declare it otherwise."""

    async def delete_dataset(self, name: str, now: Instant) -> bool:
        """Take the declaration back; False: there was none. Who waits for it goes on waiting."""
