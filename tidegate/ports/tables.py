"""What is kept of tables that are looked after: policies, health, and maintenance that was started.

Who starts maintenance holds the gate (`lock_maintenance`) until the commit, so one transaction at a time decides by
what all others have reserved: budgets are never overshot, and a table never has two operations under way.
Health, histories and results are JSON here; what they mean is `domain.maintenance`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.runs import State
from tidegate.domain.schedules import JsonObject

# ── who measures ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyOrder:
    """A table to be measured: by its metadata file. `properties`: what is needed to read its files (may hold
    secrets)."""

    table: str
    location: str
    now: Instant
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was measured; `error`: it could not be, and nothing else is said."""

    table: str
    health: JsonObject | None = None
    error: str = ""


class Surveyor(Protocol):
    """Whoever measures tables."""

    async def survey(self, orders: Sequence[SurveyOrder]) -> Sequence[Survey]:
        """Measure these, each for itself: one that cannot be read holds up no other, and says so in its `error`."""

    async def close(self) -> None:
        """Part with whatever it holds open."""


# ── what is kept ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRecord:
    """A policy's newest revision. `document`: its metadata and spec as the person wrote them."""

    name: str
    rev: int
    document: JsonObject
    author: str
    updated_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Whether maintenance starts by itself; by whose word, since when and why it does not."""

    automatic: bool = True
    who: str = ""
    since: Instant | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Where a table was found in its catalog; `location` None: it is not there any more."""

    table: str
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a survey of a table's metadata file said. `score`: its debt."""

    table: str
    location: str
    health: JsonObject | None = None
    score: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """A table that a catalog has. `version` grows with every change of it; `known_at`: when it was first found,
    `seen_at`: when at this `location`. `assessed` is the metadata file that its health was read from, None while it is
    to be read again; `error`: why it could not be read last."""

    table: str
    version: int
    location: str | None
    known_at: Instant
    seen_at: Instant
    assessed: str | None = None
    assessed_at: Instant | None = None
    health: JsonObject | None = None
    score: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CareOrder:
    """Maintenance that is reserved: `bytes` of its policy's budget until it is settled. `manual`: a person asked."""

    run: RunKey
    table: str
    operation: str
    policy: str
    policy_rev: int
    manual: bool
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CareRecord:
    """Maintenance that was started. `outcome` None: not settled. `bytes`: reserved until then, spent from then on."""

    order: CareOrder
    at: Instant
    bytes: int
    outcome: str | None = None
    settled_at: Instant | None = None
    result: JsonObject | None = None


class CarePlace(NamedTuple):
    """A place among the changes of what is kept of operations."""

    version: int = -1
    table: str = ""
    operation: str = ""


class CareChange(NamedTuple):
    """What became of an operation on a table so far, and the place of its last change."""

    place: CarePlace
    history: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCare:
    """Maintenance that is not settled, and how its run stands. `note`: what its last attempt left to be known."""

    order: CareOrder
    at: Instant
    state: State
    reason: str = ""
    started_at: Instant | None = None
    finished_at: Instant | None = None
    note: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a maintenance ended, what it really cost, and what it changed."""

    run: RunKey
    outcome: str
    bytes: int
    result: JsonObject | None = None


class TablesReads(Protocol):
    async def breathe(self) -> None:
        """Let all else that this process does have its turn: called between the slices of long work."""

    async def maintenance(self) -> Switch:
        """Whether maintenance starts by itself."""

    async def policies(self) -> Sequence[PolicyRecord]:
        """The living ones, by name."""

    async def policy_revisions(self, name: str) -> Sequence[tuple[int, JsonObject | None, str, Instant]]:
        """(revision, document, author, valid from), newest first; no document: it was deleted."""

    async def tables(self, names: Collection[str] | None = None, *, since: int = 0) -> Sequence[TableRecord]:
        """Of these names, or all, whose version is above `since`; by name."""

    async def table_names(self) -> Sequence[str]:
        """Of those that are in their catalogs, by name."""

    async def changed_tables(self, since: int, limit: int) -> Sequence[TableRecord]:
        """The first so many whose version is above `since`, by version. No version is committed after a higher one, so
        whoever goes on behind the last that was read misses none."""

    async def versions(self, tables: Collection[str]) -> Mapping[str, int]:
        """Of these tables, without all else that is kept of them."""

    async def table_history(
        self, table: str, before: Instant | None, limit: int
    ) -> Sequence[tuple[Instant, JsonObject, float | None]]:
        """(when, health, debt) of a table, newest first."""

    async def care(self, tables: Collection[str] | None = None) -> Mapping[str, Mapping[str, JsonObject]]:
        """By table and operation: what became of it so far."""

    async def changed_care(self, since: CarePlace, limit: int) -> Sequence[CareChange]:
        """The first so many changes behind that place, oldest first; none is committed before one already read."""

    async def snapshots_needed(self, tables: Collection[str]) -> Mapping[str, Sequence[int]]:
        """By table: snapshots from which watchers and schedules read on, and those that live runs were given."""

    async def open_care(self) -> Sequence[OpenCare]:
        """Everything that is not settled, by when it was started."""

    async def spent(self, since: Instant, policies: Collection[str]) -> Mapping[str, Sequence[Spend]]:
        """By policy, of these: what was started from then on, or is open, which is what budgets count. Oldest first."""

    async def care_of(self, table: str, before: tuple[Instant, RunKey] | None, limit: int) -> Sequence[CareRecord]:
        """Maintenance of a table, newest first. `before`: when the last that was read was started, and its run: several
        that a person asked for at once have one instant."""


class TablesTx(TablesReads, Protocol):
    """A person's transaction, and the assessor's. It reads what is committed and what it wrote itself: inside of it
    nothing is read of the store, which would take a second connection while one is held."""

    async def lock_maintenance(self) -> Switch:
        """Until the commit nobody else starts or settles maintenance, or changes a policy."""

    async def set_automatic(self, on: bool, who: str, reason: str, now: Instant) -> bool:
        """Let maintenance start by itself, or not; False when it was so already (who and reason stay)."""

    async def put_policy(self, name: str, document: JsonObject, author: str, now: Instant) -> PolicyRecord:
        """A policy's next revision."""

    async def delete_policy(self, name: str, author: str, now: Instant) -> bool:
        """False: there was none. Its revisions stay; a later policy of that name goes on counting them."""

    async def see_tables(self, seen: Sequence[Seen], now: Instant) -> None:
        """Where tables were found. One that was not known is from now on."""

    async def record_health(self, measured: Sequence[Measured], now: Instant) -> None:
        """The newest health of tables, and one more line of each one's history, its figures without the sizes of files;
        an error leaves the health as it is."""

    async def reserve(self, orders: Sequence[CareOrder], now: Instant) -> None:
        """Runs that were made are maintenance under way."""

    async def settle_care(self, settled: Sequence[Settlement], now: Instant) -> Collection[RunKey]:
        """Those that were open until now. Their tables are to be measured anew: `assessed` is None until they were."""

    async def put_care(self, care: Mapping[str, Mapping[str, JsonObject]]) -> None:
        """By table and operation: what became of it so far. The maintenance lock is held."""
