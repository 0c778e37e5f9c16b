"""Every fault of a document is reported at once, at its path, in a sentence that says what would be right."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tidegate.documents import parse, parse_application, parse_arguments, parse_trigger
from tidegate.domain.errors import Fault, Invalid

SCHEDULE: dict[str, Any] = {
    "apiVersion": "tidegate/v1",
    "kind": "Schedule",
    "metadata": {"namespace": "sales", "name": "orders"},
    "spec": {"program": "refresh", "trigger": {"type": "cron", "expression": "0 2 * * *"}},
}
CRON = {"type": "cron", "expression": "0 2 * * *"}


def faults(document: object, **how: Any) -> list[Fault]:
    with pytest.raises(Invalid) as refused:
        parse(document, **how)
    return list(refused.value.faults)


def schedule(**spec: Any) -> dict[str, Any]:
    made = copy.deepcopy(SCHEDULE)
    made["spec"].update(spec)
    return made


def test_a_right_document_is_accepted() -> None:
    parse(SCHEDULE)


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    # name: (spec, path, a part of the reason)
    "unknown_key": ({"programm": "x"}, "spec.programm", "did you mean 'program'?"),
    "unknown_key_of_a_trigger": ({"trigger": {**CRON, "zone": "UTC"}}, "spec.trigger.zone", "not a key here"),
    "true_is_not_a_number": ({"priority": True}, "spec.priority", "must be a whole number, not true"),
    "text_is_not_a_number": ({"priority": "50"}, "spec.priority", 'must be a whole number, not the text "50"'),
    "one_is_not_true": ({"enabled": 1}, "spec.enabled", "must be true or false, not the number 1"),
    "priority_too_high": ({"priority": 101}, "spec.priority", "must be at most 100, not 101"),
    "priority_too_low": ({"priority": -1}, "spec.priority", "must be at least 0, not -1"),
    "no_trigger_type": ({"trigger": {"expression": "* * * * *"}}, "spec.trigger", "has no `type`"),
    "misspelt_trigger": ({"trigger": {"type": "crn"}}, "spec.trigger", "did you mean 'cron'?"),
    "missing_expression": ({"trigger": {"type": "cron"}}, "spec.trigger.expression", "is missing"),
    "bad_cron": ({"trigger": {**CRON, "expression": "61 2 * * *"}}, "spec.trigger.expression", "minute"),
    "never_matches": ({"trigger": {**CRON, "expression": "0 0 31 2 *"}}, "spec.trigger.expression", "never"),
    "digits_of_another_script": (
        {"trigger": {"type": "interval", "every": "PT٥S"}},
        "spec.trigger.every",
        "not an interval",
    ),
    "a_timeout_in_other_digits": ({"timeout": {"run": "PT١H"}}, "spec.timeout.run", "duration"),
    "before_the_epoch": (
        {"trigger": {"type": "at", "time": "1950-01-01T00:00:00Z"}},
        "spec.trigger.time",
        "must lie between the years 1970 and 2199",
    ),
    "seconds_opt_in": ({"trigger": {**CRON, "expression": "* 0 2 * * *"}}, "spec.trigger.expression", "seconds"),
    "bad_zone": ({"trigger": {**CRON, "timezone": "Europe/Berln"}}, "spec.trigger.timezone", "Europe/Berlin"),
    "end_before_start": (
        {"trigger": {**CRON, "start": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}},
        "spec.trigger.end",
        "must not lie before start",
    ),
    "nothing_between": (
        {"trigger": {**CRON, "start": "2026-01-01T03:00:00Z", "end": "2026-01-01T04:00:00Z"}},
        "spec.trigger.end",
        "nothing fires between",
    ),
    "at_after_end": (
        {"trigger": {"type": "at", "time": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}},
        "spec.trigger.time",
        "must not lie after end",
    ),
    "instant_without_zone": (
        {"trigger": {"type": "at", "time": "2026-02-01T00:00:00"}},
        "spec.trigger.time",
        "without a zone",
    ),
    "bad_interval": ({"trigger": {"type": "interval", "every": "soon"}}, "spec.trigger.every", "soon"),
    "zero_interval": ({"trigger": {"type": "interval", "every": "PT0S"}}, "spec.trigger.every", ""),
    "number_for_duration": (
        {"trigger": {"type": "after_finish", "delay": 60}},
        "spec.trigger.delay",
        'must be text such as "PT4H" or "4h", not the number 60',
    ),
    "month_as_duration": (
        {"trigger": {"type": "after_finish", "delay": "P1M"}},
        "spec.trigger.delay",
        "is not a duration",
    ),
    "no_days_between": (
        {"trigger": {"type": "window_days", "every_days": 0}},
        "spec.trigger.every_days",
        "must be at least 1, not 0",
    ),
    "bad_time_of_day": (
        {"trigger": {"type": "window_days", "every_days": 1, "earliest": "25:00"}},
        "spec.trigger.earliest",
        "is not a time of day",
    ),
    "equal_times_of_day": (
        {"trigger": {"type": "window_days", "every_days": 1, "earliest": "22:00", "latest": "22:00"}},
        "spec.trigger.latest",
        "is equal to earliest",
    ),
    "unknown_day": (
        {"trigger": {"type": "window_days", "every_days": 1, "days": ["MON", "TUES"]}},
        "spec.trigger.days[1]",
        "did you mean 'TUE'?",
    ),
    "no_days": ({"trigger": {"type": "window_days", "every_days": 1, "days": []}}, "spec.trigger.days", "empty"),
    "concurrency_zero": (
        {"constraints": [{"type": "concurrency", "max": 1}, {"type": "concurrency", "max": 0, "scope": "program"}]},
        "spec.constraints[1].max",
        "must be at least 1, not 0",
    ),
    "same_scope_twice": (
        {"constraints": [{"type": "concurrency", "max": 1}, {"type": "concurrency", "max": 2}]},
        "spec.constraints",
        "twice",
    ),
    "no_attempt": ({"retry": {"max_attempts": 0}}, "spec.retry.max_attempts", "must be at least 1, not 0"),
    "shrinking_backoff": ({"retry": {"factor": 0.5}}, "spec.retry.factor", "must be at least 1, not 0.5"),
    "backoff_beyond_its_cap": (
        {"retry": {"delay": "2h", "max_delay": "1h"}},
        "spec.retry.max_delay",
        "must not be shorter than delay (PT2H)",
    ),
    "bad_policy": ({"catch_up": {"policy": "newest"}}, "spec.catch_up.policy", "known: none, latest, all"),
    "catch_up_nothing": ({"catch_up": {"max": 0}}, "spec.catch_up.max", "must be at least 1, not 0"),
    "arguments_are_a_mapping": ({"arguments": ["a"]}, "spec.arguments", "must be a mapping"),
    "nul": ({"arguments": {"a": ["x\0"]}}, "spec.arguments.a[0]", "NUL"),
    "not_a_number": ({"arguments": {"a": float("nan")}}, "spec.arguments.a", "finite"),
    "half_a_character": ({"arguments": {"a": "\ud800"}}, "spec.arguments.a", "lone surrogate"),
    "bad_program_name": ({"program": "a b"}, "spec.program", "is not a name"),
    # of later versions, refused by name
    "data_size": (
        {"trigger": {"type": "data_size", "dataset": "lake.raw.orders"}},
        "spec.trigger",
        "says neither bytes nor rows",
    ),
    "event_type": (
        {"trigger": {"type": "event", "event": "landed"}},
        "spec.trigger.event",
        "'landed' is not an event type; known: user.NAME, ",
    ),
    "size": (
        {"trigger": {"type": "data_size", "dataset": "lake.raw.orders", "bytes": "1 gigabyte"}},
        "spec.trigger.bytes",
        "write it like 500 MB, 1 GB, 1 GiB or a number of bytes",
    ),
    "outcome": (
        {"trigger": {"type": "program_status", "program": "load", "outcomes": ["suceeded"]}},
        "spec.trigger.outcomes[0]",
        "did you mean 'succeeded'?",
    ),
    "deep_inside": (
        {"trigger": {"type": "all", "triggers": [CRON, {"type": "quiet", "trigger": {"type": "evnt"}, "for": "1m"}]}},
        "spec.trigger.triggers[1].trigger",
        "'evnt' is not a type of trigger; did you mean 'event'?",
    ),
    "quiet_without_a_span": (
        {"trigger": {"type": "quiet", "trigger": {"type": "event", "event": "user.x"}}},
        "spec.trigger.for",
        "is missing: how long nothing more may come",
    ),
    "elapsed_since_what": (
        {"trigger": {"type": "elapsed", "since": "last_event", "after": "1h"}},
        "spec.trigger",
        "says no `event`",
    ),
    "window_without_end": (
        {"constraints": [{"type": "window", "start": "22:00"}]},
        "spec.constraints[0].end",
        "is missing",
    ),
    "window_of_nothing": (
        {"constraints": [{"type": "window", "start": "22:00", "end": "22:00"}]},
        "spec.constraints[0].end",
        "must differ from start",
    ),
    "window_start": (
        {"constraints": [{"type": "window", "start": "24:00", "end": "06:00"}]},
        "spec.constraints[0].start",
        '"24:00" can only end a window',
    ),
    "window_minutes": (
        {"constraints": [{"type": "window", "start": "22:60", "end": "06:00"}]},
        "spec.constraints[0].start",
        "is not a time of day",
    ),
    "window_zone": (
        {"constraints": [{"type": "window", "start": "22:00", "end": "06:00", "timezone": "Berlin"}]},
        "spec.constraints[0].timezone",
        "Europe/Berlin",
    ),
    "window_days": (
        {"constraints": [{"type": "window", "start": "22:00", "end": "06:00", "days": ["MON", "MON"]}]},
        "spec.constraints[0].days",
        "names MON more than once",
    ),
    "limit_of_none": (
        {"constraints": [{"type": "concurrency", "max": 0}]},
        "spec.constraints[0].max",
        "must be at least 1",
    ),
    "rate_of_none": (
        {"constraints": [{"type": "rate", "max": 0, "per": "PT1H"}]},
        "spec.constraints[0].max",
        "must be at least 1",
    ),
    "rate_without_span": (
        {"constraints": [{"type": "rate", "max": 3}]},
        "spec.constraints[0].per",
        "is missing",
    ),
    "second_delay": (
        {"constraints": [{"type": "delay", "duration": "PT1M"}, {"type": "delay", "duration": "PT2M"}]},
        "spec.constraints",
        "has more than one delay; keep the longer",
    ),
    "no_delay": (
        {"constraints": [{"type": "delay", "duration": "PT0S"}]},
        "spec.constraints[0].duration",
        "must be at least",
    ),
    "no_group": (
        {"constraints": [{"type": "concurrency", "max": 1, "scope": "group:"}]},
        "spec.constraints[0].scope",
        "names no group",
    ),
    "no_scope": (
        {"constraints": [{"type": "rate", "max": 1, "per": "1h", "scope": "schedules"}]},
        "spec.constraints[0].scope",
        "did you mean 'schedule'?",
    ),
    "no_constraint": (
        {"constraints": [{"type": "windows", "start": "22:00"}]},
        "spec.constraints[0]",
        "'windows' is not a type of constraint; did you mean 'window'?",
    ),
    "load_beyond": (
        {"constraints": [{"type": "load", "resource": "pool:default", "below": 120}]},
        "spec.constraints[0].below",
        "must lie between 0 and 100",
    ),
    "load_of_nothing": (
        {"constraints": [{"type": "load", "resource": "pool:", "below": 50}]},
        "spec.constraints[0].resource",
        "is not a resource",
    ),
    "unmet": (
        {"constraints": [{"type": "delay", "duration": "PT1M", "unmet": "drop"}]},
        "spec.constraints[0].unmet",
        "'drop' is not a meaning of unmet",
    ),
    "forced": ({"waiting": {"then": "force"}}, "spec.waiting.then", "'force' is not `waiting.then`"),
    "no_deadline": ({"deadline": {}}, "spec.deadline", "says neither start nor finish"),
    "deadline_order": (
        {"deadline": {"start": "PT2H", "finish": "PT1H"}},
        "spec.deadline.finish",
        "must not be shorter than start (PT2H)",
    ),
    "deadline_from": (
        {"deadline": {"start": "PT2H", "from": "start"}},
        "spec.deadline.from",
        "'start' is not a beginning of a deadline",
    ),
}


@pytest.mark.requirement("GATE-15", "OPS-4")
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_schedule_names_the_place_and_the_remedy(name: str) -> None:
    spec, path, reason = CASES[name]
    found = faults(schedule(**spec))
    assert [fault.path for fault in found] == [path]
    assert reason in found[0].reason


PROGRAMS: dict[str, tuple[dict[str, Any], str, str]] = {
    "misspelt": ({"type": "pyspak"}, "spec", "did you mean 'pyspark'?"),
    "of_policies": (
        {"type": "maintenance"},
        "spec",
        "programs of type 'maintenance' are made by policies: declare a MaintenancePolicy; available here: pyspark",
    ),
    "events_of_ours": ({"type": "publish", "event": "run.started", "key": "a"}, "spec.event", "by Tidegate itself"),
    "no_event": ({"type": "publish", "event": "loaded", "key": "a"}, "spec.event", "known: user.NAME"),
    "empty_key": ({"type": "publish", "event": "user.x", "key": ""}, "spec.key", "'' is not a key"),
    "key_as_given": ({"type": "publish", "event": "user.x", "key": " a"}, "spec.key", "' a' is not a key"),
    "event_key": ({"type": "publish", "event": "user.x", "key": "a/ b"}, "spec.key", "write namespace/name"),
    "event_template": (
        {"type": "publish", "event": "user.x", "key": "a", "payload": {"day": "{{ fire_tiem }}"}},
        "spec.payload",
        "did you mean 'fire_time'?",
    ),
    "event_environment": (
        {"type": "publish", "event": "user.x", "key": "a", "environment": {"A": "b"}},
        "spec.environment",
        "not",
    ),
    "jar_without_class": ({"type": "spark_submit", "application": "a.jar"}, "spec", "needs `main_class`"),
    "python_in_a_standalone_cluster": (
        {"type": "spark_submit", "application": "a.py", "master": "spark://x:1", "deploy_mode": "cluster"},
        "spec",
        "deploy_mode client only",
    ),
    "deploy_mode": ({"type": "spark_submit", "application": "a.py", "deploy_mode": "clint"}, "spec.deploy_mode", "cli"),
    "address": ({"type": "http", "url": "ftp://x"}, "spec.url", "is not an address"),
    "no_address": ({"type": "http"}, "spec.url", "missing"),
    "method": ({"type": "http", "url": "http://x", "method": "get"}, "spec.method", "did you mean 'GET'?"),
    "status": ({"type": "http", "url": "http://x", "success": [200, 700]}, "spec.success", "not the number 700"),
    "header": ({"type": "http", "url": "http://x", "headers": {"A b": "c"}}, "spec.headers", "'A b'"),
    "header_is_text": ({"type": "http", "url": "http://x", "headers": {"A": 1}}, "spec.headers", "one line of text"),
    "secret": ({"type": "http", "url": "http://x", "secret": "s3cret"}, "spec.secret", "env:NAME"),
    "password": ({"type": "http", "url": "http://u:p@x/"}, "spec.url", "no user and password"),
    "port": ({"type": "http", "url": "http://x:99999/"}, "spec.url", "'99999' is no port"),
    "port_before_a_template": (
        {"type": "http", "url": "http://x:abc/{{ cause.type }}"},
        "spec.url",
        "'abc' is no port",
    ),
    "our_header": (
        {"type": "http", "url": "http://x", "headers": {"idempotency-key": "c"}},
        "spec.headers",
        "set by Tidegate",
    ),
    "header_of_transport": (
        {"type": "http", "url": "http://x", "headers": {"Content-Length": "5"}},
        "spec.headers",
        "set by Tidegate",
    ),
    "header_secret": (
        {"type": "http", "url": "http://x", "headers": {"Authorization": "Bearer s3cret"}},
        "spec.headers",
        "env:NAME",
    ),
    "header_ascii": ({"type": "http", "url": "http://x", "headers": {"A": "ü"}}, "spec.headers", "ASCII"),
    "body_template": (
        {"type": "http", "url": "http://x", "body": {"a": ["{{ fire_tiem }}"]}},
        "spec.body",
        "did you mean 'fire_time'?",
    ),
    "no_command": ({"type": "command", "argv": []}, "spec.argv", "must not be empty"),
    "argv_is_a_list": ({"type": "command", "argv": "ls"}, "spec.argv", 'must be a list, not the text "ls"'),
    "argv_of_text": ({"type": "command", "argv": ["a", 1]}, "spec.argv[1]", "must be text, not the number 1"),
    "no_function": ({"type": "python", "entry": "load"}, "spec.entry", "names no function"),
    "a_file_is_no_function": ({"type": "python", "entry": "load.py"}, "spec.entry", "names no function"),
    "empty_sql": ({"type": "spark_sql", "sql": " ; "}, "spec.sql", "must not be empty"),
    "own_variables": (
        {"type": "command", "argv": ["a"], "environment": {"TIDEGATE_HOME": "x"}},
        "spec.environment",
        "are given by Tidegate",
    ),
    "variables_are_text": (
        {"type": "command", "argv": ["a"], "environment": {"A": 1}},
        "spec.environment",
        "put it in quotes",
    ),
    "isolation": ({"type": "spark_sql", "sql": "x", "isolation": "own"}, "spec.isolation", "shared, process"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_program_names_the_place_and_the_remedy(name: str) -> None:
    spec, path, reason = PROGRAMS[name]
    found = faults({"apiVersion": "tidegate/v1", "kind": "Program", "metadata": {"name": "p"}, "spec": spec})
    assert [fault.path for fault in found] == [path]
    assert reason in found[0].reason


def test_every_fault_is_told_at_once() -> None:
    found = faults(
        {
            "kind": "Schedule",
            "metadata": {"name": "-x", "lables": {}},
            "spec": {
                "priority": 200,
                "trigger": {"type": "cron", "expression": "nope", "timezone": "Nowhere", "jitter": 3},
                "constraints": [{"type": "concurrency", "max": 0}, {"type": "delay"}],
                "retry": {"max_attempts": 0},
                "arguments": {"x": float("inf")},
            },
        }
    )
    assert {fault.path for fault in found} == {
        "apiVersion",
        "metadata.name",
        "metadata.lables",
        "spec.program",
        "spec.priority",
        "spec.trigger.expression",
        "spec.trigger.timezone",
        "spec.trigger.jitter",
        "spec.constraints[0].max",
        "spec.constraints[1].duration",
        "spec.retry.max_attempts",
        "spec.arguments.x",
    }


@pytest.mark.parametrize("raw", [None, "text", 3, [], True], ids=["null", "text", "number", "list", "true"])
def test_what_is_no_mapping_is_no_document(raw: object) -> None:
    assert "a document is a mapping" in faults(raw)[0].reason
    assert "a document is a mapping" in faults(raw, kind="Schedule", name="x")[0].reason


def test_the_address_and_the_document_must_agree() -> None:
    found = faults(SCHEDULE, kind="Schedule", namespace="sales", name="other")
    assert [fault.path for fault in found] == ["metadata.name"]
    found = faults(SCHEDULE, kind="Program", namespace="sales", name="orders")
    assert found[0].path == "kind"


def test_the_address_fills_in_what_the_document_leaves_out() -> None:
    made = parse({"spec": SCHEDULE["spec"]}, kind="Schedule", namespace="sales", name="orders")
    assert (made.metadata.namespace, made.metadata.name) == ("sales", "orders")


def test_the_faults_of_an_application_say_which_item() -> None:
    with pytest.raises(Invalid) as refused:
        parse_application(
            {
                "programs": [{"metadata": {"name": "a"}, "spec": {"type": "command", "argv": ["x"]}}, {"spec": {}}],
                "schedules": [{"metadata": {"name": "s"}, "spec": {"program": "a", "trigger": {"type": "any"}}}],
                "shedules": [],
            },
            namespace="sales",
            name="etl",
        )
    paths = [fault.path for fault in refused.value.faults]
    assert paths == ["shedules"]
    with pytest.raises(Invalid) as refused:
        parse_application(
            {
                "programs": [{"metadata": {"name": "a"}, "spec": {"type": "command", "argv": ["x"]}}, {"spec": {}}],
                "schedules": [{"metadata": {"name": "s"}, "spec": {"program": "a", "trigger": {"type": "any"}}}],
            },
            namespace="sales",
            name="etl",
        )
    assert {fault.path for fault in refused.value.faults} == {
        "programs[1].metadata",
        "programs[1].spec",
        "schedules[0].spec.trigger.triggers",
    }


def test_a_preview_trigger_has_paths_of_its_own() -> None:
    with pytest.raises(Invalid) as refused:
        parse_trigger({"type": "cron", "expression": "x", "timezone": "Y"})
    assert {fault.path for fault in refused.value.faults} == {"trigger.expression", "trigger.timezone"}


def test_arguments_by_hand_are_json() -> None:
    assert parse_arguments({"a": [1, {"b": None}]}) == {"a": [1, {"b": None}]}
    with pytest.raises(Invalid):
        parse_arguments([1])
