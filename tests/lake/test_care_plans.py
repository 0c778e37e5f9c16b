"""What maintenance would do to a table, decided from metadata alone: what is asked of Spark, what expires, and what is
refused because a file of somebody else could go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from tidegate.domain.errors import Invalid, Refused
from tidegate.domain.instants import DAY, HOUR
from tidegate.domain.maintenance.accepted import OPTIONS, Kind, Place
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import check
from tidegate.domain.maintenance.value import step_bytes
from tidegate.lake.assessing import TableFiles
from tidegate.lake.estimating import asked, in_steps
from tidegate.lake.expiry import choose
from tidegate.lake.orphans import refuse_many, refuse_unsafe
from tidegate.lake.procedures import call
from tidegate.pipeline.statements import Part, parts, split

NOW = 1_800_000_000_000_000
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=30)
SAMPLES: dict[Kind, Any] = {
    Kind.TEXT: "x'); DROP TABLE t; --",
    Kind.BOOL: True,
    Kind.INT: 7,
    Kind.NUMBER: 0.5,
    Kind.BYTES: "128 MiB",
    Kind.AGE: "P7D",
    Kind.TEXTS: ["a", "b'c"],
    Kind.INTS: [1, 2],
    Kind.MAP: {"s3a": "s3", "x'": "y"},
}

# ── what is asked of Spark ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("CARE-2")
@pytest.mark.parametrize("operation", list(Operation))
def test_every_accepted_option_is_honoured_where_the_procedure_takes_it(operation):
    for option in OPTIONS[operation].values():
        said = option.words[0] if option.words else SAMPLES[option.kind]
        values, _ = check(operation, {option.name: said})
        statement = call("lake.raw.flights", operation, values, NOW)
        match option.place:
            case Place.ARGUMENT:
                assert f", {option.name} => " in statement
            case Place.OPTION:
                assert f"options => map('{option.name}', '" in statement
            case Place.OURS:
                assert option.name not in statement


@pytest.mark.requirement("CARE-2")
@given(level=TEXTS, where=TEXTS)
@settings(max_examples=40, deadline=None)
def test_whatever_is_given_stays_a_literal(level, where):
    """No name and no value becomes SQL of its own."""
    table = f"lake.raw.{level.replace('.', '_')}"
    statement = call(table, Operation.REWRITE_DATA_FILES, {"where": where}, NOW)
    (only,) = split(statement)
    assert only.words[:3] == ("CALL", "SYSTEM", "REWRITE") or only.words[0] == "CALL"
    found = [piece for part, piece in parts(statement) if part is Part.QUOTED]
    code = "".join(piece for part, piece in parts(statement) if part is Part.CODE)
    assert code == "CALL .system.rewrite_data_files(table => , where => )" and len(found) == 3


def test_ages_are_counted_from_now_and_named_with_their_zone():
    statement = call("lake.a.t", Operation.EXPIRE_SNAPSHOTS, {"older_than": DAY, "snapshot_ids": (1, 2)}, NOW)
    assert "older_than => TIMESTAMP '2027-01-14 08:00:00Z'" in statement and "array(1L, 2L)" in statement


@pytest.mark.requirement("CARE-2")
def test_wrong_arguments_are_all_named_at_once():
    with pytest.raises(Invalid) as wrong:
        asked({"table": "flights", "operation": "rewrite_data_files", "options": {"target-file-size": 1, "where": 3}})
    assert {fault.path for fault in wrong.value.faults} == {
        "arguments.table",
        "arguments.options.target-file-size",
        "arguments.options.where",
    }
    with pytest.raises(Invalid, match="must be one of rewrite_data_files"):
        asked({"table": "lake.raw.t", "operation": "compact"})


def test_options_are_taken_as_policies_say_them_and_as_they_are_kept():
    given = {"table": "lake.raw.t", "operation": "expire_snapshots"}
    for said in ("P7D", 7 * DAY):
        assert asked({**given, "options": {"older_than": said}})[2] == {"older_than": 7 * DAY}
    with pytest.raises(Invalid, match="must be a mapping"):
        asked({**given, "options": "older_than"})


@pytest.mark.requirement("CARE-11")
def test_small_steps_leave_what_a_person_chose():
    assert in_steps({"max-file-group-size-bytes": 5, "where": "x"}, 9)["max-file-group-size-bytes"] == 5
    assert step_bytes(1440) < step_bytes(100)


# ── what expires ───────────────────────────────────────────────────────────────────────────────────────────────────


def table(
    snapshots: list[tuple[int, int | None, int]], refs: dict[str, Any], current: int, **properties: str
) -> TableFiles:
    """`snapshots`: (id, parent, age)."""
    said = [
        {"snapshot-id": number, "timestamp-ms": (NOW - age) // 1000}
        | ({"parent-snapshot-id": parent} if parent else {})
        for number, parent, age in snapshots
    ]
    metadata = {"format-version": 2, "location": "file:/lake/raw/t", "snapshots": said, "refs": refs}
    metadata |= {"current-snapshot-id": current, "properties": properties}
    return TableFiles("x", metadata, 1, PyArrowFileIO())


@st.composite
def histories(draw: st.DrawFn) -> tuple[TableFiles, dict[str, Any], list[int]]:
    """A tree of snapshots with branches and tags, options, and those that somebody reads from."""
    count = draw(st.integers(1, 12))
    snapshots: list[tuple[int, int | None, int]] = []
    for number in range(1, count + 1):
        parent = draw(st.sampled_from([None, *range(1, number)])) if number > 1 else None
        snapshots.append((number, parent, (count - number) * DAY))
    numbers = st.integers(1, count)
    refs: dict[str, Any] = {"main": {"snapshot-id": draw(numbers), "type": "branch"}}
    for name in draw(st.sets(st.sampled_from("abc"))):
        kind = draw(st.sampled_from(["branch", "tag"]))
        refs[name] = {"snapshot-id": draw(numbers), "type": kind}
        if kind == "branch" and draw(st.booleans()):
            refs[name]["min-snapshots-to-keep"] = draw(st.integers(1, 5))
    options = {"older_than": draw(st.integers(1, 12)) * DAY - HOUR, "retain_last": draw(st.integers(1, 4))}
    return table(snapshots, refs, refs["main"]["snapshot-id"]), options, draw(st.lists(numbers, max_size=3))


@pytest.mark.requirement("CARE-11")
@given(given_=histories())
@settings(max_examples=60, deadline=None)
def test_nothing_expires_that_a_branch_a_tag_a_cursor_or_a_pinned_input_needs(given_):
    files, options, keep = given_
    found = choose(files, options, keep, NOW)
    going = set(found.expire)
    refs = files.metadata["refs"]
    assert not going & {one["snapshot-id"] for one in refs.values()} and not going & set(keep)
    line = [one["snapshot-id"] for one in files.line()]
    behind = [place for place, one in enumerate(line) if one in keep]
    assert not behind or not going & set(line[min(behind) :]), "who reads on from there needs all that follows"
    parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in files.metadata["snapshots"]}
    ages = {one["snapshot-id"]: NOW - one["timestamp-ms"] * 1000 for one in files.metadata["snapshots"]}
    for ref in (one for one in refs.values() if one["type"] == "branch"):
        at, place = ref["snapshot-id"], 0
        while at is not None:
            assert at not in going or place >= ref.get("min-snapshots-to-keep", options["retain_last"])
            at, place = parents[at], place + 1
    assert all(ages[one] > options["older_than"] for one in going), "nothing young goes"
    assert all(ages[one] > options["older_than"] for one in found.kept)


@pytest.mark.requirement("CARE-11")
def test_what_is_old_and_needed_by_nobody_expires_oldest_first():
    files = table([(1, None, 9 * DAY), (2, 1, 8 * DAY), (3, 2, 7 * DAY), (4, 3, DAY)], {}, 4)
    assert choose(files, {}, [], NOW).expire == (1, 2, 3)
    assert choose(files, {}, [2], NOW) == type(choose(files, {}, [], NOW))((1,), (2, 3))
    assert choose(files, {"retain_last": 3}, [], NOW).expire == (1,)
    assert choose(files, {"snapshot_ids": (3, 4, 99)}, [], NOW).expire == (3,), "the current one stays"
    slow = table(
        [(1, None, 9 * DAY), (2, 1, DAY)], {}, 2, **{"history.expire.max-snapshot-age-ms": str(10 * DAY // 1000)}
    )
    assert choose(slow, {}, [], NOW).expire == (), "a table's own property is the rule where nothing else is said"


# ── what is refused ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("CARE-11")
@pytest.mark.parametrize(
    ("options", "properties", "neighbours", "why"),
    [
        ({"older_than": DAY}, {}, {}, "3 days"),
        ({}, {"gc.enabled": "false"}, {}, "gc.enabled"),
        ({}, {}, {"lake.raw.u": "file:///lake/raw/t/"}, "shares its location with lake.raw.u"),
        ({}, {}, {"lake.raw.u": "file:/lake/raw/t/nested"}, "shares"),
        ({}, {}, {"lake.raw.u": "file:///lake/raw"}, "shares"),
        ({"location": "file:/lake/raw"}, {}, {}, "is not in the location"),
        ({"location": "file:/lake/raw/t/../u"}, {}, {}, "is not in the location"),
    ],
)
def test_orphans_are_not_looked_for_where_files_may_belong_to_others(options, properties, neighbours, why):
    files = table([(1, None, 0)], {}, 1, **properties)
    with pytest.raises(Refused, match=why):
        refuse_unsafe("lake.raw.t", files, options, neighbours)


@pytest.mark.requirement("CARE-11")
def test_a_table_apart_is_safe_and_too_many_orphans_are_refused():
    files = table([(1, None, 0)], {}, 1)
    apart = {"lake.raw.t": "file:/lake/raw/t", "lake.raw.t2": "file:/lake/raw/t2", "lake.b.t": "s3://lake/raw/t"}
    refuse_unsafe("lake.raw.t", files, {"location": "file:///lake/raw/t/data"}, apart)
    refuse_many("lake.raw.t", 5, 95, {})
    with pytest.raises(Refused, match="6 of 100 files"):
        refuse_many("lake.raw.t", 6, 94, {})
    refuse_many("lake.raw.t", 6, 94, {"max_share": 0.5})
    refuse_many("lake.raw.t", 0, 0, {"max_share": 0.0})
