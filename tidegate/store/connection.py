"""Connections to PostgreSQL: a small pool, transactions in pipeline mode, and one place that reads driver errors.

A transaction sends statements without waiting for their answers; only asking for rows waits. BEGIN, the fence and the
first query therefore travel together, and so do the last writes and COMMIT. Every connection carries
`idle_in_transaction_session_timeout`, so that a process frozen in the middle of a transaction gives its row locks back.

What if the database goes away: everything raises `Unavailable` at once, idle connections are dropped, and the next
call connects anew, so nothing has to be restarted by hand. A connection lost while COMMIT was under way raises
`CommitUnknown`: only then may the transaction have happened.

What if all connections of the pool are in use: a caller waits for one for `TURN`, and is then told so. Whoever holds
one asks nothing for which another is needed (`ports.tables.TablesTx` reads on its own), or all might wait for ever.

What if it never answers while the connection stays up, as behind a pooler whose server is gone: nothing is waited for
longer than the server itself allows, and a little (`bounded`).
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncPipeline, errors
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from tidegate.domain.errors import UNSTORABLE, CommitUnknown, Conflict, Refused, TidegateError, Unavailable
from tidegate.ports.postgres import cut, watchful
from tidegate.store import arrays
from tidegate.store.sql import Query

log = logging.getLogger(__name__)

Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = AsyncConnection[Row]
Cursor: TypeAlias = AsyncCursor[Row]

# Plans must not depend on statistics that are out of date at the very moment they matter (a table that grew from
# nothing to a million rows in seconds): every statement here has an index to use, and one plan to keep.
_SESSION = b"""
SET idle_in_transaction_session_timeout = '2s';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_mergejoin = off;
SET jit = off;
SET timezone = 'UTC';
"""
_LONGEST = b"SET transaction_timeout = '10s'"  # also where a process froze between two statements of a pipeline
_UNHURRIED = b"SET transaction_timeout = 0"
_PATIENT = ("SET LOCAL transaction_timeout = 0", "SET LOCAL transaction_timeout = '5min'")
"""A clock that runs is set anew only after it was stopped."""
ANSWER, ANSWER_PATIENT = 15.0, 310.0
"""Seconds after which an answer does not come any more: the server has given up before."""
TURN = 60.0
"""Seconds for which a caller waits for a connection while all are in use."""
_NEVER = 1 << 30
"""What is not said to be prepared never is. (None would mean that nothing is, said or not.)"""


class Session:
    """One connection, for as long as a caller has it; inside a transaction, with its pipeline."""

    __slots__ = ("connection", "_pipeline")

    def __init__(self, connection: Connection, pipeline: AsyncPipeline | None = None) -> None:
        self.connection = connection
        self._pipeline = pipeline

    async def send(self, query: Query, /, **parameters: Any) -> Cursor:
        """Send a statement; in a transaction without waiting. Its rows, or its error, come with the cursor's fetch."""
        cursor = self.connection.cursor(binary=True)
        if self._pipeline is not None:  # the transaction as a whole is bounded
            await cursor.execute(query.sql, parameters, prepare=True)
        else:
            with bounded(self.connection):
                await cursor.execute(query.sql, parameters, prepare=True)
        return cursor

    async def rows(self, query: Query, /, **parameters: Any) -> list[Row]:
        """Send a statement and wait for its rows.

        Waiting synchronises the pipeline, which is what makes the server count a transaction as idle: one that was
        merely flushed would keep its locks for as long as its process is frozen.
        """
        cursor = await self.send(query, **parameters)
        if self._pipeline is not None:
            await self._pipeline.sync()
        return await cursor.fetchall()

    async def row(self, query: Query, /, **parameters: Any) -> Row | None:
        """Send a statement and wait for its first row."""
        found = await self.rows(query, **parameters)
        return found[0] if found else None


