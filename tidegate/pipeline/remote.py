"""A session on a Spark Connect server that is somebody else's: deterministic, so that a stranger can find and end it.

Session and user are made from the attempt's identity. A client that is killed does not end what it asked the server to
do; so an attempt first interrupts and releases the sessions of the attempts before it.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tidegate.domain.errors import Refused
from tidegate.domain.ids import AttemptKey
from tidegate.domain.variables import looked_up
from tidegate.pipeline.stamps import Stamp

INTERRUPT_EVERY = 0.5
"""Seconds between two requests to interrupt what a session that is stopped does."""
_NAMES = uuid.UUID("8f5f0d3e-6f0f-5c0a-9d5e-7a1d2c3b4e5f")


def session_of(identity: str) -> str:
    """The session's id at the server: of one attempt always the same."""
    return str(uuid.uuid5(_NAMES, identity))


def address_of(remote: str, identity: str) -> str:
    """The connection string of an attempt's session. Raises Refused for what is none, or not there."""
    found = looked_up(remote, os.environ, "The address of the Spark Connect server", "the worker")
    if not found.startswith("sc://"):
        raise Refused("The address of the Spark Connect server is not like sc://HOST:PORT.", code="spark.remote")
    host, _, parameters = found.removeprefix("sc://").partition("/;")
    own = {"session_id": session_of(identity), "user_id": "tidegate"}
    given = [one for one in parameters.split(";") if one and one.partition("=")[0] not in own]
    return f"sc://{host.rstrip('/')}/;" + ";".join([*given, *(f"{name}={value}" for name, value in own.items())])


def open_remote(order: Mapping[str, Any], stamp: Stamp) -> Any:
    """The session, stamped; what earlier attempts left there is ended first."""
    from pyspark.sql.connect.session import SparkSession

    for number in range(1, stamp.attempt.number):
        earlier = AttemptKey(stamp.attempt.run, number).identity
        with suppress(Exception):  # it is gone already
            session = SparkSession.builder.remote(address_of(order["remote"], earlier)).create()
            print(f"tidegate: ending what {earlier} left at the server", file=sys.stderr, flush=True)
            session.interruptAll()
            session.stop()
    address = address_of(order["remote"], order["identity"])
    # For programs that build their session themselves: getOrCreate gives them this one.
    os.environ |= {"SPARK_REMOTE": address, "SPARK_CONNECT_MODE_ENABLED": "1"}
    spark = SparkSession.builder.remote(address).getOrCreate()
    settings = {name: str(value) for name, value in order["conf"].items()} | stamp.session_stamp()
    for name, value in settings.items():
        spark.conf.set(name, value)
    spark.addTag(f"tidegate-{order['identity']}")
    return spark


def keep_interrupting(spark: Any, over: threading.Event) -> None:
    """End what the session does, again and again until the attempt is over."""
    while True:
        with suppress(Exception):
            spark.interruptAll()
        if over.wait(INTERRUPT_EVERY):
            return


def release(spark: Any) -> None:
    """Tell the server that nobody comes back to this session."""
    with suppress(Exception):
        spark.stop()
