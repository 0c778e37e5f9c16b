"""How a worker and a pooled process speak: frames of JSON over a Unix socket, many messages to a frame.

A message is a list that begins with its name.
  worker to host   start [id, entry, arguments, environment, about] · find [token, ids] · stop id · kill id ·
                   recall (give back what has not begun) · forget ids · quit (end when nothing runs)
  host to worker   hello · began id · done [id, outcome, error, at] · returned ids · sealed id ·
                   found [token, {id: state}] · retiring (takes nothing more)
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

SOCKET = "sock"
HEAD = struct.Struct("!I")


def pack(messages: list[Any]) -> bytes:
    body = json.dumps(messages, separators=(",", ":"), default=dict).encode()
    return HEAD.pack(len(body)) + body


class Unpacker:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[list[Any]]:
        self._buffer += data
        while len(self._buffer) >= 4:
            size = HEAD.unpack_from(self._buffer)[0]
            if len(self._buffer) < 4 + size:
                return
            body = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            yield from json.loads(body)


@contextlib.contextmanager
def short_path(directory: str) -> Iterator[str]:
    """A path to the directory's socket that fits the 107 bytes of a Unix address, however deep the home lies."""
    path = f"{directory}/{SOCKET}"
    if len(os.fsencode(path)) <= 100 or not os.path.isdir("/proc/self/fd"):
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def listen(directory: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    with short_path(directory) as path:
        listener.bind(path)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def connect(directory: str) -> socket.socket:
    """Raises OSError when nobody listens."""
    client = socket.socket(socket.AF_UNIX)
    try:
        with short_path(directory) as path:
            client.connect(path)
    except OSError:
        client.close()
        raise
    client.setblocking(False)
    return client
