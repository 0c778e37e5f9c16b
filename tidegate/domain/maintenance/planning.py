"""What Iceberg would rewrite: its planner's rules (1.12), applied to the file sizes of a table.

Files of one partition that are too small, too large or have too many deletes are packed in their order into groups; a
group is rewritten when it holds enough files or enough bytes. What comes out are as many files as Spark makes tasks:
the group's files are packed once more, into splits of about the target size, and a file within a split stays whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.domain.maintenance.health import GIB, MIB, PartitionFiles
from tidegate.domain.maintenance.options import Options, arrangement

DEFAULT_TARGET = 512 * MIB
_OVERHEAD = 5 * 1024
_LOOKBACK = 10
"""Splits that are open at a time when Spark's tasks are packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """The settings of a rewrite of data files; sizes in bytes."""

    target: int = DEFAULT_TARGET
    least: int = DEFAULT_TARGET * 3 // 4
    most: int = DEFAULT_TARGET * 9 // 5
    min_files: int = 5
    group_bytes: int = 100 * GIB
    group_files: int | None = None
    delete_files: int | None = None
    delete_ratio: float = 0.3
    most_files: int | None = None
    everything: bool = False
    shuffles: bool = False
    shrinks: float = 1.0

    @property
    def largest_written(self) -> int:
        """No file that is written grows beyond this."""
        return int(self.target + (self.most - self.target) * 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files that are rewritten together: how many, what they hold, how many come of them, and how many of them are
    rewritten for another reason than that they are small."""

    files: int
    bytes: int
    written: int
    others: int


@dataclass(frozen=True, slots=True)
class _File:
    size: int
    heavy: bool


def planner_of(options: Options, table_target: int | None) -> Planner:
    """The settings that a policy's options and the table's own target size make."""
    target = _whole(options, "target-file-size-bytes", table_target or DEFAULT_TARGET)
    return Planner(
        target=target,
        least=_whole(options, "min-file-size-bytes", int(target * 0.75)),
        most=_whole(options, "max-file-size-bytes", int(target * 1.8)),
        min_files=_whole(options, "min-input-files", 5),
        group_bytes=_whole(options, "max-file-group-size-bytes", 100 * GIB),
        group_files=_whole(options, "max-file-group-input-files", 0) or None,
        delete_files=_whole(options, "delete-file-threshold", -1) if "delete-file-threshold" in options else None,
        delete_ratio=_number(options, "delete-ratio-threshold", 0.3),
        most_files=_whole(options, "max-files-to-rewrite", 0) or None,
        everything=options.get("rewrite-all") is True,
        shuffles=arrangement(options) != "binpack",
        shrinks=_number(options, "compression-factor", 1.0),
    )


def groups(partitions: Iterable[PartitionFiles], planner: Planner, spec: int | None) -> list[Group]:
    """What would be rewritten together. Files of another spec than the current one count as one partition."""
    planned: list[Group] = []
    chosen = 0
    for files in _by_partition(partitions, planner, spec):
        for group in _packed(files, planner):
            if not (planner.everything or _worth(group, planner)):
                continue
            if planner.most_files is not None:
                group = group[: planner.most_files - chosen]
            if group:
                chosen += len(group)
                planned.append(_group(group, planner))
    return planned


def expected_files(size: int, planner: Planner) -> int:
    """Into how many files Iceberg wants to write so many bytes."""
    if size < planner.target:
        return 1
    down, rest = divmod(size, planner.target)
    up = down + (rest > 0)
    if rest > planner.least:
        return up
    return down if size // down < min(1.1 * planner.target, planner.largest_written) else up


def _by_partition(partitions: Iterable[PartitionFiles], planner: Planner, spec: int | None) -> list[list[_File]]:
    apart: list[list[_File]] = []
    older: list[_File] = []
    for one in partitions:
        files = older if spec is not None and one.spec != spec else []
        if files is not older:
            apart.append(files)
        for place, size in enumerate(one.sizes):
            heavy = _heavy(one, place, planner) if one.deletes or one.deleted else False
            if planner.everything or heavy or size < planner.least or size > planner.most:
                files.append(_File(size, heavy))
    return [*apart, older] if older else apart


def _heavy(files: PartitionFiles, place: int, planner: Planner) -> bool:
    count = files.deletes.get(place, 0)
    many = planner.delete_files is not None and count >= planner.delete_files
    return many or (count > 0 and files.deleted.get(place, 0.0) >= planner.delete_ratio)


def _packed(files: Sequence[_File], planner: Planner) -> list[list[_File]]:
    """In their order; a group ends where the next file would not fit."""
    packed: list[list[_File]] = []
    weight = 0
    for file in files:
        full = planner.group_files is not None and packed and len(packed[-1]) >= planner.group_files
        if not packed or full or weight + file.size > planner.group_bytes:
            packed.append([])
            weight = 0
        packed[-1].append(file)
        weight += file.size
    return packed


def _worth(group: Sequence[_File], planner: Planner) -> bool:
    size = sum(file.size for file in group)
    several = len(group) > 1
    return (
        (several and len(group) >= planner.min_files)
        or (several and size > planner.target)
        or size > planner.most
        or any(file.heavy for file in group)
    )


def _group(files: Sequence[_File], planner: Planner) -> Group:
    size = sum(file.size for file in files)
    expected = expected_files(int(size * planner.shrinks), planner)
    written = expected if planner.shuffles else _tasks([file.size for file in files], size // expected, planner)
    others = sum(file.heavy or planner.everything or file.size > planner.most for file in files)
    return Group(files=len(files), bytes=size, written=written, others=others)


def _tasks(sizes: Sequence[int], per_file: int, planner: Planner) -> int:
    """Files that Spark's tasks write, when each reads about a split."""
    split = max(planner.target, min(per_file + _OVERHEAD, planner.largest_written))
    count = 0
    opened: list[int] = []
    for size in sizes:
        place = next((at for at, weight in enumerate(opened) if weight + size <= split), None)
        if place is not None:
            opened[place] += size
            continue
        opened.append(size)
        if len(opened) > _LOOKBACK:
            fullest = max(range(len(opened)), key=opened.__getitem__)
            count += _rolled(opened.pop(fullest), planner)
    return count + sum(_rolled(weight, planner) for weight in opened)


def _rolled(size: int, planner: Planner) -> int:
    """A task that reads more than a file may hold writes several."""
    return max(1, -(-size // planner.largest_written))


def _whole(options: Options, name: str, default: int) -> int:
    value = options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _number(options: Options, name: str, default: float) -> float:
    value = options.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
