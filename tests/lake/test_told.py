"""What a fault of Spark is told as: one line, never a stack trace."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.pipeline.sql_attempt import error_of
from tidegate.pipeline.told import causes, message_of, trace_of

FRAMES = "\n\tat org.apache.iceberg.SortKey.<init>(SortKey.java:8)\n\tat java.base/java.lang.Thread.run(Thread.java:1)"
MISSING = "org.apache.iceberg.exceptions.ValidationException: Cannot find field 'nope' in struct: struct<1: id: int>"


class Java:
    """A Java exception, as Py4J hands it over."""

    def __init__(self, said: str, cause: Java | None = None) -> None:
        self._said, self._cause = said, cause

    def toString(self) -> str:
        return self._said

    def getCause(self) -> Java | None:
        return self._cause


class Py4JJavaError(Exception):
    def __init__(self, text: str, java: Any = None) -> None:
        super().__init__(text)
        self.java_exception = java


class AnalysisException(Exception):
    def __init__(self, text: str, java: Any = None, trace: str | None = None, condition: str | None = None) -> None:
        super().__init__(text)
        self._origin, self._stackTrace, self._condition = java, trace, condition

    def getCondition(self) -> str | None:
        return self._condition


def test_of_a_chain_of_java_faults_the_innermost_that_says_something():
    silent = Java("java.lang.NullPointerException")
    chain = Java("java.lang.RuntimeException: Failed to rewrite", Java(MISSING, silent))
    text = (
        f"An error occurred while calling o1.sql.\n: java.lang.RuntimeException: Failed{FRAMES}\nCaused by: {MISSING}"
    )
    fault = Py4JJavaError(text, chain)
    assert error_of(fault) == {"code": "program.error", "message": MISSING}
    assert causes(fault)[0] == "java.lang.RuntimeException: Failed to rewrite" and len(causes(fault)) == 3
    assert trace_of(fault) == text, "all of it is for the log"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"An error occurred while calling o9.collect.\n: {MISSING}{FRAMES}\n\t... 40 more\n", MISSING),
        (f"it broke{FRAMES}\nCaused by: java.io.IOException: it is full{FRAMES}", "java.io.IOException: it is full"),
        (f"[TABLE_OR_VIEW_NOT_FOUND] There is no `t`. SQLSTATE: 42P01; line 1\n'Project [*]\n\n"
         f"JVM stacktrace:\norg.X{FRAMES}",
         "[TABLE_OR_VIEW_NOT_FOUND] There is no `t`. SQLSTATE: 42P01; line 1"),
        (f"Job aborted: task 0 was lost: java.lang.RuntimeException: boom{FRAMES}\n\nDriver stacktrace:",
         "Py4JJavaError: Job aborted: task 0 was lost: java.lang.RuntimeException: boom"),
        ("An exception was thrown from the Python worker.\nTraceback (most recent call last):\n File \"x.py\", line 3\n"
         "    f()\nValueError: no such feed\n", "ValueError: no such feed"),
        ("x" * 9_000 + FRAMES, "Py4JJavaError: " + "x" * (600 - 18) + "..."),
        ("", "Py4JJavaError"),
    ],
)  # fmt: skip
def test_of_a_text_that_is_a_trace_the_line_that_tells(text, told):
    message = message_of(Py4JJavaError(text))
    assert message == told


def test_a_condition_of_sparks_stands_before_its_cause_and_is_not_said_twice():
    own = "[FAILED_READ_FILE] Encountered an error while reading a.parquet."
    java = Java(f"org.apache.spark.SparkException: {own}", Java("java.io.FileNotFoundException: a.parquet is gone"))
    fault = AnalysisException(f"{own}\n\nJVM stacktrace:\norg.X{FRAMES}", java)
    assert message_of(fault) == f"{own} Cause: java.io.FileNotFoundException: a.parquet is gone"
    alone = AnalysisException(own, Java(f"org.apache.spark.sql.AnalysisException: {own}"), trace=f"org.X{FRAMES}")
    assert message_of(alone) == own
    assert trace_of(alone).startswith(own) and trace_of(alone).endswith("Thread.java:1)")


def test_a_condition_stays_also_where_only_a_text_tells_of_causes():
    """As Spark Connect sends them, with the trace that Spark puts beside its own."""
    own = "[TABLE_OR_VIEW_NOT_FOUND] The table `nowhere` cannot be found. SQLSTATE: 42P01"
    noise = "Caused by: org.apache.spark.util.Utils$OriginalTryStackTraceException: Full stacktrace of original caller"
    text = f"{own}\n\nJVM stacktrace:\norg.X: {own}{FRAMES}\n{noise}{FRAMES}"
    assert message_of(AnalysisException(text)) == own
    assert message_of(AnalysisException(f"{text}\nCaused by: {MISSING}{FRAMES}")) == f"{own} Cause: {MISSING}"


def test_what_python_raises_stays_as_it_is():
    fault = ValueError("no such feed\nlook at (a) or (b)")
    assert (message_of(fault), trace_of(fault)) == ("ValueError: no such feed\nlook at (a) or (b)", "")
    assert message_of(RuntimeError()) == "RuntimeError"
    assert message_of(ValueError("[1, 2] are no feeds")) == "ValueError: [1, 2] are no feeds"
    plan = "[UNRESOLVED_COLUMN] There is no `x`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- OneRowRelation"
    assert message_of(RuntimeError(plan)) == plan.split("\n")[0], "nor is a plan told"
