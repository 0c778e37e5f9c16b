"""What a maintenance operation changed, counted from the table before and after, and from the snapshots of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.domain.lake import REARRANGED
from tidegate.domain.maintenance.health import TableHealth, size
from tidegate.domain.maintenance.operations import Operation
from tidegate.lake.assessing import TableFiles

_PAIRS = {
    "files": "data_files",
    "bytes": "data_bytes",
    "delete_files": "delete_files",
    "rows": "rows",
    "manifests": "manifests",
    "snapshots": "snapshots",
}
"""Figures that are told as they were before and after: by the name they are told by, and a health's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """`before`, `after`: figures of the table; a writer's commits in between are in them. The others count only what
    this operation's own commits did: files by what they read and wrote, snapshots by what is gone."""

    snapshot_before: int | None
    snapshot_after: int | None
    before: Mapping[str, int | None]
    after: Mapping[str, int | None]
    commits: int = 0
    files_rewritten: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_added: int = 0
    delete_files_removed: int = 0
    manifests_rewritten: int = 0
    manifests_added: int = 0
    snapshots_expired: int = 0
    orphans_removed: int = 0
    statistics: bool = False

    @property
    def files_removed(self) -> int:
        """By how many the data files became fewer."""
        return self.files_rewritten - self.files_added

    @property
    def changed(self) -> bool:
        """Whether it did anything: another order of the same many files counts, a commit of nothing does not."""
        return bool(
            self.files_rewritten
            or self.delete_files_removed
            or self.manifests_rewritten != self.manifests_added
            or self.snapshots_expired
            or self.orphans_removed
            or self.statistics
        )

    def told(self) -> dict[str, Any]:
        """For the ledger: flat, `files_before` and so on."""
        said = {name: value for name, value in asdict(self).items() if name not in ("before", "after")}
        pairs = {f"{name}_before": self.before[name] for name in _PAIRS}
        pairs |= {f"{name}_after": self.after[name] for name in _PAIRS}
        return said | pairs | {"files_removed": self.files_removed, "changed": self.changed}

    def sentence(self, operation: Operation) -> str:
        """For a person."""
        if not self.changed:
            return "Nothing changed."
        match operation:
            case Operation.REWRITE_DATA_FILES:
                also = f", {self.delete_files_removed} delete files removed" if self.delete_files_removed else ""
                read = size(self.bytes_rewritten)
                return f"{self.files_rewritten} data files ({read}) became {self.files_added}{also}."
            case Operation.REWRITE_POSITION_DELETE_FILES:
                return f"{self.delete_files_removed} delete files were rewritten or removed."
            case Operation.REWRITE_MANIFESTS:
                return f"{self.manifests_rewritten} manifests became {self.manifests_added}."
            case Operation.EXPIRE_SNAPSHOTS:
                return f"{self.snapshots_expired} snapshots expired."
            case Operation.REMOVE_ORPHAN_FILES:
                return f"{self.orphans_removed} orphan files removed."
            case _:
                return "Statistics were written."


def counted(
    was: TableHealth, before: TableFiles, now: TableHealth, after: TableFiles, app: str, orphans: int = 0
) -> Counted:
    """`app`: the Spark application whose commits are this operation's. Summaries are Iceberg's own count of what a
    commit really held."""
    known = before.snapshots
    fresh = [one for number, one in after.snapshots.items() if number not in known]
    own = [summary for one in fresh if _is_ours(summary := one.get("summary") or {}, app)]
    return Counted(
        snapshot_before=was.snapshot,
        snapshot_after=now.snapshot,
        before={name: getattr(was, figure) for name, figure in _PAIRS.items()},
        after={name: getattr(now, figure) for name, figure in _PAIRS.items()},
        commits=len(own),
        files_rewritten=_sum(own, "deleted-data-files"),
        files_added=_sum(own, "added-data-files"),
        bytes_rewritten=_sum(own, "removed-files-size"),
        bytes_added=_sum(own, "added-files-size"),
        delete_files_removed=_sum(own, "removed-delete-files"),
        manifests_rewritten=_sum(own, "manifests-replaced"),
        manifests_added=_sum(own, "manifests-created") if any("manifests-replaced" in one for one in own) else 0,
        snapshots_expired=sum(1 for number in known if number not in after.snapshots),
        orphans_removed=orphans,
        statistics=any(_paths(after, name) - _paths(before, name) for name in ("statistics", "partition-statistics")),
    )


def _is_ours(summary: Mapping[str, str], app: str) -> bool:
    return summary.get("operation") == REARRANGED and app in (summary.get("app-id"), summary.get("spark.app.id"))


def _sum(summaries: list[Mapping[str, str]], name: str) -> int:
    return sum(int(one.get(name, 0)) for one in summaries)


def _paths(files: TableFiles, name: str) -> set[str]:
    return {one["statistics-path"] for one in files.metadata.get(name) or ()}
