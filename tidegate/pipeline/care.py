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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.domain.errors import TidegateError
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance import handover
from tidegate.domain.maintenance.operations import REWRITES_ROWS, Operation
from tidegate.lake.assessing import TableFiles, health_of, open_table
from tidegate.lake.estimating import Plan, asked, in_steps, plan, with_options
from tidegate.lake.orphans import known_files, refuse_many, refuse_unsafe
from tidegate.lake.procedures import call, quoted
from tidegate.pipeline.leftovers import Leftovers
from tidegate.pipeline.neighbours import database_now, neighbours, snapshots_needed
from tidegate.pipeline.outcome import Counted, counted
from tidegate.pipeline.sql_attempt import SqlAttempt, error_of
from tidegate.pipeline.told import causes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES = 3
"""Of an operation that a writer's commit defeats, each in smaller steps than the one before."""
_SMALLER = 8
_LISTED = 20
"""So many orphan files stand in the log."""
_CONFLICT = re.compile(
    r"CommitFailedException|found new (\w+ )?deletes? for replaced data file|Missing required files to delete"
    r"|Found conflicting files|Found new conflicting|Requirement failed|\d rewrite commits failed"
)
_FAILED_PARTS = re.compile(r"\d rewrite commits failed")
_MAY_FAIL = "partial-progress.max-failed-commits"
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
    _defeated = 0
    _left: Leftovers | None = None
    _io: Any = None

    def _run(self, session: SparkSession, own_jvm: bool) -> dict[str, Any] | None:
        arguments = self.order.arguments
        table, operation, options = asked(arguments)
        session.sparkContext.addJobTag(self.tag)
        # What loads a table outside a statement takes its catalogs from the session that is active in this thread.
        session.sparkContext._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        self._session = session
        now = database_now(self.spec)
        before = self._open(table)
        keep = set(_numbers(arguments.get(handover.KEEP)))
        if operation is Operation.EXPIRE_SNAPSHOTS:  # others may have begun to read since this run was made
            keep |= snapshots_needed(self.spec, table)
        made = plan(table, operation, options, before, keep=keep, now=now)
        if operation is Operation.REMOVE_ORPHAN_FILES:
            refuse_unsafe(table, before, options, neighbours(self.spec, table))
        self._before, self._plan = before, made
        self._left = Leftovers(arguments, self.order.stamp.attempt, now, self.log)
        self._left.look(before, self._io)
        self.log(f"{operation} on {table}: {made.prediction.why}")
        if made.prediction.noop and not arguments.get(handover.FORCE):
            return self._note("noop", f"Nothing to do: {made.prediction.why}", before)
        if operation is Operation.REMOVE_ORPHAN_FILES:
            self.log(_shortened(made.statement))
            return self._remove_orphans(session, made, before, now)
        if arguments.get(handover.DRY_RUN):
            self.log(_shortened(made.statement))
            return self._note("dry_run", made.prediction.why, before)
        self._until_done(session, made, now)
        self._check_cancelled()
        after = self._open(table)
        return self._note("done", "", after)

    # ── doing it ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _until_done(self, session: SparkSession, made: Plan, now: Instant) -> None:
        """Call the procedure; what a writer defeats is tried again, in smaller steps. With partial progress the answer
        says how many files could not be rewritten; that commits failed it says only where none may."""
        for left in reversed(range(TRIES)):
            self._check_cancelled()
            made = _strict(made, now)
            self.log(_shortened(made.statement))
            try:
                defeated = _defeated(session.sql(made.statement).collect())
                if not defeated:
                    return
                why = f"{defeated} data files"
            except Exception as fault:
                if self._cancelled.is_set() or not _is_conflict(fault):
                    raise
                done = 0
                if _FAILED_PARTS.search(str(fault)):
                    done, defeated = self._parts(made)
                    if defeated <= 0:  # it counts as many parts as there may be, also where there were fewer
                        return
                    self._defeated += defeated
                self._conflicts += 1
                if done and (not left or made.options.get("rewrite-all")):
                    return
                if not left:
                    raise
                why = error_of(fault)["message"].splitlines()[0][:200]
            else:
                self._check_cancelled()  # else it was cancelled, not defeated
                self._conflicts += 1
                self._defeated += defeated
                if not left or made.options.get("rewrite-all"):  # which would do again what is done
                    return
            made = self._smaller(made, now)
            self.log(f"A writer was faster: {why}")

    def _parts(self, made: Plan) -> tuple[int, int]:
        """Of a rewrite that commits in parts: how many data files were replaced so far, and how many were rewritten in
        vain; 1 where nobody knows how many there were to be."""
        assert self._plan is not None
        planned, done = self._plan.prediction.files, self._counted(self._open(made.table)).files_rewritten
        return done, 1 if planned is None else planned - done

    def _smaller(self, made: Plan, now: Instant) -> Plan:
        if made.operation not in REWRITES_ROWS:
            return made
        given = made.options.get("max-file-group-size-bytes")
        size = given if isinstance(given, int) else made.prediction.bytes or made.health.data_bytes or 1 << 30
        group = max(1 << 20, size // _SMALLER)
        options = in_steps({**made.options, "max-file-group-size-bytes": group}, group)
        _, _, chosen = asked(self.order.arguments)  # a person knows why
        return with_options(made, options | chosen, now)

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
        if self.order.arguments.get(handover.DRY_RUN) or made.options.get("dry_run"):
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
            "files_defeated": self._defeated,
            **(self._left.told(after) if self._left is not None else {}),
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
        more: dict[str, Any] = {"conflicts": self._conflicts, "files_defeated": self._defeated}
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
        chain = causes(fault)
        whole = f"{type(fault).__name__} {str(fault)[:4000]} {' | '.join(chain)}"
        found = next(((code, pattern) for pattern, code in _FAULTS if pattern.search(whole)), None)
        if found is None:
            return error
        code, pattern = found
        # The line that names the file or the table is deep down; above it stands that a call has failed.
        said = next((one for one in reversed(chain) if pattern.search(one)), error["message"].splitlines()[0])
        return {"code": code, "message": f"{_ADVICE.get(code, '')} {said[:600]}".strip()}

    # ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, table: str) -> TableFiles:
        """The table as its catalog has it now. Raises what Java raises, or the storage."""
        assert self._session is not None
        jvm = self._session.sparkContext._jvm
        found = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self._session._jsparkSession, quoted(table))
        location = found.operations().current().metadataFileLocation()
        self._io = found.io()
        try:
            properties = {str(name): str(value) for name, value in dict(self._io.properties()).items()}
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


def _strict(made: Plan, now: Instant) -> Plan:
    """A rewrite in parts that says when one of them failed; else it ends as if all had been well."""
    parts = made.operation is Operation.REWRITE_DATA_FILES and made.options.get("partial-progress.enabled") is True
    return with_options(made, {_MAY_FAIL: 0, **made.options}, now) if parts else made


def _is_conflict(fault: BaseException) -> bool:
    return bool(_CONFLICT.search(f"{fault} {' | '.join(causes(fault))}"))


def _defeated(answer: Sequence[Any]) -> int:
    """How many data files a rewrite with partial progress worked on in vain: it commits in parts, and goes on where a
    writer defeats one."""
    if not answer or "failed_data_files_count" not in getattr(answer[0], "__fields__", ()):
        return 0
    return int(answer[0]["failed_data_files_count"] or 0)


def _numbers(given: Any) -> tuple[int, ...]:
    return tuple(int(one) for one in given) if isinstance(given, list | tuple) else ()
