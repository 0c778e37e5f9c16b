"""Secrets by reference: documents say where one is kept, never what it is."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from tidegate.documents.scalars import wrong
from tidegate.domain.errors import Refused
from tidegate.domain.variables import looked_up

LARGEST = 64 * 1024
"""So many bytes of a file are a secret; a keystore or a chain of certificates is smaller."""
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
_LONGEST = 1000
"""Characters of a reference."""
_SECRET = re.compile(r"password|secret|jaas|key\.pem|\.key$|token|credential", re.IGNORECASE)
_HOW = "name where it is kept: env:NAME, an environment variable of the scheduler, or file:/PATH"


def _reference(text: str) -> str:
    if len(text) > _LONGEST:
        raise wrong(f"must have at most {_LONGEST} characters, not {len(text):,}; {_HOW}")
    if not _REFERENCE.fullmatch(text):
        raise wrong(f"is no reference to a secret; {_HOW}")  # the text is not repeated: it may be the secret
    return text


Reference = Annotated[str, AfterValidator(_reference)]


_CODE = "it would run code in the scheduler"
_NEVER = {
    "plugin.library.paths": _CODE,
    "ssl.engine.location": _CODE,
    "sasl.kerberos.kinit.cmd": _CODE,
    "logger": "it is no text but code",
    "on_delivery": "it is no text but code",
    "on_commit": "it is no text but code",
}
"""Settings of librdkafka that no document has, and why."""
_KERBEROS = re.compile(r"[\w./@:-]+")


def check_options(options: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Settings of librdkafka. Raises ValueError for a secret that is written out, for what would run code in the
    scheduler, and for what is `ours` (why)."""
    for key, value in options.items():
        if _SECRET.search(key) and not _REFERENCE.fullmatch(value) and not key.endswith("location"):
            raise wrong(f"{key!r} holds a secret; {_HOW}")
        if key in ours:
            raise wrong(f"{key!r} is not for options: {ours[key]}")
        if key in _NEVER or key.endswith("_cb"):
            raise wrong(f"{key!r} is not for options: {_NEVER.get(key, 'it is no text but code')}")
        if key.startswith("sasl.kerberos.") and "time" not in key and not _KERBEROS.fullmatch(value):
            # librdkafka puts these into the command line of kinit, which a shell reads
            raise wrong(f"{key!r} may hold letters, digits and . / @ : _ - only")


def revealed(
    reference: str,
    environ: Mapping[str, str] = os.environ,
    *,
    what: str = "The secret",
    who: str = "the scheduler",
) -> str:
    """What `env:NAME` or `file:PATH` stands for; other text is itself. `what` is read, and by whom, is for the sentence
    of the Refused that is raised where there is nothing; it never repeats a secret."""
    kind, _, place = reference.partition(":")
    match kind:
        case "env":
            return looked_up(reference, environ, what, who, empty=False)
        case "file":
            try:
                return _read(place).decode().rstrip("\r\n")
            except UnicodeDecodeError:
                why = "it is no UTF-8 text"
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or str(error)
            raise Refused(
                f"{what} in {place} cannot be read: {why}.",
                remedy=f"Keep it in a regular file of at most {LARGEST // 1024} KiB that {who} may read.",
            )
        case _:
            return reference


def _read(place: str) -> bytes:
    """A small regular file. Nothing else is even opened: a pipe or a device may answer never, or without end, and who
    asks is the scheduler itself. Raises OSError or ValueError."""
    if not stat.S_ISREG(os.stat(place).st_mode):
        raise ValueError("it is no regular file")
    # Without waiting, should it have become a pipe in between.
    with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        read = file.read(LARGEST + 1)
    if len(read) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024} KiB")
    return read