class Database:
    """A pool of at most `size` connections, made when first needed. One event loop at a time."""

    def __init__(self, url: str, *, name: str = "tidegate", size: int = 8) -> None:
        self.url = url
        self._parameters = watchful(url)
        self._name = name
        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    async def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._closed = True
        await self._drop_idle()

    async def connect(self, purpose: str = "", *, hurried: bool = True) -> Connection:
        """A connection outside the pool, in autocommit. Its user closes it. Not `hurried`: no transaction of it is
        ended because it took long; its user bounds its statements (`statement_timeout`)."""
        name = f"{self._name} {purpose}".strip()
        try:
            connection: Connection = await AsyncConnection.connect(
                self.url, autocommit=True, application_name=name, prepare_threshold=_NEVER, **self._parameters
            )
        except psycopg.Error as error:
            raise translate(error) from error
        try:
            arrays.register(connection)
            set_json_loads(from_json, connection)  # a fifth of the time of the standard library's
            connection.prepared_max = 1000
            with bounded(connection):
                await connection.execute(_SESSION)
                if connection.info.server_version >= 170000:
                    await connection.execute(_LONGEST if hurried else _UNHURRIED)
        except psycopg.Error as error:
            await connection.close()
            raise translate(error) from error
        return connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection for single statements, each its own transaction."""
        async with self._borrowed() as connection:
            try:
                yield Session(connection)
            except psycopg.Error as error:
                raise translate(error) from error

    async def rows(self, query: Query, /, **parameters: Any) -> list[Row]:
        """The rows of one statement by itself."""
        async with self.session() as session:
            return await session.rows(query, **parameters)

    async def row(self, query: Query, /, **parameters: Any) -> Row | None:
        """The first row of one statement by itself."""
        async with self.session() as session:
            return await session.row(query, **parameters)

    async def execute(self, query: Query, /, **parameters: Any) -> None:
        """One statement by itself, whatever it answers."""
        async with self.session() as session:
            await session.send(query, **parameters)

    @asynccontextmanager
    async def transaction(self, *, patient: bool = False) -> AsyncIterator[Session]:
        """A transaction: leaving commits, leaving by an exception rolls back. It may take ten seconds; a `patient` one,
        of a person who declares thousands of schedules at once, five minutes.

        Raises CommitUnknown when the connection was lost while committing, Unavailable when it was lost before.
        """
        async with self._borrowed() as connection:
            committing = False
            try:
                with bounded(connection, ANSWER_PATIENT if patient else ANSWER):
                    async with connection.pipeline() as pipeline:
                        await connection.execute("BEGIN", prepare=True)
                        if patient and connection.info.server_version >= 170000:
                            await connection.execute(_PATIENT[0], prepare=True)
                            await connection.execute(_PATIENT[1], prepare=True)
                        yield Session(connection, pipeline)
                        committing = True
                        done = await connection.execute("COMMIT", prepare=True)
                if done.statusmessage != "COMMIT":
                    raise Unavailable("The transaction was rolled back by the database.", code="rolled_back")
            except psycopg.Error as error:
                raise translate(error, committing=committing) from error

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Connection]:
        await self._turn()
        try:
            connection = self._pop_idle() or await self.connect()
            try:
                yield connection
            except BaseException:
                await self._restore(connection)
                raise
            self._idle.append(connection)
            if self._closed:
                await self._drop_idle()
        finally:
            self._slots.release()

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(TURN):
                await self._slots.acquire()
        except TimeoutError:
            raise Unavailable(
                f"Each of this process's {self._size} connections to the database was in use for {TURN:g} s.",
                remedy="Ask again; if it comes often, raise database.connections.",
                code="connections_busy",
            ) from None

    def _pop_idle(self) -> Connection | None:
        """The most recently used idle connection on which nothing has happened since: a word from the server, or the
        end of the stream, means that it was cut."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                poll = select.poll()
                poll.register(connection.fileno(), select.POLLIN)
                if not poll.poll(0):
                    return connection
                connection.pgconn.finish()
        return None

    async def _restore(self, connection: Connection) -> None:
        """After an exception: make the connection usable again, or part with it."""
        status = connection.info.transaction_status
        idle, failed = psycopg.pq.TransactionStatus.IDLE, psycopg.pq.TransactionStatus.INERROR
        if status in (failed, psycopg.pq.TransactionStatus.INTRANS):
            with suppress(Exception), bounded(connection, 5):
                await connection.execute("ROLLBACK", prepare=False)
                status = connection.info.transaction_status
        if status == idle and not connection.closed:
            self._idle.append(connection)
            return
        await connection.close()
        if status == psycopg.pq.TransactionStatus.UNKNOWN:
            await self._drop_idle()  # the server went away: the others are dead too

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


@contextmanager
def bounded(connection: Connection, seconds: float | None = None) -> Iterator[None]:
    """What waits longer than `seconds` (`ANSWER`) in here for the server is told that the connection was lost."""
    seconds = ANSWER if seconds is None else seconds
    alarm = asyncio.get_running_loop().call_later(seconds, _give_up, connection, seconds)
    try:
        yield
    finally:
        alarm.cancel()


def _give_up(connection: Connection, seconds: float) -> None:
    if not connection.closed:
        log.warning("The database took a question and did not answer for %g s; that connection is given up.", seconds)
        cut(connection)


async def knock(url: str) -> None:
    """Raises Unavailable unless the database takes a connection."""
    connection = await Database(url, name="tidegate-knock", size=1).connect()
    await connection.close()


def translate(error: psycopg.Error, *, committing: bool = False) -> TidegateError | psycopg.Error:
    """What a driver error means to us; a programming error stays what it is."""
    said = error.diag.message_primary or str(error).strip() or type(error).__name__  # its details are for its own log
    match error:
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return Refused(
                f"The database does not have the schema of this version: {said}",
                remedy="Run `tidegate db upgrade`.",
                code="database_older",
            )
        case errors.UniqueViolation() | errors.ForeignKeyViolation() | errors.ExclusionViolation():
            return Conflict(said)
        case errors.DataError():
            return Refused(f"The database cannot hold it: {said}", code=UNSTORABLE)
        case errors.DiskFull():
            return Unavailable(f"The database's disk is full: {said}", remedy="Make room there.", code="disk_full")
        case errors.ReadOnlySqlTransaction():
            return Unavailable(
                "The database is read-only, so it is a standby.", remedy="Point to the primary.", code="read_only"
            )
        case errors.SerializationFailure() | errors.DeadlockDetected() | errors.LockNotAvailable():
            return Unavailable(f"Another transaction was in the way: {said}", code="contended")
        case errors.IdleInTransactionSessionTimeout():
            return Unavailable("This process slept inside a transaction; the database rolled it back.", code="slept")
        case errors.TransactionTimeout():
            return Unavailable(
                "A transaction took longer than it may, or this process slept in it; the database rolled it back.",
                code="too_long",
            )
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification() | errors.InvalidCatalogName():
            return Unavailable(
                f"The database refuses us: {said}", remedy="Check TIDEGATE_DATABASE_URL.", code="database_refuses"
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            # The server's own word for another reason than its end means that it did not commit.
            if committing and (error.sqlstate is None or error.sqlstate[:2] in ("08", "57", "58", "XX")):
                return CommitUnknown(f"The connection was lost while committing: {said}")
            return Unavailable(f"The database does not answer: {said}", code="database_unreachable")
        case _:
            return error
