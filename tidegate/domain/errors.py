"""The error tree. One root; what a person or a caller needs to know are attributes, never parsed from text.

TidegateError                     code, message, remedy
├── Invalid                       a document or argument is wrong: all faults at once, each with its path
├── NotFound                      no such thing
├── Conflict                      it exists already, belongs to another, or is in the wrong state
├── Stale                         If-Match named an older revision
├── Refused                       understood and not allowed (loopback, in use, not available here)
├── Unavailable (retryable)       a dependency does not answer now
│   └── CommitUnknown             the connection was lost while committing: look by key before repeating
├── Fenced                        this process was declared dead; it must not write
└── LaunchRefused                 the backend did not take a launch (retryable or not)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_ENDLESS = re.compile(r"\S{300,}")
_TOLD = 20
"""Faults that a message tells of; the rest is counted, and all of them are in the list."""


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:100]}...{word[0][-20:]}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong place: `path` like `spec.constraints[1].max`, `reason` says what is wrong and what would be right."""

    path: str
    reason: str

    def __post_init__(self) -> None:
        if len(self.reason) > 300:  # most repeat what was given, which may be anything
            object.__setattr__(self, "reason", _cut(_ENDLESS.sub(_shortened, self.reason), 1000))

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class TidegateError(Exception):
    """Root of everything Tidegate raises on purpose. `retryable` is decided where the error is born."""

    code = "error"
    retryable = False

    def __init__(self, message: str, *, remedy: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if code:
            self.code = code

    def __str__(self) -> str:
        stop = "." if self.remedy and self.message[-1:] not in ".!?:;" else ""
        return f"{self.message}{stop} {self.remedy}".strip()


class Invalid(TidegateError):
    """What was given is wrong. Carries every fault, not only the first."""

    code = "invalid"

    def __init__(self, faults: Sequence[Fault], *, what: str = "the document") -> None:
        self.faults = tuple(faults)
        many = f"{len(self.faults)} faults" if len(self.faults) != 1 else "a fault"
        more = f"; and {len(self.faults) - _TOLD} more" if len(self.faults) > _TOLD else ""
        super().__init__(f"{what} has {many}: " + "; ".join(map(str, self.faults[:_TOLD])) + more)


class NotFound(TidegateError):
    """There is no such thing under that name."""

    code = "not_found"


class Conflict(TidegateError):
    """It exists already, belongs to another owner, or is in a state that does not allow this."""

    code = "conflict"


class Stale(TidegateError):
    """The revision that the caller saw is no longer the newest."""

    code = "stale"


class Refused(TidegateError):
    """Understood, and not allowed or not possible here; the message names the remedy."""

    code = "refused"


UNSTORABLE = "unstorable"
"""The code of a Refused: the database can hold no such value, whoever writes it, and whenever."""


class Unavailable(TidegateError):
    """Something we need does not answer at the moment. Worth trying again."""

    code = "unavailable"
    retryable = True


class CommitUnknown(Unavailable):
    """The connection broke while a commit was under way: it may have happened. Look by key before repeating."""

    code = "commit_unknown"


class Fenced(TidegateError):
    """This process was declared dead while it was away; what it wanted to write was refused."""

    code = "fenced"


class LaunchRefused(TidegateError):
    """The backend did not take the launch: nothing was started. `retryable` says whether another try may help."""

    code = "launch.refused"

    def __init__(self, message: str, *, remedy: str = "", code: str = "", retryable: bool = True) -> None:
        super().__init__(message, remedy=remedy, code=code)
        self.retryable = retryable
