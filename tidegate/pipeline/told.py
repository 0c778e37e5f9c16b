"""What a fault of a Spark program is told as: one line that names its cause. The Java stack trace is for the log.

Spark brings a fault of Java as a Python exception whose text is the whole trace, and what went wrong stands at the
bottom of it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

LONGEST = 600
"""Characters of a line that is told."""
_DEEPEST = 20
_FRAME = re.compile(r"^\s+at [\w.$<>/]+\(.*\)\s*$|^\s+\.\.\. \d+ more\s*$", re.M)
_TRACE = re.compile(r"\n+JVM stacktrace:?|\n+Driver stacktrace:?")
_CAUSE = re.compile(r"^\s*Caused by: (\S.*: \S.*)$", re.M)
_PY4J = re.compile(r"\AAn error occurred while calling [^\n]*\n:? ?")
_OF_SPARK = re.compile(r"\[[A-Z][A-Z0-9_.]*\]")
_NAMED = re.compile(r"[\w.$]+(Exception|Error|Fault): \S")
_BESIDE = "OriginalTryStackTraceException"
"""Spark puts one beside a fault, for the trace of its first try alone."""
_PYTHON = "Traceback (most recent call last):"
_ITS_LAST_LINE = re.compile(r"^\w[\w.]*: \S.*$", re.M)


def message_of(fault: BaseException) -> str:
    """A fault as `class: message`, without a trace. Of Java's faults it is one line: of the innermost cause that says
    something; what begins with a condition of Spark's, like `[TABLE_OR_VIEW_NOT_FOUND]`, keeps it, before the cause.
    """
    kind, text = type(fault).__name__, str(fault).strip()
    chain = [one for one in causes(fault) if _says_something(one)]
    own = text.split("\n")[0].strip() if _OF_SPARK.match(text) else ""
    if not (chain or own or _traced(text)):
        return f"{kind}: {text}"[:4000] if text else kind
    deepest = chain[-1] if chain else own if not _java(text) else _line_of(text)
    own = own or _line_of(text)
    if _OF_SPARK.match(own):
        said = own if _plain(deepest) in own or own in deepest else f"{_cut(own, LONGEST // 2)} Cause: {deepest}"
    elif chain:
        said = deepest
    else:
        said = own if _NAMED.match(own) else f"{_condition(fault) or kind}: {own}"
    return _cut(said, LONGEST)


def trace_of(fault: BaseException) -> str:
    """The whole trace of a fault of Java, for a log; "" of any other."""
    text = str(fault).strip()
    further = getattr(fault, "_stackTrace", None)
    if isinstance(further, str) and further.strip() not in text:
        return f"{text}\n\n{further.strip()}"
    return text if _java(text) else ""


def causes(fault: BaseException) -> list[str]:
    """The chain of Java exceptions behind a fault, each as `class: message` in one line, the outermost first."""
    java: Any = getattr(fault, "java_exception", None) or getattr(fault, "_origin", None)
    said: list[str] = []
    try:
        while java is not None and len(said) < _DEEPEST:
            said.append(" ".join(_line_of(str(java.toString()))[:1000].split()))
            java = java.getCause()
    except Exception:  # the JVM may be gone
        said.append("?")
    return said


def _line_of(text: str) -> str:
    """Of a text that may be a Java or a Python trace: the line that says what went wrong; else its first."""
    plain = _PY4J.sub("", text.strip())
    if _java(text) and (deeper := [one for one in _CAUSE.findall(plain) if _says_something(one)]):
        return str(deeper[-1]).strip()
    if _PYTHON in plain and (last := _ITS_LAST_LINE.findall(_FRAME.split(plain.split(_PYTHON, 1)[1])[0])):
        return str(last[-1]).strip()
    return plain.strip().split("\n")[0].strip()


def _traced(text: str) -> bool:
    return _PYTHON in text or _java(text)


def _java(text: str) -> bool:
    return bool(_FRAME.search(text) or _TRACE.search(text) or _PY4J.search(text))


def _says_something(cause: str) -> bool:
    _, _, said = cause.partition(": ")
    if _BESIDE in cause:
        return False
    return said.strip() not in ("", "null") or bool(_OF_SPARK.match(cause))


def _plain(cause: str) -> str:
    """Without its class."""
    return cause.partition(": ")[2] or cause


def _condition(fault: BaseException) -> str | None:
    with suppress(Exception):  # it asks the JVM, which may be gone
        return getattr(fault, "getCondition", lambda: None)()
    return None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
