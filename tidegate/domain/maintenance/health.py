"""What a table looks like: figures, thresholds, and what is the matter.

None means that nobody knows (not assessed, or metadata that does not say); it is never read as zero, so nothing
follows from it: no condition is met by it and no issue arises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidegate.domain.instants import DAY, Duration, Instant

MIB = 1 << 20
GIB = 1 << 30
SMALL_FILE = 100 * MIB
LARGE_FILE = GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The data files of one partition in the order in which its manifests name them, so that a rewrite of it can be
    planned as Iceberg plans it.

    `sizes`: bytes of each. `deletes`: how many delete files apply to a file, `delete_bytes`: what they hold, and
    `deleted`: the share of its rows that file-scoped deletes remove (0 to 1); `pieces`: the bytes of its row groups,
    left out for a file that is one, empty where its writer did not say. All by the file's place, left out where there
    are none. `spec`: the partition spec they were written under. `boxes`, of an older spec where the current one would
    divide its files: for each file and field of the current spec, the range of partitions that its rows go to, left
    out where nobody knows. `changed_at`: when a commit last touched the partition.
    """

    partition: str
    sizes: tuple[int, ...]
    spec: int = 0
    deletes: Mapping[int, int] = field(default_factory=dict)
    deleted: Mapping[int, float] = field(default_factory=dict)
    delete_bytes: Mapping[int, int] = field(default_factory=dict)
    pieces: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    boxes: Mapping[int, tuple[tuple[int, int], ...]] | None = None
    changed_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """The figures of one table at one snapshot. Sizes in bytes; None: unknown.

    `snapshot` None with `data_files` 0: the table never had one. `small_files` and `large_files` count data files
    below `small_file_bytes` and above `large_file_bytes`. `changed_at`: the newest snapshot that brought or took rows
    (maintenance is none). `fault`: why the table could not be read; then all figures are unknown.
    """

    assessed_at: Instant
    snapshot: int | None = None
    table_uuid: str | None = None
    format_version: int | None = None
    fault: str | None = None
    changed_at: Instant | None = None
    rows: int | None = None
    data_files: int | None = None
    data_bytes: int | None = None
    smallest_file: int | None = None
    largest_file: int | None = None
    small_files: int | None = None
    large_files: int | None = None
    small_file_bytes: int = SMALL_FILE
    large_file_bytes: int = LARGE_FILE
    delete_files: int | None = None
    position_delete_files: int | None = None
    equality_delete_files: int | None = None
    deletion_vectors: int | None = None
    """Counted among the delete files, but not among those of positions."""
    delete_bytes: int | None = None
    deleted_rows: int | None = None
    manifests: int | None = None
    """Of the current snapshot, of data and of deletes."""
    manifest_bytes: int | None = None
    metadata_bytes: int | None = None
    snapshots: int | None = None
    oldest_snapshot_at: Instant | None = None
    newest_snapshot_at: Instant | None = None
    snapshot_times: tuple[Instant, ...] | None = None
    """When each snapshot of the main branch's line was committed, ascending."""
    row_delete_commits: int | None = None
    """Commits of the last day that deleted or overwrote rows: what a rewrite may collide with."""
    refs: int | None = None
    partitions: int | None = None
    most_files_in_partition: int | None = None
    spec: int | None = None
    """The partition spec that new files are written under."""
    target_file_bytes: int | None = None
    """`write.target-file-size-bytes` of the table, None: not set."""
    max_snapshot_age: Duration | None = None
    """`history.expire.max-snapshot-age-ms` of the table, None: not set."""
    min_snapshots: int | None = None
    """`history.expire.min-snapshots-to-keep` of the table, None: not set."""
    stats_snapshot: int | None = None
    """The snapshot of which the newest table statistics are."""
    partition_stats_snapshot: int | None = None
    columns: tuple[str, ...] | None = None
    """By name; nested ones with their path."""
    files: tuple[PartitionFiles, ...] | None = None

    def counted(self, small: int, large: int) -> TableHealth:
        """The same, with the files below `small` and above `large` bytes counted; as it is where sizes are unknown."""
        if self.files is None or (small, large) == (self.small_file_bytes, self.large_file_bytes):
            return self
        sizes = [size for one in self.files for size in one.sizes]
        return replace(
            self,
            small_files=sum(size < small for size in sizes),
            large_files=sum(size > large for size in sizes),
            small_file_bytes=small,
            large_file_bytes=large,
        )

    @property
    def small_file_percent(self) -> float | None:
        """0 to 100; 0 for a table without files."""
        return _percent(self.small_files, self.data_files)

    @property
    def large_file_percent(self) -> float | None:
        return _percent(self.large_files, self.data_files)

    @property
    def delete_file_ratio(self) -> float | None:
        """Delete files per data file."""
        return 0.0 if self.delete_files == 0 else _ratio(self.delete_files, self.data_files)

    @property
    def partition_skew(self) -> float | None:
        """Files of the fullest partition, as a multiple of the average."""
        mean = _ratio(self.data_files, self.partitions)
        return self.most_files_in_partition / mean if mean and self.most_files_in_partition is not None else None

    def metrics(self, now: Instant) -> dict[str, float]:
        """The figures of `Metric` that are known, by name; sizes in bytes, ages in microseconds."""
        told = {metric.value: measure(self, now) for metric, measure in MEASURES.items()}
        return {name: value for name, value in told.items() if value is not None}


