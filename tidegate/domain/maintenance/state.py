"""What is known of a table when maintenance is decided: how it is, and what was done to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.domain.maintenance.debt import LOOKED_AT
from tidegate.domain.maintenance.health import TableHealth
from tidegate.domain.maintenance.operations import Operation

SMOOTHING = 0.2
"""How much the newest run counts in what is expected of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What became of one operation on one table so far, manual runs included.

    `failures` and `unchanged` count in a row: failed runs, and runs that were measured to have changed nothing.
    `skipped_at`, `skipped_snapshot`: when it was last predicted to change nothing, and at which snapshot of the table.
    `held_at`: since when nothing but a budget holds it; who waits long enough goes first.
    `seconds` and `bytes_per_second`: what past runs took, the newest counting most; None: none did any work yet.
    """

    run: str | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    succeeded_at: Instant | None = None
    failed_at: Instant | None = None
    outcome: str | None = None
    failures: int = 0
    unchanged: int = 0
    skipped_at: Instant | None = None
    skipped_snapshot: int | None = None
    held_at: Instant | None = None
    seconds: float | None = None
    bytes_per_second: float | None = None


NO_HISTORY = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a run would do, by the health that is known and the policy's options. None: unknown.

    `removes`: by how many its kind of thing would become fewer (data files, delete files, manifests, snapshots); less
    than 0 where large files are divided. `others`: files that are rewritten for another reason than their number
    (deletes that apply to them, their size, because all are). `deletes`: delete files that readers need not open for
    them any more. `files`, `bytes`: what it would read and write anew; 0 `bytes` for what rewrites no data.
    `impossible`: it is known to fail, also when it is forced. `why`: a sentence.
    """

    removes: int | None = None
    others: int = 0
    deletes: int = 0
    files: int | None = None
    bytes: int | None = None
    impossible: bool = False
    why: str = ""

    @property
    def noop(self) -> bool:
        """Known to change nothing that is worth it."""
        return self.removes == 0 and not self.others


UNKNOWN = Prediction(why="It is not known beforehand what it would do.")


class Refusal(NamedTuple):
    """Why the maintenance of a table could not be started, and until when it is not tried again."""

    until: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table. `since`: when its policy came to speak for it; fires before that are none of its own.

    `recent`: whether each of its last finished operations succeeded, newest first; `failures`: how many failed since
    the last that succeeded. `busy`: the run that maintains it now. `changed_at`: the newest commit of rows that
    somebody told of, also after the health was assessed. `refused`: that its last start was, None: it was not.
    """

    table: str
    since: Instant
    health: TableHealth | None = None
    histories: Mapping[Operation, History] = field(default_factory=dict)
    predictions: Mapping[Operation, Prediction] = field(default_factory=dict)
    recent: tuple[bool, ...] = ()
    failures: int = 0
    busy: str | None = None
    changed_at: Instant | None = None
    refused: Refusal | None = None


def began(history: History, run: str, now: Instant) -> History:
    """The history once a run of it has started."""
    return replace(history, run=run, started_at=now, held_at=None)


def ended(
    history: History,
    *,
    outcome: str,
    succeeded: bool | None,
    changed: bool | None,
    at: Instant,
    took: Duration | None = None,
    bytes: int | None = None,
) -> History:
    """The history once a run of it has ended.

    `succeeded` None: neither success nor failure (cancelled). `changed`: whether it was measured to have changed the
    table; None, since nobody knows, is not "no": the row of unchanged runs ends there.
    """
    if succeeded is None:
        return replace(history, outcome=outcome, finished_at=at)
    if not succeeded:
        return replace(history, outcome=outcome, finished_at=at, failed_at=at, failures=history.failures + 1)
    worked = took is not None and took > 0 and changed is not False
    seconds = took / SECOND if worked and took is not None else None
    rate = bytes / seconds if seconds and bytes else None
    return replace(
        history,
        outcome=outcome,
        finished_at=at,
        succeeded_at=at,
        failures=0,
        unchanged=history.unchanged + 1 if changed is False else 0,
        seconds=_smoothed(history.seconds, seconds),
        bytes_per_second=_smoothed(history.bytes_per_second, rate),
    )


def skipped(history: History, snapshot: int | None, now: Instant) -> History:
    """The history once a run was left out, since it would have changed nothing."""
    return replace(history, skipped_at=now, skipped_snapshot=snapshot)


def held(history: History, now: Instant) -> History:
    """The history once a budget had no room for it: the first such time counts, until it starts."""
    return history if history.held_at is not None else replace(history, held_at=now)


def remembered(recent: tuple[bool, ...], succeeded: bool) -> tuple[bool, ...]:
    """The last outcomes of a table with one more."""
    return (succeeded, *recent)[:LOOKED_AT]


def _smoothed(old: float | None, new: float | None) -> float | None:
    if old is None or new is None:
        return new if old is None else old
    return (1 - SMOOTHING) * old + SMOOTHING * new
