"""Named queries: `queries/SUBJECT.sql` holds, for each, a line `-- name: one-line promise` and the statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

_HEADER = re.compile(r"^-- ([a-z][a-z0-9_]*): (.+)$", re.MULTILINE)
DIRECTORY = Path(__file__).parent / "queries"


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with its name and what it promises."""

    name: str
    promise: str
    sql: bytes

    def at(self, partition: str) -> Query:
        """The same on one partition by name, where the statement says `{run}` or `{event}`: the plan
        of an update through the parent has to open every partition there is, each time."""
        return _at(self, partition)


class Queries:
    """The queries of one file, as attributes."""

    def __init__(self, subject: str, text: str) -> None:
        self._subject = subject
        self._queries: dict[str, Query] = {}
        headers = list(_HEADER.finditer(text))
        for header, following in zip(headers, [*headers[1:], None], strict=True):
            body = text[header.end() : following.start() if following else len(text)].strip().removesuffix(";")
            name = f"{subject}.{header[1]}"
            if header[1] in self._queries:
                raise ValueError(f"two queries are called {name}")
            self._queries[header[1]] = Query(name, header[2], f"/* {name} */ {body}".encode())

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"queries/{self._subject}.sql has no query {name}") from None

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())


@cache
def load(subject: str) -> Queries:
    """The queries of `queries/SUBJECT.sql`."""
    return Queries(subject, (DIRECTORY / f"{subject}.sql").read_text())


@lru_cache(maxsize=1000)
def _at(query: Query, partition: str) -> Query:
    name = partition.encode()
    return Query(query.name, query.promise, query.sql.replace(b"{run}", name).replace(b"{event}", name))