def _ratio(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _percent(part: int | None, whole: int | None) -> float | None:
    if whole == 0:
        return 0.0
    share = _ratio(part, whole)
    return None if share is None else 100 * share


def _age(since: Instant | None, now: Instant) -> int | None:
    return None if since is None else max(0, now - since)


class Metric(StrEnum):
    """Figures that conditions and thresholds compare: sizes in bytes, ages in microseconds."""

    SMALL_FILE_PERCENT = "small_file_percent"
    SMALL_FILE_COUNT = "small_file_count"
    LARGE_FILE_PERCENT = "large_file_percent"
    FILE_COUNT = "file_count"
    TOTAL_SIZE = "total_size"
    DELETE_FILE_COUNT = "delete_file_count"
    DELETE_FILE_RATIO = "delete_file_ratio"
    """Delete files per data file."""
    SNAPSHOT_COUNT = "snapshot_count"
    SNAPSHOT_AGE = "snapshot_age"
    """Of the oldest snapshot."""
    STALENESS = "staleness"
    """Age of the newest snapshot."""
    MANIFEST_COUNT = "manifest_count"
    MANIFEST_SIZE = "manifest_size"
    PARTITION_COUNT = "partition_count"
    PARTITION_SKEW = "partition_skew"
    """Files of the fullest partition, as a multiple of the average."""


SIZES = frozenset({Metric.TOTAL_SIZE, Metric.MANIFEST_SIZE})
AGES = frozenset({Metric.SNAPSHOT_AGE, Metric.STALENESS})

MEASURES: Mapping[Metric, Callable[[TableHealth, Instant], float | None]] = {
    Metric.SMALL_FILE_PERCENT: lambda health, _: health.small_file_percent,
    Metric.SMALL_FILE_COUNT: lambda health, _: health.small_files,
    Metric.LARGE_FILE_PERCENT: lambda health, _: health.large_file_percent,
    Metric.FILE_COUNT: lambda health, _: health.data_files,
    Metric.TOTAL_SIZE: lambda health, _: health.data_bytes,
    Metric.DELETE_FILE_COUNT: lambda health, _: health.delete_files,
    Metric.DELETE_FILE_RATIO: lambda health, _: health.delete_file_ratio,
    Metric.SNAPSHOT_COUNT: lambda health, _: health.snapshots,
    Metric.SNAPSHOT_AGE: lambda health, now: _age(health.oldest_snapshot_at, now),
    Metric.STALENESS: lambda health, now: _age(health.newest_snapshot_at, now),
    Metric.MANIFEST_COUNT: lambda health, _: health.manifests,
    Metric.MANIFEST_SIZE: lambda health, _: health.manifest_bytes,
    Metric.PARTITION_COUNT: lambda health, _: health.partitions,
    Metric.PARTITION_SKEW: lambda health, _: health.partition_skew,
}


def shown(metric: Metric, value: float) -> str:
    """A figure as people read it: `P7D`, `1.5 GiB`, `35 %`."""
    if metric in AGES:
        day = value / DAY
        return f"{day:.1f} days"
    if metric in SIZES:
        return size(value)
    text = f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"
    return f"{text} %" if metric.value.endswith("percent") else text


def size(value: float) -> str:
    """Bytes as people read them, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"
