"""When removing orphan files is not safe: what is checked before, and again with the list of files in hand."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.errors import Refused
from tidegate.domain.maintenance.accepted import ORPHANS_LEAST
from tidegate.domain.maintenance.options import Options
from tidegate.lake.assessing import TableFiles

SHARE = 0.05
"""More than this share of all files are never removed unless somebody says so."""
_CODE = "maintenance.orphans"


def refuse_unsafe(table: str, files: TableFiles, options: Options, neighbours: Mapping[str, str]) -> None:
    """Raises Refused where a file of somebody else could go. `neighbours`: other tables of the catalog, by name, with
    their locations."""
    older = options.get("older_than", ORPHANS_LEAST)
    if not isinstance(older, int) or older < ORPHANS_LEAST:
        raise Refused(
            "Files younger than 3 days are never removed as orphans.",
            remedy="Leave out older_than, or give at least P3D.",
            code=_CODE,
        )
    if files.properties.get("gc.enabled", "true").lower() == "false":
        raise Refused(
            f"{table} has gc.enabled=false: its files may belong to another table too.",
            remedy="Set it to true only where no other table uses the files.",
            code=_CODE,
        )
    own = plain(files.metadata["location"])
    where = options.get("location")
    if isinstance(where, str) and (not _inside(plain(where), own) or ".." in where.split("/")):
        raise Refused(
            f"{where} is not in the location of {table}, {files.metadata['location']}.",
            remedy="Leave out `location`, or name a folder below the table's.",
            code=_CODE,
        )
    for name, location in sorted(neighbours.items()):
        other = plain(location)
        if name != table and (_inside(other, own) or _inside(own, other)):
            raise Refused(
                f"{table} shares its location with {name} ({location}): files of one look like orphans of the other.",
                remedy="Give each table a location of its own before orphan files are removed.",
                code=_CODE,
            )


def refuse_many(table: str, orphans: int, live: int, options: Options) -> None:
    """Raises Refused when too many of all files would go: most likely the listing or the table is not what it seems."""
    given = options.get("max_share", SHARE)
    most = float(given) if isinstance(given, int | float) else SHARE
    share = orphans / (orphans + live) if orphans else 0.0
    if share > most:
        raise Refused(
            f"{orphans} of {orphans + live} files below {table} look like orphans ({share:.0%}); at most {most:.0%} are"
            " removed at once.",
            remedy="Look at them with a dry run; if they are orphans indeed, raise max_share.",
            code=_CODE,
        )


def known_files(files: TableFiles) -> int:
    """How many files a table's metadata knows: data, deletes, manifests, lists, statistics, metadata. A file that was
    removed by a snapshot that is still there counts as known."""
    lists = [one for one in files.snapshots.values() if "manifest-list" in one]
    manifests = {one.path: one for snapshot in lists for one in files.manifests(snapshot)}
    content = sum(one.files or 0 for one in manifests.values())
    extra = sum(len(files.metadata.get(name) or ()) for name in ("statistics", "partition-statistics", "metadata-log"))
    return content + len(manifests) + len(lists) + extra + 1


def plain(location: str) -> str:
    """A location that can be compared: without the ways in which `file:` is written, without slashes at its end."""
    scheme, mark, rest = location.partition(":")
    if not mark or "/" in scheme:
        return location.rstrip("/") + "/"
    return (("/" + rest.lstrip("/")) if scheme == "file" else location).rstrip("/") + "/"


def table_location(metadata_location: str) -> str:
    """Where a table most likely is, by where its metadata file is."""
    folder, _, _ = metadata_location.rpartition("/")
    return folder.removesuffix("/metadata")


def _inside(inner: str, outer: str) -> bool:
    return inner.startswith(outer)
