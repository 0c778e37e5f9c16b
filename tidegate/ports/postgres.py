"""Connections to PostgreSQL that notice when nobody is at the other end: for the store, its neighbours and lakes."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

_WATCHFUL: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


def watchful(url: str) -> dict[str, Any]:
    """Parameters by which a connection to `url` is soon known to be lost; what `url` says itself is not among them.
    Raises psycopg.ProgrammingError for what is no address."""
    given = conninfo_to_dict(url)
    return {name: value for name, value in _WATCHFUL.items() if name not in given}


def cut(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End the stream and keep the socket, so that whoever waits on it wakes and the driver closes it. From any thread,
    as often as one likes."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as other:
        other.shutdown(socket.SHUT_RDWR)
