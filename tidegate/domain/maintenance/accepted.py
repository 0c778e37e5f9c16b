"""Every option of every operation, as Iceberg 1.12 for Spark 4.1 accepts it: name, type, unit, where it goes.

The names are Iceberg's own. Two things are said differently, since a policy is a rule for ever and not one call: ages
are durations (`older_than: P7D`), sizes may be written with a unit.

What Iceberg accepts is read from the release itself: `validOptions` of its planners and runners, and the parameters of
its procedures. `table` is not an option, since the policy says the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from tidegate.domain.instants import DAY
from tidegate.domain.maintenance.operations import Operation

ORPHANS_LEAST = 3 * DAY
"""Files younger than this are never removed as orphans: a writer may be about to commit them."""


class Kind(Enum):
    """What a value is, and its unit."""

    TEXT = "text"
    BOOL = "true or false"
    INT = "a whole number"
    NUMBER = "a number"
    BYTES = 'a size such as "128 MiB", or a number of bytes'
    AGE = 'a duration such as "P7D"'
    TEXTS = "a list of texts"
    INTS = "a list of whole numbers"
    MAP = "a mapping of texts"


class Place(StrEnum):
    """Where the procedure takes it."""

    ARGUMENT = "argument"
    """A named argument of the CALL."""
    OPTION = "option"
    """An entry of the CALL's `options` map; written there as text."""
    OURS = "ours"
    """Tidegate's own: the procedure does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """`least` and `most` bound numbers, both inclusive. `default`: what Iceberg takes if it is left out, for people.
    `only`: the kind of rewrite that knows it (sort, zorder); empty: all."""

    name: str
    kind: Kind
    about: str
    place: Place = Place.OPTION
    default: str = ""
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    only: str = ""


def _rewriting(target: str) -> tuple[Option, ...]:
    """What every rewrite of files takes."""
    return (
        Option(name="target-file-size-bytes", kind=Kind.BYTES, about="the size files should have", default=target),
        Option(
            name="min-file-size-bytes",
            kind=Kind.BYTES,
            about="smaller files are rewritten",
            default="75 % of the target",
            least=0,
        ),
        Option(
            name="max-file-size-bytes",
            kind=Kind.BYTES,
            about="larger files are rewritten",
            default="180 % of the target",
        ),
        Option(
            name="min-input-files", kind=Kind.INT, about="a group of so many files is rewritten", default="5", least=1
        ),
        Option(
            name="max-file-group-size-bytes", kind=Kind.BYTES, about="the most that one group holds", default="100 GiB"
        ),
        Option(
            name="max-file-group-input-files",
            kind=Kind.INT,
            about="the most files that one group holds",
            default="no limit",
            least=1,
        ),
        Option(
            name="max-concurrent-file-group-rewrites",
            kind=Kind.INT,
            about="groups rewritten at a time",
            default="5",
            least=1,
        ),
        Option(name="rewrite-all", kind=Kind.BOOL, about="rewrite every file, whatever its size", default="false"),
        Option(
            name="rewrite-job-order",
            kind=Kind.TEXT,
            about="which groups go first",
            default="none",
            words=("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"),
        ),
        Option(
            name="partial-progress.enabled",
            kind=Kind.BOOL,
            about="commit groups as they are done, not all at the end",
            default="false",
        ),
        Option(
            name="partial-progress.max-commits",
            kind=Kind.INT,
            about="the most commits of partial progress",
            default="10",
            least=1,
        ),
    )


_WHERE = Option(
    name="where", kind=Kind.TEXT, about="only files that may hold such rows, as a SQL predicate", place=Place.ARGUMENT
)
_STREAM = Option(
    name="stream_results",
    kind=Kind.BOOL,
    about="send what is to be deleted to the driver partition by partition",
    place=Place.ARGUMENT,
    default="false",
)
_DELETES = Option(
    name="max_concurrent_deletes",
    kind=Kind.INT,
    about="threads that delete, where storage has no bulk delete",
    place=Place.ARGUMENT,
    least=1,
)
_SNAPSHOT = Option(
    name="snapshot_id",
    kind=Kind.INT,
    about="of which snapshot",
    place=Place.ARGUMENT,
    default="the current one",
    least=0,
)

_OF: dict[Operation, tuple[Option, ...]] = {
    Operation.REWRITE_DATA_FILES: (
        Option(
            name="strategy",
            kind=Kind.TEXT,
            about="how rows are arranged",
            place=Place.ARGUMENT,
            default="binpack; sort where sort_order is given",
            words=("binpack", "sort"),
        ),
        Option(
            name="sort_order",
            kind=Kind.TEXT,
            about='"day ASC NULLS LAST, region DESC NULLS FIRST", "zorder(a, b)" or "hilbert(a, b)"',
            place=Place.ARGUMENT,
            default="the table's own",
        ),
        _WHERE,
        Option(
            name="branch", kind=Kind.TEXT, about="the branch that is rewritten", place=Place.ARGUMENT, default="main"
        ),
        *_rewriting("the table's, else 512 MiB"),
        Option(
            name="partial-progress.max-failed-commits",
            kind=Kind.INT,
            about="commits of partial progress that may fail",
            default="as many as max-commits",
            least=0,
        ),
        Option(
            name="delete-file-threshold",
            kind=Kind.INT,
            about="a data file with so many delete files is rewritten",
            default="never",
            least=0,
        ),
        Option(
            name="delete-ratio-threshold",
            kind=Kind.NUMBER,
            about="a data file with such a share of deleted rows is rewritten",
            default="0.3",
            least=1e-9,
            most=1,
        ),
        Option(
            name="max-files-to-rewrite", kind=Kind.INT, about="the most files in one run", default="no limit", least=1
        ),
        Option(
            name="use-starting-sequence-number",
            kind=Kind.BOOL,
            about="new files count as old as what they replace",
            default="true",
        ),
        Option(
            name="remove-dangling-deletes",
            kind=Kind.BOOL,
            about="afterwards drop delete files that apply to no data file",
            default="false",
        ),
        Option(
            name="output-spec-id",
            kind=Kind.INT,
            about="the partition spec of new files",
            default="the table's",
            least=0,
        ),
        Option(
            name="cache-delete-files",
            kind=Kind.BOOL,
            about="executors keep delete files that they read",
            default="true",
        ),
        Option(
            name="compression-factor",
            kind=Kind.NUMBER,
            about="size of what is written, as a share of what is read",
            default="1.0",
            least=1e-9,
            only="sort",
        ),
        Option(
            name="shuffle-partitions-per-file",
            kind=Kind.INT,
            about="shuffle partitions for each new file",
            default="1",
            least=1,
            only="sort",
        ),
        Option(
            name="max-output-size",
            kind=Kind.INT,
            about="bytes that are interleaved for one row",
            default="2147483647",
            least=1,
            only="zorder",
        ),
        Option(
            name="var-length-contribution",
            kind=Kind.INT,
            about="bytes that a text or binary column gives",
            default="8",
            least=1,
            only="zorder",
        ),
    ),
    Operation.REWRITE_POSITION_DELETE_FILES: (_WHERE, *_rewriting("the table's, else 64 MiB")),
    Operation.REWRITE_MANIFESTS: (
        Option(
            name="use_caching",
            kind=Kind.BOOL,
            about="keep the entries in Spark's memory",
            place=Place.ARGUMENT,
            default="false",
        ),
        Option(
            name="spec_id",
            kind=Kind.INT,
            about="manifests of which partition spec",
            place=Place.ARGUMENT,
            default="the table's",
            least=0,
        ),
        Option(
            name="sort_by",
            kind=Kind.TEXTS,
            about="partition fields by which entries are ordered",
            place=Place.ARGUMENT,
            default="all, in the spec's order",
        ),
    ),
    Operation.EXPIRE_SNAPSHOTS: (
        Option(
            name="older_than",
            kind=Kind.AGE,
            about="snapshots older than this expire",
            place=Place.ARGUMENT,
            default="the table's, else P5D",
        ),
        Option(
            name="retain_last",
            kind=Kind.INT,
            about="so many are kept, however old",
            place=Place.ARGUMENT,
            default="the table's, else 1",
            least=1,
        ),
        Option(
            name="snapshot_ids",
            kind=Kind.INTS,
            about="these expire, and no others unless older_than says so",
            place=Place.ARGUMENT,
        ),
        Option(
            name="clean_expired_metadata",
            kind=Kind.BOOL,
            about="also forget specs and schemas that nothing uses",
            place=Place.ARGUMENT,
            default="false",
        ),
        _STREAM,
        _DELETES,
    ),
    Operation.REMOVE_ORPHAN_FILES: (
        Option(
            name="older_than",
            kind=Kind.AGE,
            about="only files older than this; at least P3D",
            place=Place.ARGUMENT,
            default="P3D",
            least=ORPHANS_LEAST,
        ),
        Option(
            name="location",
            kind=Kind.TEXT,
            about="where to look",
            place=Place.ARGUMENT,
            default="the table's location",
        ),
        Option(
            name="dry_run", kind=Kind.BOOL, about="list them, remove nothing", place=Place.ARGUMENT, default="false"
        ),
        Option(
            name="file_list_view",
            kind=Kind.TEXT,
            about="a view with file_path and last_modified to take instead of a listing",
            place=Place.ARGUMENT,
        ),
        Option(name="equal_schemes", kind=Kind.MAP, about="schemes that mean the same storage", place=Place.ARGUMENT),
        Option(
            name="equal_authorities",
            kind=Kind.MAP,
            about="authorities that mean the same storage",
            place=Place.ARGUMENT,
        ),
        Option(
            name="prefix_mismatch_mode",
            kind=Kind.TEXT,
            about="what to do about files whose scheme or authority differs",
            place=Place.ARGUMENT,
            default="ERROR",
            words=("ERROR", "IGNORE", "DELETE"),
        ),
        Option(
            name="prefix_listing",
            kind=Kind.BOOL,
            about="list by prefix, through the table's own FileIO",
            place=Place.ARGUMENT,
            default="false",
        ),
        _STREAM,
        _DELETES,
        Option(
            name="max_share",
            kind=Kind.NUMBER,
            about="refuse where more than this share of all files would go",
            place=Place.OURS,
            default="0.05",
            least=0,
            most=1,
        ),
    ),
    Operation.COMPUTE_PARTITION_STATS: (_SNAPSHOT,),
    Operation.COMPUTE_TABLE_STATS: (
        _SNAPSHOT,
        Option(name="columns", kind=Kind.TEXTS, about="of which columns", place=Place.ARGUMENT, default="all that can"),
    ),
}

OPTIONS: dict[Operation, dict[str, Option]] = {
    operation: {option.name: option for option in options} for operation, options in _OF.items()
}
"""Operation -> name -> option."""
