"""One attempt of a maintenance run: an operation on a table, in a warm driver's session of its own.

What is done: the table's metadata is read, the plan is made by it (`lake.estimating`), nothing is launched where it
would change nothing, and else the procedure is called, under the attempt's tag. What it changed is then counted from
the table's snapshots, not from what the procedure says, which counts groups of files that were never committed.

Procedures commit from where no stamp reaches (see `pipeline.stamps`). Their snapshots are known all the same: they
arrange anew (`replace`), carry this driver's app id, and came while this run had the table for itself.

What if it is cancelled: the jobs of its tag are cancelled until it has ended; a procedure with partial progress returns
as if nothing had happened, so our own flag decides. What was committed until then stays and is counted. What if the
driver is killed in the middle: what was not committed is no part of the table; the files are left as orphans. The next
attempt plans anew from what the table is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.operations import REWRITES_ROWS, Operation
from tidegate.lake.assessing import TableFiles, health_of, open_table
from tidegate.lake.estimating import Plan, asked, in_steps, plan, with_options
from tidegate.lake.orphans import known_files, refuse_many, refuse_unsafe
from tidegate.lake.procedures import call, quoted
from tidegate.pipeline.neighbours import database_now, neighbours
from tidegate.pipeline.outcome import Counted, counted
from tidegate.pipeline.sql_attempt import SqlAttempt, error_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES = 3
"""Of an operation that a writer's commit defeats, each in smaller steps than the one before."""
_SMALLER = 8
_LISTED = 20
"""So many orphan files stand in the log."""
_CONFLICT = re.compile(
    r"CommitFailedException|found new (\w+ )?deletes? for replaced data file|Missing required files to delete"
    r"|Found conflicting files|Found new conflicting|Requirement failed"
)
_FAULTS = (
    (re.compile(r"NoSuchTableException|NoSuchNamespaceException|table does not exist", re.I), "maintenance.no_table"),
    (_CONFLICT, "maintenance.conflict"),
    (re.compile(r"CommitStateUnknownException"), "maintenance.commit_unknown"),
    (re.compile(r"UncheckedSQLException|PSQLException|ServiceUnavailable|ConnectException"), "lake.catalog"),
    (
        re.compile(r"NotFoundException|FileNotFoundException|RuntimeIOException|FileNotFoundError"),
        "maintenance.unreadable",
    ),
)


