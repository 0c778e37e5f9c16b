"""Named queries: each is used, each has a promise, each is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.store import sql

SOURCE = Path(sql.__file__).parent
FILES = sorted(sql.DIRECTORY.glob("*.sql"))


def loaded() -> dict[str, set[str]]:
    """Subject -> the names that the code uses, by the alias under which each module loads it."""
    used: dict[str, set[str]] = {}
    for module in SOURCE.glob("*.py"):
        text = module.read_text()
        aliases = dict(re.findall(r'^(\w+) = load\("(\w+)"\)', text, re.MULTILINE))
        if re.search(r"import .*\bI\b", text):
            aliases["I"] = "instances"
        for alias, subject in aliases.items():
            used.setdefault(subject, set()).update(re.findall(rf"\b{alias}\.([a-z_]+)", text))
    return used


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_query_is_used_and_every_used_one_is_there(file: Path) -> None:
    there = {query.name.partition(".")[2] for query in sql.load(file.stem)}
    assert loaded()[file.stem] == there


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_query_reads_the_database_s_clock(file: Path) -> None:
    """Time is given; only the query called `now`, and what is said of the server itself, may ask for it."""
    for query in sql.load(file.stem):
        found = re.findall(rb"\b(now\(\)|clock_timestamp|current_timestamp|statement_timestamp)", query.sql)
        assert not found or query.name in ("instances.now", "instances.silent", "instances.free_sleepers"), query.name


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two queries are called x.one"):
        sql.Queries("x", "-- one: a\nSELECT 1;\n-- one: b\nSELECT 2;\n")


def test_a_query_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="queries/clocks.sql has no query nothing"):
        _ = sql.load("clocks").nothing
