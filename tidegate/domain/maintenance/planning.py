"""What Iceberg would rewrite: its planner's rules (1.12), applied to the file sizes of a table.

Files of one partition that are too small, too large or have too many deletes are packed in their order into groups; a
group is rewritten when it holds enough files or enough bytes. What comes out are as many files as Spark makes tasks:
the row groups of the group's files are packed once more, into splits of about the target size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest

from tidegate.domain.maintenance.health import GIB, MIB, PartitionFiles
from tidegate.domain.maintenance.options import Options, arrangement

DEFAULT_TARGET = 512 * MIB
_OVERHEAD = 5 * 1024
_LOOKBACK = 10
"""Splits that are open at a time when Spark's tasks are packed."""
_MOST_CELLS = 20_000
"""Partitions that are counted one by one."""


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
    rewritten for another reason than that they are small. `written` None: nobody knows. `deletes`: how many delete
    files readers open for them, one that is for several files counted for each."""

    files: int
    bytes: int
    written: int | None
    others: int
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class _File:
    """`pieces`: its row groups, None: it is one; `deletes`: the bytes that its deletes add to each of them; `left`: the
    share of its rows that deletes leave. `divided`: by the current partition spec, into what lies in `box`."""

    size: int
    heavy: bool
    pieces: tuple[int, ...] | None = None
    deletes: int = 0
    delete_files: int = 0
    left: float = 1.0
    divided: bool = False
    box: tuple[tuple[int, int], ...] | None = None


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
    """What Iceberg packs together: files of a partition; and all those of older specs."""
    apart: list[list[_File]] = []
    older: list[list[_File]] = []
    for one in partitions:
        files: list[_File] = []
        for place, size in enumerate(one.sizes):
            heavy = _heavy(one, place, planner) if one.deletes or one.deleted else False
            if planner.everything or heavy or size < planner.least or size > planner.most:
                files.append(_file(one, place, heavy))
        if spec is not None and one.spec != spec:
            older.append(files)
        elif one.partition:
            apart.append(files)
        else:  # the current spec has no partitions: its files and the older ones are packed together
            older.append(files)
    # A commit mostly adds a file to each of several partitions, so that is their order in manifests.
    mixed = [file for turn in zip_longest(*older) for file in turn if file is not None]
    return [*apart, mixed] if mixed else apart


def _file(files: PartitionFiles, place: int, heavy: bool) -> _File:
    return _File(
        size=files.sizes[place],
        heavy=heavy,
        pieces=files.pieces.get(place),
        deletes=files.delete_bytes.get(place, 0),
        delete_files=files.deletes.get(place, 0),
        left=1.0 - files.deleted.get(place, 0.0),
        divided=files.boxes is not None,
        box=files.boxes.get(place) if files.boxes is not None else None,
    )


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
    if files[0].divided:  # Iceberg, too, looks at the first only
        written = _divided(files, expected if planner.shuffles else 1, planner)
    else:
        written = expected if planner.shuffles else _tasks(files, size // expected, planner)
    others = sum(file.heavy or planner.everything or file.size > planner.most for file in files)
    deletes = sum(file.delete_files for file in files)
    return Group(files=len(files), bytes=size, written=written, others=others, deletes=deletes)


def _divided(files: Sequence[_File], ranges: int, planner: Planner) -> int | None:
    """Files that are written when rows are sorted by partition: one for each partition, more where it is large, and one
    more wherever a range that a task gets ends within a partition."""
    if any(file.box is None for file in files):
        return None
    boxes = [(file, [range(first, last + 1) for first, last in file.box or ()]) for file in files]
    if sum(math.prod(map(len, box)) for _, box in boxes) > _MOST_CELLS:
        return None
    weights: dict[tuple[int, ...], float] = {}
    for file, box in boxes:
        share = file.size * file.left / math.prod(map(len, box))
        for cell in product(*box):
            weights[cell] = weights.get(cell, 0.0) + share
    return sum(_rolled(weight, planner) for weight in weights.values()) + ranges - 1


def _tasks(files: Sequence[_File], per_file: int, planner: Planner) -> int:
    """Files that Spark's tasks write, when each reads about a split."""
    split = max(planner.target, min(per_file + _OVERHEAD, planner.largest_written))
    count = 0
    opened: list[list[float]] = []  # what a task reads, deletes included, and what is left of it
    for file in files:
        for piece in _cut(file, split):
            weight, left = piece + file.deletes, piece * file.left
            task = next((one for one in opened if one[0] + weight <= split), None)
            if task is not None:
                task[0] += weight
                task[1] += left
                continue
            opened.append([weight, left])
            if len(opened) > _LOOKBACK:
                fullest = max(range(len(opened)), key=lambda at: opened[at][0])
                count += _rolled(opened.pop(fullest)[1], planner)
    return count + sum(_rolled(left, planner) for _, left in opened)


def _cut(file: _File, split: int) -> Sequence[int]:
    """Between row groups; anywhere in a file whose writer did not say where they begin."""
    if file.pieces is None:
        return (file.size,)
    if file.pieces:
        return file.pieces
    return [min(split, file.size - at) for at in range(0, file.size, split)]


def _rolled(size: float, planner: Planner) -> int:
    """A task that has more than a file may hold writes several, one that has no rows writes none."""
    return math.ceil(size / planner.largest_written)


def _whole(options: Options, name: str, default: int) -> int:
    value = options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _number(options: Options, name: str, default: float) -> float:
    value = options.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
