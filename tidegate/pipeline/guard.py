"""What a program's `spark.sql` does before Spark sees the statement, when it speaks Connect to a warm driver.

Some statements commit past the session's stamp (see `pipeline.stamps`). Over Connect they are handed to the driver,
which runs them in this very session, in a thread that carries the stamp; a procedure is refused, since only a JVM of
its own can stamp what it commits.
"""

from __future__ import annotations

import re
from typing import Any

from tidegate.domain.errors import Invalid, Refused, TidegateError
from tidegate.pipeline.statements import Door, split
from tidegate.pipeline.wire import Caller

_SUSPECT = re.compile(r"\b(DELETE|TRUNCATE|CALL|BEGIN|EXECUTE)\b", re.IGNORECASE)


def install(driver: Caller) -> None:
    """Guard every Connect session of this process."""
    from pyspark.sql.connect.session import SparkSession

    plain = SparkSession.sql

    def sql(self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        door = door_of(str(sqlQuery))
        if door is Door.SESSION:
            return plain(self, sqlQuery, args, **kwargs)
        if door is Door.OWN_JVM:
            raise Refused(
                "CALL is not possible in a shared driver: what it commits could not carry this run's key.",
                remedy="Give the program `isolation: process`.",
                code="spark.isolation",
            )
        if kwargs:
            raise Refused(
                "DELETE and TRUNCATE take no keyword values here.",
                remedy="Use spark.sql(text, args={...}) with :name markers.",
                code="spark.sql",
            )
        answer = driver.call("sql", text=sqlQuery, args=args)
        if not answer["ok"]:
            raise TidegateError(answer["message"], code=answer["code"])
        return plain(self, f"SELECT * FROM {answer['view']}" if answer["view"] else "SELECT 1 WHERE false")

    SparkSession.sql = sql


def door_of(sql: str) -> Door:
    """Which way a single statement has to take. What cannot be read goes to Spark, which says what is wrong."""
    if not _SUSPECT.search(sql):
        return Door.SESSION
    try:
        doors = {statement.door for statement in split(sql)}
    except Invalid:
        return Door.SESSION
    for door in (Door.OWN_JVM, Door.DRIVER_THREAD):
        if door in doors:
            return door
    return Door.SESSION
