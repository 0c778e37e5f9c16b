"""Where an attempt's files lie, and how files of the home are made: for their owner's eyes only."""

from __future__ import annotations

import contextlib
import os
import zlib

LOG = "log"
OUTBOX = "TIDEGATE_OUTBOX"
"""The environment variable that tells programs where to leave what they publish."""
ENDED = "ended"
"""An empty file that a backend without a claim leaves beside the log when the attempt has ended."""


def attempt_directory(home: str, identity: str) -> str:
    """HOME/attempts/<2 hex>/<identity>: spread, so that no directory grows without bound."""
    return f"{home}/attempts/{zlib.crc32(identity.encode()) & 0xFF:02x}/{identity}"


def make_private(directory: str) -> None:
    """Make it and its parents, mode 0700; one that exists stays as it is."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_private(os.path.dirname(directory))
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)


def write_private(path: str, text: str) -> None:
    """Write a file of mode 0600 anew."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        data = text.encode()
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
