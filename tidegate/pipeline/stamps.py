"""The mark that every Iceberg commit of an attempt carries: run key, fencing token, attempt number (RUN-7).

Four ways lead to a commit, and each needs a stamp of its own:

- Writes by SQL or DataFrame (INSERT, UPDATE, MERGE, CTAS, RTAS, writeTo, a DELETE that rewrites files) read it from
  the session's properties. `session_stamp` gives those.
- A DELETE of whole files, or TRUNCATE, commits past the session. It reads a thread-local of Iceberg's
  `CommitMetadata`, which `stamp_thread` sets: in the thread of the driver that runs the statement. Programs over
  Spark Connect hand these statements to the driver (`pipeline.child`).
- A procedure (CALL) commits from threads of its own. Iceberg's `EnvironmentContext` reaches them, but it is one per
  JVM: `stamp_jvm` is for a JVM that serves one attempt. That is what `isolation: process` is for.
- What does not go through Spark at all (PyIceberg, another engine) is not stamped; give PyIceberg's writes
  `snapshot_properties=` by hand.

In one JVM use either `stamp_jvm` or the other two: Iceberg refuses a key that it is given twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.domain.ids import AttemptKey, parse_identity
from tidegate.ports.spark import ATTEMPT, FENCE, RUN_KEY

STEP = "tidegate.step"
"""Which statement of a SQL program it was, from 1: a retry goes on behind what is committed."""
SESSION_PREFIX = "spark.sql.iceberg.snapshot-property."


@dataclass(frozen=True, slots=True)
class Stamp:
    attempt: AttemptKey
    fence: int

    @classmethod
    def of(cls, identity: str, fence: int) -> Stamp:
        return cls(parse_identity(identity), fence)

    def properties(self, step: int | None = None) -> dict[str, str]:
        mark = {RUN_KEY: str(self.attempt.run), FENCE: str(self.fence), ATTEMPT: str(self.attempt.number)}
        return mark | ({STEP: str(step)} if step is not None else {})

    def session_stamp(self, step: int | None = None) -> dict[str, str]:
        return {SESSION_PREFIX + name: value for name, value in self.properties(step).items()}


def stamp_thread(jvm: Any, properties: Mapping[str, str]) -> None:
    """Stamp whatever the calling thread's twin in the JVM commits from now on; empty properties end that.

    `CommitMetadata` offers this only around a callback, from Java into Python and back; its thread-local is set
    directly instead. The name is Iceberg's own (1.12.0, pinned) and a test holds it.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    holder = jvm.java.lang.Class.forName("org.apache.iceberg.spark.CommitMetadata", True, loader)
    field = holder.getDeclaredField("COMMIT_PROPERTIES")
    field.setAccessible(True)
    marks = jvm.java.util.HashMap()
    for name, value in properties.items():
        marks.put(name, value)
    field.get(None).set(marks)


def stamp_jvm(jvm: Any, properties: Mapping[str, str]) -> None:
    """Stamp whatever this JVM commits from now on, from any thread. Only where it serves one attempt."""
    for name, value in properties.items():
        jvm.org.apache.iceberg.EnvironmentContext.put(name, value)
