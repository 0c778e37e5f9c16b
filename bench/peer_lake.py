"""A lake of two hundred tables in the model: what writers do to them by day and night, and what a rewrite does.

Only names of files, as sizes: no byte is written. What a rewrite takes and leaves is computed as Iceberg's planner and
Spark do it (`tidegate.domain.maintenance.planning`); how exact that is, `prediction` measures on real tables. Writers
are the same whoever maintains the lake: their commits are drawn beforehand, by table.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.domain.instants import DAY, SECOND, Instant
from tidegate.domain.maintenance import planning
from tidegate.domain.maintenance.health import LARGE_FILE, MIB, SMALL_FILE, PartitionFiles, TableHealth
from tidegate.domain.maintenance.options import Options

RATE = 200 * MIB
"""Bytes a second that a rewrite does."""
STARTS = 5.0
"""Seconds that any rewrite takes beside that."""
_PARTITIONS = 8


@dataclass(slots=True)
class File:
    """A data file; `deletes`: files of deletes that apply to it, `gone`: the share of its rows that they take."""

    size: int
    deletes: int = 0
    gone: float = 0.0


@dataclass(frozen=True, slots=True)
class Commit:
    """At `at`: files added to the newest partition, or rows deleted from some of its files (`draw` says from which)."""

    at: Instant
    added: tuple[int, ...]
    draw: int


@dataclass
class Table:
    """`reads`: how often it is queried, as a weight."""

    name: str
    partitions: dict[int, list[File]]
    commits: list[Commit]
    reads: float
    seen: int = 0
    deleted_at: list[Instant] = field(default_factory=list)

    def until(self, now: Instant) -> list[File]:
        """Let writers do what they do until then; the files that rows were deleted from."""
        touched: list[File] = []
        while self.seen < len(self.commits) and self.commits[self.seen].at <= now:
            commit = self.commits[self.seen]
            self.seen += 1
            newest = self.partitions.setdefault(commit.at // DAY, [])
            if commit.added:
                newest.extend(File(size) for size in commit.added)
                continue
            self.deleted_at.append(commit.at)
            # Rows of late are deleted most: of today's files, and of those of the days before.
            recent = [one for day in sorted(self.partitions)[-2:] for one in self.partitions[day]]
            for one in random.Random(commit.draw).sample(recent, min(3, len(recent))):
                one.deletes += 1
                one.gone = min(1.0, one.gone + 0.04)
                touched.append(one)
        return touched

    @property
    def files(self) -> list[File]:
        return [one for some in self.partitions.values() for one in some]

    @property
    def opened(self) -> int:
        """Files that a scan of the whole table opens."""
        return sum(1 + one.deletes for one in self.files)

    def health(self, now: Instant) -> TableHealth:
        """What is measured of it."""
        files = self.files
        parts = tuple(
            PartitionFiles(
                partition=f"day={day}",
                sizes=tuple(one.size for one in some),
                deletes={place: one.deletes for place, one in enumerate(some) if one.deletes},
                deleted={place: one.gone for place, one in enumerate(some) if one.gone},
            )
            for day, some in self.partitions.items()
        )
        last = self.commits[self.seen - 1].at if self.seen else None
        return TableHealth(
            assessed_at=now,
            snapshot=self.seen + 1,
            changed_at=last,
            data_files=len(files),
            data_bytes=sum(one.size for one in files),
            small_files=sum(one.size < SMALL_FILE for one in files),
            large_files=sum(one.size > LARGE_FILE for one in files),
            delete_files=sum(one.deletes for one in files),
            newest_snapshot_at=last,
            row_delete_commits=sum(at > now - DAY for at in self.deleted_at),
            partitions=len(parts),
            spec=0,
            files=parts,
        )


@dataclass(frozen=True)
class Group:
    """Files of one partition that are rewritten together, and what comes of them."""

    day: int
    files: list[File]
    written: int

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files)


def plan(table: Table, options: Options) -> Iterator[Group]:
    """The groups that a rewrite with these options makes."""
    planner = planning.planner_of(options, None)
    for day, files in table.partitions.items():
        chosen = [one for one in files if planner.everything or _wrong(one, planner)]
        while chosen:
            taken, weight = 0, 0
            while taken < len(chosen) and (not taken or weight + chosen[taken].size <= planner.group_bytes):
                weight += chosen[taken].size
                taken += 1
            some, chosen = chosen[:taken], chosen[taken:]
            told = PartitionFiles(
                partition=f"day={day}",
                sizes=tuple(one.size for one in some),
                deletes={place: one.deletes for place, one in enumerate(some) if one.deletes},
                deleted={place: one.gone for place, one in enumerate(some) if one.gone},
            )
            for found in planning.groups([told], planner, 0):
                yield Group(day, some, found.written or 0)


def _wrong(file: File, planner: planning.Planner) -> bool:
    heavy = file.deletes > 0 and file.gone >= planner.delete_ratio
    return heavy or not planner.least <= file.size <= planner.most


def replace(table: Table, group: Group) -> None:
    """The group is committed."""
    gone = {id(one) for one in group.files}
    left = int(sum(one.size * (1 - one.gone) for one in group.files))
    some = [one for one in table.partitions[group.day] if id(one) not in gone]
    some += [File(max(1, left // group.written)) for _ in range(group.written)]
    table.partitions[group.day] = some


def lake(tables: int, nights: int, start: Instant, seed: int) -> list[Table]:
    """A few tables are hot (a commit each five minutes, half of them with row-level deletes), most are cold."""
    return [_table(number, tables, nights, start, random.Random(f"{seed}.{number}")) for number in range(tables)]


def _table(number: int, tables: int, nights: int, start: Instant, rng: random.Random) -> Table:
    heat = 1 / (1 + number / (tables / 20))  # Zipf: the first tenth gets two thirds of all commits
    a_day = 288 * heat**1.5 if number < tables * 0.6 else 0.0
    partitions: dict[int, list[File]] = {}
    tidy = rng.random() < 0.5
    for day in range(start // DAY - _PARTITIONS, start // DAY):
        sizes = [rng.uniform(400, 600)] * rng.randrange(1, 8) if tidy else _small(rng)
        partitions[day] = [File(int(size * MIB)) for size in sizes]
    commits, at = [], start
    deletes = 0.5 if rng.random() < 0.3 else 0.0
    while a_day and at < start + (nights + 1) * DAY:
        at += int(rng.expovariate(a_day) * DAY) + SECOND
        added = () if rng.random() < deletes else tuple(int(size * MIB) for size in _arriving(rng))
        commits.append(Commit(at, added, rng.randrange(1 << 30)))
    names = random.Random("names").sample(range(1000), tables)
    return Table(f"lake.raw.t{names[number]:03}", partitions, commits, reads=heat * rng.uniform(0.5, 2))


def _small(rng: random.Random) -> list[float]:
    return [rng.lognormvariate(3, 1) for _ in range(rng.randrange(1, 60))]


def _arriving(rng: random.Random) -> list[float]:
    return [rng.lognormvariate(2, 0.8) for _ in range(rng.randrange(1, 4))]
