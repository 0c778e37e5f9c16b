"""SQL programs are split and filled in by Spark's own lexical rules, without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.errors import Invalid
from tidegate.pipeline.statements import Door, Part, fill, literal, parts, split

PIECES = st.sampled_from(
    ["select 1", "'a;b'", '"x;--y"', "`q;q`", " /* c; /* d; */ */ ", "-- e;\n", "r'\\'", "'it\\'s;'", "{name}", " \n"]
)
STATEMENTS = st.lists(PIECES, min_size=1, max_size=6).map(lambda some: "select " + " ".join(some))


@given(st.lists(STATEMENTS, min_size=1, max_size=4))
def test_joined_statements_come_apart_as_they_were(statements):
    assert [one.text for one in split(";\n".join(statements))] == [one.strip() for one in statements]


@given(STATEMENTS)
def test_the_parts_together_are_the_text(sql):
    assert "".join(text for _, text in parts(sql)) == sql


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_text_argument_is_one_literal_whatever_is_in_it(text):
    filled = fill("select {name} as x", {"name": text})
    assert [part for part, _ in parts(filled)] == [Part.CODE, Part.QUOTED, Part.CODE]
    assert len(split(filled)) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, "(-7)"),
        (1 << 70, f"{1 << 70}BD"),
        (-0.5, "(-0.5D)"),
        (float("inf"), "DOUBLE('inf')"),
        ("it's \\ a", r"'it\'s \\ a'"),
        ([1, "a"], "array(1, 'a')"),
        ({"k": 1}, "named_struct('k', 1)"),
    ],
)
def test_json_values_become_literals(value, expected):
    assert literal(value) == expected


def test_every_fault_of_a_program_is_named_at_once():
    with pytest.raises(Invalid) as fault:
        fill("select {regoin}, '{day}' from {table} -- {comment}", {"region": 1, "day": 2})
    assert [str(one).split(":")[0] for one in fault.value.faults] == ["sql {regoin}", "sql {day}", "sql {table}"]


@pytest.mark.parametrize("sql", ["select 'a", "select /* a", "select `a", 'select "a\\"'])
def test_what_is_left_open_is_refused_with_its_line(sql):
    with pytest.raises(Invalid, match="line 2 .*never closed|line 2: .* never closed"):
        split("select 1;\n" + sql)


@pytest.mark.parametrize(
    ("sql", "door", "writes"),
    [
        ("insert into t values (1)", Door.SESSION, True),
        ("-- c\nwith a as (select 1) insert into t select * from a", Door.SESSION, True),
        ("with a as (select 1) select * from a", Door.SESSION, False),
        ("create table t using iceberg as select 1", Door.SESSION, True),
        ("create or replace temp view v as select 1", Door.SESSION, False),
        ("create table t (id int)", Door.SESSION, False),
        ("/* x */ delete from t", Door.DRIVER_THREAD, True),
        ("truncate table t", Door.DRIVER_THREAD, True),
        ("execute immediate 'delete from t'", Door.DRIVER_THREAD, True),
        ("call lake.system.expire_snapshots('t')", Door.OWN_JVM, True),
        ("begin call lake.system.expire_snapshots('t'); end", Door.OWN_JVM, True),
        ("select 'delete from t'", Door.SESSION, False),
    ],
)
def test_statements_take_the_door_that_stamps_them(sql, door, writes):
    (statement,) = split(sql)
    assert (statement.door, statement.writes) == (door, writes)


def test_a_script_is_one_statement():
    assert len(split("BEGIN DECLARE x INT; SET x = 1; SELECT x; END;")) == 1
