"""What is encoded reads back as what it was: documents lose nothing."""

from __future__ import annotations

from typing import Any, cast

import any_constraint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidegate.documents import declared, encode, parse
from tidegate.domain import programs, schedules, triggers
from tidegate.domain.instants import DAY, MILLISECOND, SECOND, parse_instant

FIRST, LAST = parse_instant("1990-01-01T00:00:00Z"), parse_instant("2100-01-01T00:00:00Z")
moments = st.integers(FIRST, LAST)
durations = st.integers(1, 400 * DAY // MILLISECOND).map(lambda number: number * MILLISECOND)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(texts, json, max_size=3)
zones = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"])
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, Any]:
    start, length = draw(moments), draw(st.integers(800 * DAY, 2000 * DAY))
    return {
        "start": draw(st.sampled_from([None, start])),
        "end": draw(st.sampled_from([None, start + length])),
        "jitter": draw(st.sampled_from([0, 30 * SECOND])),
    }


datasets = st.sampled_from(["lake.raw.orders", "lake.raw.flights", "a-stream"])
counts = st.integers(1, 1000)
data_leaves = st.one_of(
    st.builds(triggers.Partition, dataset=datasets, count=counts, changed=st.booleans()),
    st.builds(triggers.DataSize, dataset=datasets, bytes=counts, rows=st.none() | counts),
    st.builds(
        triggers.Happened,
        event=st.just("user.landed"),
        key=st.sampled_from([None, "sales/eu"]),
        match=st.none() | arguments,
        count=counts,
    ),
    st.builds(
        triggers.ProgramStatus,
        program=st.just("sales/load"),
        outcomes=st.sets(st.sampled_from(["succeeded", "failed", "crashed", "started"]), min_size=1).map(
            lambda chosen: tuple(sorted(chosen))
        ),
        count=counts,
        backfill=st.booleans(),
    ),
    st.builds(triggers.Elapsed, since=st.just(triggers.Since.LAST_RUN), after=durations),
    st.builds(
        triggers.Elapsed,
        since=st.just(triggers.Since.LAST_EVENT),
        after=durations,
        event=st.just("dataset.updated"),
        key=st.none() | datasets,
    ),
)


def _composites(inner: st.SearchStrategy[triggers.Trigger]) -> st.SearchStrategy[triggers.Trigger]:
    legs = st.lists(inner, min_size=1, max_size=3).map(tuple)
    waits = st.none() | durations
    return st.one_of(
        st.builds(triggers.All, triggers=legs, max_wait=waits, then=st.sampled_from(triggers.Then)),
        st.builds(triggers.AnyOf, triggers=legs),
        legs.map(lambda chosen: triggers.NOf(n=len(chosen), triggers=chosen)),
        st.builds(triggers.Quiet, trigger=inner, silence=durations, max_wait=waits),
    )


trees = st.recursive(data_leaves, _composites, max_leaves=5)


@st.composite
def any_trigger(draw: st.DrawFn) -> triggers.Trigger:
    return draw(st.one_of(single_trigger(), trees))


@st.composite
def single_trigger(draw: st.DrawFn) -> triggers.Trigger:
    within = draw(bounds())
    match draw(st.sampled_from([*triggers.TIME_TRIGGERS, triggers.Never])):
        case triggers.Cron:
            seconds = draw(st.booleans())
            return triggers.Cron(
                expression="*/5 0 2 * * MON-FRI" if seconds else "0 2 L * ?",
                seconds=seconds,
                timezone=draw(zones),
                dst_gap=draw(st.sampled_from(triggers.Gap)),
                dst_overlap=draw(st.sampled_from(triggers.Overlap)),
                **within,
            )
        case triggers.Interval:
            every = draw(st.sampled_from(["PT5S", "4h", "P1D", "P1M", "PT24H"]))
            return triggers.Interval(every=every, anchor=draw(st.none() | moments), timezone=draw(zones), **within)
        case triggers.AfterFinish:
            return triggers.AfterFinish(delay=draw(durations), **within)
        case triggers.At:
            return triggers.At(time=draw(moments), jitter=within["jitter"])
        case triggers.WindowDays:
            days = draw(st.sets(st.sampled_from(triggers.Weekday), min_size=1))
            earliest = draw(st.integers(0, 1439))
            return triggers.WindowDays(
                every_days=draw(st.integers(1, 30)),
                days=tuple(day for day in triggers.Weekday if day in days),
                earliest=earliest,
                latest=draw(st.integers(1, 1440).filter(lambda minute: minute != earliest)),
                timezone=draw(zones),
                **within,
            )
    return triggers.Never()


@st.composite
def any_spec(draw: st.DrawFn) -> schedules.ScheduleSpec:
    delay = draw(durations)
    trigger = draw(any_trigger())
    return schedules.ScheduleSpec(
        program=draw(names),
        trigger=trigger,
        arguments=draw(arguments),
        priority=draw(st.integers(0, 100)),
        groups=tuple(draw(st.lists(names, max_size=2))),
        constraints=draw(any_constraint.several),
        waiting=schedules.WaitingPolicy(
            runs=draw(st.sampled_from(schedules.Waiting)),
            max=draw(st.integers(1, 2000)),
            timeout=draw(st.none() | durations),
            then=draw(st.sampled_from(schedules.ThenWaiting)),
        ),
        catch_up=schedules.CatchUp(
            policy=draw(st.sampled_from(schedules.CatchUpPolicy)),
            grace=draw(durations),
            window=draw(durations),
            max=draw(st.integers(1, 500)),
        ),
        retry=schedules.Retry(
            max_attempts=draw(st.integers(1, 9)),
            delay=delay,
            factor=draw(st.floats(1, 10)),
            max_delay=delay + draw(durations),
        ),
        timeout=schedules.Timeout(run=draw(st.none() | durations), grace=draw(durations)),
        deadline=draw(st.none() | any_constraint.deadlines),
    )


