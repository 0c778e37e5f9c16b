"""What a maintenance run is given, by the names that the one who starts it and the one who carries it out share."""

from __future__ import annotations

KEEP = "keep_snapshots"
"""Snapshots that cursors and pinned inputs read on from when the run is made: these and all that follow do not expire,
nor what is needed when it begins. As text, since JavaScript would round them."""
FORCE = "force"
"""Launch also what is predicted to change nothing."""
DRY_RUN = "dry_run"
"""Only say what it would do."""
AFTER = "after"
"""Earlier runs on the table that died at work, as `{run, begun, ended}` (microseconds): what they left is told."""