class CareAttempt(SqlAttempt):
    """Runs in the thread that calls `run`; `cancel` comes from another."""

    _session: SparkSession | None = None
    _before: TableFiles | None = None
    _plan: Plan | None = None
    _conflicts = 0

    def _run(self, session: SparkSession, own_jvm: bool) -> dict[str, Any] | None:
        arguments = self.order.arguments
        table, operation, options = asked(arguments)
        session.sparkContext.addJobTag(self.tag)
        # What loads a table outside a statement takes its catalogs from the session that is active in this thread.
        session.sparkContext._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        self._session = session
        now = database_now(self.spec)
        before = self._open(table)
        made = plan(table, operation, options, before, keep=_numbers(arguments.get("keep_snapshots")), now=now)
        if operation is Operation.REMOVE_ORPHAN_FILES:
            refuse_unsafe(table, before, options, neighbours(self.spec, table))
        self._before, self._plan = before, made
        self.log(f"{operation} on {table}: {made.prediction.why}")
        if made.prediction.noop and not arguments.get("force"):
            return self._note("noop", f"Nothing to do: {made.prediction.why}", before)
        self.log(_shortened(made.statement))
        if operation is Operation.REMOVE_ORPHAN_FILES:
            return self._remove_orphans(session, made, before, now)
        if arguments.get("dry_run"):
            return self._note("dry_run", made.prediction.why, before)
        self._until_done(session, made, now)
        self._check_cancelled()
        after = self._open(table)
        return self._note("done", "", after)

    # ── doing it ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _until_done(self, session: SparkSession, made: Plan, now: Instant) -> None:
        """Call the procedure; what a writer defeats is tried again, in smaller steps."""
        for left in reversed(range(TRIES)):
            self._check_cancelled()
            try:
                session.sql(made.statement).collect()
                return
            except Exception as fault:
                if self._cancelled.is_set() or not _is_conflict(fault):
                    raise
                self._conflicts += 1
                if not left:
                    raise
                made = self._smaller(made, now)
                self.log(f"A writer was faster: {error_of(fault)['message'].splitlines()[0][:200]}")
                self.log(made.statement)

    def _smaller(self, made: Plan, now: Instant) -> Plan:
        if made.operation not in REWRITES_ROWS:
            return made
        given = made.options.get("max-file-group-size-bytes")
        size = given if isinstance(given, int) else made.prediction.bytes or made.health.data_bytes or 1 << 30
        group = max(1 << 20, size // _SMALLER)
        return with_options(made, in_steps({**made.options, "max-file-group-size-bytes": group}, group), now)

    def _remove_orphans(self, session: SparkSession, made: Plan, before: TableFiles, now: Instant) -> dict[str, Any]:
        """Look first, then remove, unless it would be too much; both by the age that was looked at."""
        looking = call(made.table, made.operation, {**made.options, "dry_run": True}, now)
        found = [row[0] for row in session.sql(looking).collect()]
        for one in found[:_LISTED]:
            self.log(f"orphan: {one}")
        self._check_cancelled()
        if not found:
            return self._note("noop", "Nothing to do: it has no orphan files.", before)
        many = f"{len(found)} orphan file{'' if len(found) == 1 else 's'}"
        if self.order.arguments.get("dry_run") or made.options.get("dry_run"):
            return self._note("dry_run", f"{many} would be removed.", before, orphans=len(found))
        refuse_many(made.table, len(found), known_files(self._open(made.table)), made.options)
        removed = session.sql(call(made.table, made.operation, made.options, now)).collect()
        self._check_cancelled()
        return self._note("done", f"{many} removed.", self._open(made.table), orphans=len(removed))

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, how: str, message: str, after: TableFiles, *, orphans: int = 0) -> dict[str, Any]:
        assert self._before is not None and self._plan is not None and self._session is not None
        made = self._plan
        result = self._counted(after, orphans if how == "done" else 0)
        told = message or result.sentence(made.operation)
        self.log(told)
        more = {
            "statement": _shortened(made.statement),
            "predicted": {
                "removes": made.prediction.removes,
                "files": made.prediction.files,
                "bytes": made.prediction.bytes,
            },
            "kept_snapshots": len(made.kept),
            "small_steps": made.small_steps,
            "orphans": orphans,
            "conflicts": self._conflicts,
        }
        return {"code": f"maintenance.{how}", "message": told, "result": {**result.told(), **more}}

    def _counted(self, after: TableFiles, orphans: int = 0) -> Counted:
        assert self._before is not None and self._plan is not None and self._session is not None
        app = str(self._session.sparkContext.applicationId)
        return counted(
            self._plan.health, self._before, health_of(after, self._plan.health.assessed_at), after, app, orphans
        )

    def _also(self, fault: BaseException) -> dict[str, Any]:
        """What was committed before it failed or was cancelled."""
        if self._plan is None:
            return {}
        more: dict[str, Any] = {"conflicts": self._conflicts}
        try:
            result = self._counted(self._open(self._plan.table))
        except Exception as unreadable:  # it may be gone, or its catalog
            self.log(f"What was changed cannot be counted: {error_of(unreadable)['message'].splitlines()[0][:200]}")
            return {"result": more}
        self.log(f"Until then: {result.sentence(self._plan.operation)}")
        return {"result": result.told() | more}

    def _error(self, fault: BaseException) -> dict[str, Any]:
        """Which kind of fault it was, in the words of its cause."""
        error = error_of(fault)
        if isinstance(fault, TidegateError):
            return error
        whole = f"{type(fault).__name__} {error['message']} {_causes(fault)}"
        code = next((code for pattern, code in _FAULTS if pattern.search(whole)), None)
        if code is None:
            return error
        return {"code": code, "message": f"{_ADVICE.get(code, '')} {error['message'].splitlines()[0][:600]}".strip()}

    # ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, table: str) -> TableFiles:
        """The table as its catalog has it now. Raises what Java raises, or the storage."""
        assert self._session is not None
        jvm = self._session.sparkContext._jvm
        found = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self._session._jsparkSession, quoted(table))
        location = found.operations().current().metadataFileLocation()
        try:
            properties = {str(name): str(value) for name, value in dict(found.io().properties()).items()}
        except Exception:  # an implementation may have none to tell
            properties = {}
        return open_table(str(location), properties)


_ADVICE: Mapping[str, str] = {
    "maintenance.no_table": "The table is not there, or not any more.",
    "maintenance.conflict": "Writers were faster each time; it is tried again later.",
    "maintenance.commit_unknown": "Whether the commit happened is not known; the next run sees it.",
    "lake.catalog": "The catalog does not answer.",
    "maintenance.unreadable": "Files of the table cannot be read.",
}


def _shortened(statement: str) -> str:
    """Thousands of snapshots may stand in it."""
    return statement if len(statement) <= 2_000 else f"{statement[:1_900]} ... {statement[-90:]}"


def _is_conflict(fault: BaseException) -> bool:
    return bool(_CONFLICT.search(f"{fault} {_causes(fault)}"))


def _causes(fault: BaseException) -> str:
    """The chain of Java exceptions behind a fault, as `class: message`."""
    java = getattr(fault, "java_exception", None) or getattr(fault, "_origin", None)
    said: list[str] = []
    try:
        while java is not None and len(said) < 10:
            said.append(str(java.toString()).split("\n")[0][:500])
            java = java.getCause()
    except Exception:  # the JVM may be gone
        said.append("?")
    return " | ".join(said)


def _numbers(given: Any) -> tuple[int, ...]:
    return tuple(int(one) for one in given) if isinstance(given, list | tuple) else ()
