"""What can be done to a table, and in which order.

The order of the members is the order in which operations of one table follow each other: each leaves behind what the
next one clears away. Rewritten data files strand delete files and manifests, manifests hang on snapshots, what expiry
could not delete becomes an orphan, and statistics are made of the table that all of that left.
"""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """A maintenance operation, by the name of the Iceberg procedure that does it."""

    REWRITE_DATA_FILES = "rewrite_data_files"
    """Small and oversized data files become files of the target size; row-level deletes are applied."""
    REWRITE_POSITION_DELETE_FILES = "rewrite_position_delete_files"
    """Small position delete files become fewer, those that point nowhere go."""
    REWRITE_MANIFESTS = "rewrite_manifests"
    """Many small manifests become few, in the order of the partitions."""
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    """Old snapshots go, with the files that only they need."""
    REMOVE_ORPHAN_FILES = "remove_orphan_files"
    """Files under the table's location go that no snapshot knows."""
    COMPUTE_PARTITION_STATS = "compute_partition_stats"
    """Rows, files and sizes per partition are written down for planners."""
    COMPUTE_TABLE_STATS = "compute_table_stats"
    """Distinct values per column are written down for planners."""


ORDER: dict[Operation, int] = {operation: place for place, operation in enumerate(Operation)}
"""Of several operations that are due on one table the lower one goes first."""

REWRITES_ROWS = frozenset({Operation.REWRITE_DATA_FILES, Operation.REWRITE_POSITION_DELETE_FILES})
"""Those whose commit a concurrent row-level delete can defeat."""