@given(spec=any_spec(), enabled=st.sampled_from([None, True, False]))
@settings(deadline=None, max_examples=examples(200))
def test_a_schedule_survives_its_document(spec: schedules.ScheduleSpec, enabled: bool | None) -> None:
    written = encode.schedule(spec, enabled=enabled)
    read = cast(declared.Schedule, parse({"spec": written}, kind="Schedule", name="x"))
    assert (read.spec, read.enabled) == (spec, enabled)
    assert encode.schedule(read.spec, enabled=read.enabled) == written


common = st.fixed_dictionaries(
    {
        "pool": st.none() | names,
        "groups": st.lists(names, max_size=2).map(tuple),
        "arguments": arguments,
        "environment": st.dictionaries(st.sampled_from(["A", "B_1"]), texts, max_size=2),
    }
)
conf = st.dictionaries(texts, texts | st.integers(-9, 9) | st.booleans(), max_size=2)
isolation = st.sampled_from(programs.Isolation)
any_program = st.one_of(
    st.builds(
        lambda c, **own: programs.PySpark(**c, **own), common, entry=st.just("a/b.py"), conf=conf, isolation=isolation
    ),
    st.builds(
        lambda c, **own: programs.PySpark(**c, **own),
        common,
        entry=st.just("a.b:c"),
        remote=st.sampled_from(["sc://h:15002", "env:X"]),
    ),
    st.builds(
        lambda c, **own: programs.SparkSql(**c, **own), common, sql=st.just("SELECT 1"), conf=conf, isolation=isolation
    ),
    st.builds(lambda c, **own: programs.Python(**c, **own), common, entry=st.sampled_from(["a.b:c", "x/y.py:f"])),
    st.builds(
        lambda c, **own: programs.Command(**c, **own),
        common,
        argv=st.lists(texts, min_size=1, max_size=3).filter(lambda argv: bool(argv[0].strip())).map(tuple),
    ),
    st.builds(
        lambda c, **own: programs.SparkSubmit(**c, **own),
        common,
        application=st.just("a/b.jar"),
        main_class=st.just("a.B"),
        master=st.none() | st.sampled_from(["spark://x:7077", "yarn"]),
        deploy_mode=st.sampled_from(programs.DeployMode),
        conf=conf,
        args=st.lists(st.sampled_from(["--day", "{{ fire_time }}"]), max_size=2).map(tuple),
    ),
    st.builds(
        lambda c, **own: programs.Http(**{**c, "environment": {}}, **own),
        common,
        url=st.sampled_from(["http://x/y", "https://x/{{ arguments.region }}", "{{ arguments.url }}"]),
        method=st.sampled_from(["POST", "GET"]),
        headers=st.just({}) | st.just({"Authorization": "env:TOKEN"}),
        body=st.none() | texts | st.just({"a": [1, "{{ fire_time }}"]}),
        success=st.sampled_from([("2xx",), (200, "3xx")]),
        secret=st.none() | st.just("env:SECRET"),
    ),
    st.builds(
        lambda c, **own: programs.Publish(**{**c, "environment": {}}, **own),
        common,
        event=st.just("user.loaded"),
        key=st.sampled_from(["eu", "sales/eu", "{{ arguments.region }}"]),
        payload=st.just({}) | st.just({"day": "{{ fire_time }}", "n": [1, None]}),
    ),
)


@given(spec=any_program)
@settings(deadline=None)
def test_a_program_survives_its_document(spec: programs.ProgramSpec) -> None:
    read = cast(declared.Program, parse({"spec": encode.program(spec)}, kind="Program", name="x"))
    assert read.spec == spec


def test_what_is_left_out_is_the_table_of_defaults() -> None:
    raw = {"spec": {"program": "p", "trigger": {"type": "cron", "expression": "@daily"}}}
    read = cast(declared.Schedule, parse(raw, kind="Schedule", name="x"))
    assert read.enabled is None
    assert read.spec == schedules.ScheduleSpec(program="p", trigger=triggers.Cron(expression="@daily"))
    assert read.metadata.namespace == "default"


@pytest.mark.parametrize("value", ["all", {"runs": "all"}], ids=["short", "long"])
def test_waiting_has_a_short_form(value: Any) -> None:
    raw = {"spec": {"program": "p", "trigger": {"type": "never"}, "waiting": value}}
    assert cast(declared.Schedule, parse(raw, kind="Schedule", name="x")).spec.waiting.runs == "all"


def test_a_delay_beyond_the_default_cap_raises_the_cap() -> None:
    raw = {"spec": {"program": "p", "trigger": {"type": "never"}, "retry": {"delay": "3h"}}}
    spec = cast(declared.Schedule, parse(raw, kind="Schedule", name="x")).spec
    assert spec.retry.max_delay == spec.retry.delay


@pytest.mark.requirement("GATE-5")
def test_midnight_ends_a_window_however_it_is_written() -> None:
    def ends(end: str) -> schedules.ScheduleSpec:
        held = {"type": "window", "start": "22:00", "end": end}
        raw = {"spec": {"program": "p", "trigger": {"type": "never"}, "constraints": [held]}}
        return cast(declared.Schedule, parse(raw, kind="Schedule", name="x")).spec

    assert ends("00:00") == ends("24:00") != ends("00:01")
