"""A SQL program as a sequence of statements: split, filled in, and told apart by what they do to a table.

Only Spark's lexical rules are known here (strings with backslash escapes, raw strings, back-quoted names, line and
nested bracketed comments), which is what splitting at `;` and finding `{name}` safely takes.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tidegate.domain.errors import Fault, Invalid

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WORD = re.compile(r"[A-Za-z_]+")
_INT64 = 1 << 63


class Part(Enum):
    """What a stretch of SQL text is."""

    CODE = "code"
    QUOTED = "quoted"
    COMMENT = "comment"
    END = "end"
    """The `;` after a statement."""


class Door(Enum):
    """Which way a statement must take so that what it commits carries the run's key (RUN-7)."""

    SESSION = "session"
    """The session's stamp is enough, or nothing is committed."""
    DRIVER_THREAD = "driver thread"
    """It commits past the session's stamp: only a thread of the driver that carries the stamp can run it."""
    OWN_JVM = "own JVM"
    """A procedure: commits from threads of its own, so only a JVM that serves this attempt alone can stamp it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, comments kept, without its `;`. `words` are its first unquoted words, upper case."""

    text: str
    words: tuple[str, ...]

    @property
    def door(self) -> Door:
        first = self.words[0] if self.words else ""
        compound = first in ("BEGIN", "EXECUTE")
        if first == "CALL" or (compound and "CALL" in _words(self.text)):
            return Door.OWN_JVM
        return Door.DRIVER_THREAD if compound or first in ("DELETE", "TRUNCATE") else Door.SESSION

    @property
    def writes(self) -> bool:
        """Whether it may commit a snapshot: such a statement is not repeated when a retry finds its commit."""
        first = self.words[0] if self.words else ""
        if first in ("CREATE", "REPLACE"):
            return "AS" in self.words and "TABLE" in self.words and "VIEW" not in self.words
        writers = ("INSERT", "UPDATE", "MERGE", "DELETE", "TRUNCATE", "CALL", "BEGIN", "EXECUTE", "WITH", "FROM")
        if first in ("WITH", "FROM"):
            return "INSERT" in self.words
        return first in writers

    @property
    def title(self) -> str:
        """One line for a log."""
        line = " ".join("".join(text for part, text in parts(self.text) if part is not Part.COMMENT).split())
        return line if len(line) <= 120 else line[:117] + "..."


def split(sql: str) -> tuple[Statement, ...]:
    """The statements of a program, empty ones left out. A script (`BEGIN … END`) is one statement.

    Raises Invalid for a string, name or comment that is not closed.
    """
    if _words(sql, 1) == ("BEGIN",):
        return (Statement(sql.strip().removesuffix(";"), _words(sql)),)
    found, text = [], ""
    for part, piece in (*parts(sql), (Part.END, ";")):
        if part is not Part.END:
            text += piece
            continue
        if words := _words(text):
            found.append(Statement(text.strip(), words))
        elif any(kind is Part.CODE and code.strip() for kind, code in parts(text)):
            found.append(Statement(text.strip(), ()))
        text = ""
    return tuple(found)


def fill(sql: str, arguments: Mapping[str, Any]) -> str:
    """Replace `{name}` by the argument as a SQL literal. Raises Invalid, naming every fault, before anything runs."""
    out, faults = "", []
    for part, piece in parts(sql):
        if part is Part.QUOTED:
            faults += [
                Fault(f"sql {{{name}}}", f"stands inside quotes; write {{{name}}} without them: it becomes a literal")
                for name in _NAME.findall(piece)
                if name in arguments
            ]
        elif part is Part.CODE:
            faults += [_unknown(name, arguments) for name in _NAME.findall(piece) if name not in arguments]
            piece = _NAME.sub(lambda m: literal(arguments[m[1]]) if m[1] in arguments else m[0], piece)
        out += piece
    if faults:
        raise Invalid(faults, what="the SQL program")
    return out


def literal(value: Any) -> str:
    """A JSON value as a Spark SQL literal that can stand anywhere an expression can."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _signed(str(value) if -_INT64 <= value < _INT64 else f"{value}BD")
        case float() if math.isfinite(value):
            return _signed(f"{value!r}D")
        case float():
            return f"DOUBLE('{value}')"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
            return f"'{escaped.replace(chr(0), chr(92) + '0')}'"
        case Mapping():
            inner = ", ".join(f"{literal(str(key))}, {literal(item)}" for key, item in value.items())
            return f"named_struct({inner})" if inner else "map()"
        case Sequence():
            return f"array({', '.join(map(literal, value))})"
        case _:
            raise TypeError(f"{type(value).__name__} is not a JSON value")


def parts(sql: str) -> Iterator[tuple[Part, str]]:
    """The text in stretches of one kind; together they are the whole text. Raises Invalid for one left open."""
    at, code = 0, 0
    while at < len(sql):
        end, kind = _special(sql, at)
        if kind is None:
            at += 1
            continue
        if code < at:
            yield Part.CODE, sql[code:at]
        yield kind, sql[at:end]
        at = code = end
    if code < len(sql):
        yield Part.CODE, sql[code:]


def _special(sql: str, at: int) -> tuple[int, Part | None]:
    """Where the stretch that begins at `at` ends, and what it is; None for plain code."""
    mark = sql[at]
    if mark == ";":
        return at + 1, Part.END
    if mark in "'\"":
        raw = at > 0 and sql[at - 1] in "rR" and not (at > 1 and (sql[at - 2].isalnum() or sql[at - 2] == "_"))
        return _closing(sql, at, escapes=not raw), Part.QUOTED
    if mark == "`":
        return _closing(sql, at, escapes=False), Part.QUOTED
    if sql.startswith("--", at):
        end = sql.find("\n", at)
        return (len(sql) if end < 0 else end), Part.COMMENT
    if sql.startswith("/*", at) and not sql.startswith("/*+", at):
        return _comment_end(sql, at), Part.COMMENT
    return at, None


def _closing(sql: str, start: int, *, escapes: bool) -> int:
    mark, at = sql[start], start + 1
    while at < len(sql):
        if sql[at] == "\\" and escapes:
            at += 2
        elif sql[at] == mark:
            return at + 1
        else:
            at += 1
    raise _open(sql, start, "quote")


def _comment_end(sql: str, start: int) -> int:
    depth, at = 0, start
    while at < len(sql):
        if sql.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif sql.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if not depth:
                return at
        else:
            at += 1
    raise _open(sql, start, "comment")


def _open(sql: str, start: int, what: str) -> Invalid:
    line = sql.count("\n", 0, start) + 1
    fault = Fault(f"sql line {line}", f"the {what} that begins with {sql[start : start + 20]!r} is never closed")
    return Invalid([fault], what="the SQL program")


def _words(sql: str, most: int = 1_000_000) -> tuple[str, ...]:
    found: list[str] = []
    for part, text in parts(sql):
        if part is Part.CODE:
            found += [word.upper() for word in _WORD.findall(text)]
            if len(found) >= most:
                break
    return tuple(found[:most])


def _unknown(name: str, arguments: Mapping[str, Any]) -> Fault:
    near = difflib.get_close_matches(name, list(arguments), 1)
    hint = f"did you mean {{{near[0]}}}?" if near else f"the run has: {', '.join(sorted(arguments)) or 'none'}"
    return Fault(f"sql {{{name}}}", f"there is no argument {name!r}; {hint}")


def _signed(text: str) -> str:
    # `x-{n}` with -5 would else become `x--5`, which is a comment.
    return f"({text})" if text.startswith("-") else text
