"""A table in PostgreSQL: every event a row, whose id makes a repetition harmless, so there is each event once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors, sql

from tidegate.documents.references import revealed
from tidegate.domain.instants import to_datetime
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.postgres import watchful
from tidegate.ports.sinks import Delivery, Message
from tidegate.sinks.background import BackgroundSink

_ANSWER = 60.0
"""Seconds for one delivery; the server itself gives up a statement after 30, if it is there."""
_MAKE = """
CREATE TABLE IF NOT EXISTS {} (
    id text PRIMARY KEY, at timestamptz NOT NULL, type text NOT NULL, key text, schedule text, event jsonb NOT NULL
)"""
_INSERT = """
INSERT INTO {} (id, at, type, key, schedule, event)
SELECT * FROM unnest(%s::text[], %s::timestamptz[], %s::text[], %s::text[], %s::text[], %s::jsonb[])
ON CONFLICT (id) DO NOTHING"""


class TableSink(BackgroundSink):
    """`url`: of Tidegate's own database, where the document names none."""

    def __init__(self, name: str, spec: SinkSpec, url: str, changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._name = f"tidegate-sink-{name}"
        self._url = spec.url or url
        self._password = revealed(spec.secret) if spec.secret else None
        self._place = sql.Identifier(*spec.table.split("."))
        self._connection: AsyncConnection | None = None

    async def deliver(self, messages: Sequence[Message]) -> Delivery:
        try:
            async with asyncio.timeout(_ANSWER):
                return await self._deliver(messages)
        except (psycopg.Error, OSError) as fault:
            await self._part()
            told = str(fault).strip() or (
                f"no answer for {_ANSWER:g} s" if isinstance(fault, TimeoutError) else type(fault).__name__
            )
            said = told.splitlines()[0]
            return Delivery(passed=0, fault=f"The table does not take them: {said.rstrip('.')}.")

    async def _deliver(self, messages: Sequence[Message]) -> Delivery:
        connection = await self._connect()
        try:
            await self._write(connection, messages)
            return Delivery(passed=len(messages))
        except (errors.DataError, errors.IntegrityError, errors.RaiseException):
            return await self._singly(connection, messages)

    async def close(self) -> None:
        await super().close()
        await self._part()

    async def _singly(self, connection: AsyncConnection, messages: Sequence[Message]) -> Delivery:
        """One of them is refused, perhaps by a rule that somebody gave the table: find out which."""
        refused: list[tuple[int, str]] = []
        for place, one in enumerate(messages):
            try:
                await self._write(connection, [one])
            except (errors.DataError, errors.IntegrityError, errors.RaiseException) as fault:
                refused.append((place, f"the table refuses it: {str(fault).strip().splitlines()[0]}"))
        return Delivery(passed=len(messages), refused=tuple(refused))

    async def _write(self, connection: AsyncConnection, messages: Sequence[Message]) -> None:
        said = [json.loads(one.body) for one in messages]
        columns = (
            [one.id for one in messages],
            [to_datetime(one.at) for one in messages],
            [one.type for one in messages],
            [one["key"] for one in said],
            [one["schedule"] for one in said],
            [one.body.decode() for one in messages],
        )
        await connection.execute(sql.SQL(_INSERT).format(self._place), columns)

    async def _connect(self) -> AsyncConnection:
        if self._connection is None or self._connection.closed:
            given: dict[str, Any] = {"password": self._password} if self._password is not None else {}
            connection = await AsyncConnection.connect(
                self._url, autocommit=True, application_name=self._name, **watchful(self._url), **given
            )
            self._connection = connection
            await connection.execute("SET statement_timeout = '30s'")
            schema = sql.Identifier(self._place._obj[0])
            there = await connection.execute("SELECT to_regclass(%s)", (".".join(self._place._obj),))
            if (await there.fetchone() or (None,))[0] is None:
                with suppress(errors.InsufficientPrivilege):  # the schema may be there, and somebody else's
                    await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
                await connection.execute(sql.SQL(_MAKE).format(self._place))
        return self._connection

    async def _part(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()
