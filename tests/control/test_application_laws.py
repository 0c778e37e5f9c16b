"""Laws of programs, applications, namespaces, pools, and of applying many documents at once."""

from __future__ import annotations

from typing import Any, cast

import pytest
from conftest import Desk

from tidegate.control import applications, apply, namespaces, pools, programs, schedules
from tidegate.control.applications import Counts, Deployed
from tidegate.control.common import Effect
from tidegate.documents import declared, parse, parse_application
from tidegate.domain.errors import Conflict, Invalid, NotFound, Refused
from tidegate.domain.pools import BUILT_IN
from tidegate.domain.schedules import Mode

COMMAND = {"type": "command", "argv": ["true"]}
HOURLY = {"type": "cron", "expression": "@hourly"}


def item(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def etl(programs: dict[str, Any] | None = None, schedules: dict[str, Any] | None = None) -> declared.Application:
    raw = {
        "programs": [item(name, **(spec or COMMAND)) for name, spec in (programs or {}).items()],
        "schedules": [
            item(name, **{"program": "p1", "trigger": HOURLY, **(spec or {})})
            for name, spec in (schedules or {}).items()
        ],
    }
    return parse_application(raw, namespace="sales", name="etl")


def deploy(desk: Desk, application: declared.Application, **how: Any) -> Deployed:
    return desk.do(applications.deploy(desk.store, application, who="ann", **how))


def document(kind: str, name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> declared.Declaration:
    raw: dict[str, Any] = {"apiVersion": "tidegate/v1", "kind": kind, "metadata": {"name": name, **metadata}}
    return parse(raw if spec is None else {**raw, "spec": spec}, default_namespace="sales")


# ── applications ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-6")
def test_missing_are_created_differing_replaced_equal_left_alone_and_undeclared_deleted(desk: Desk) -> None:
    first = deploy(desk, etl({"p1": None, "p2": None}, {"a": None, "b": None, "c": {"program": "p2"}}))
    assert first.schedules == Counts(created=("a", "b", "c"))
    assert first.programs == Counts(created=("p1", "p2"))
    assert first.disabled == ("a", "b", "c")
    desk.do(schedules.enable(desk.store, "sales", "a", who="ann"))
    kept = desk.record("a")

    second = deploy(
        desk, etl({"p1": {**COMMAND, "argv": ["x"]}, "p3": None}, {"a": None, "b": {"priority": 9}, "d": None})
    )
    assert second.schedules == Counts(created=("d",), updated=("b",), deleted=("c",), unchanged=("a",))
    assert second.programs == Counts(created=("p3",), updated=("p1",), deleted=("p2",))
    assert desk.record("a").rev == kept.rev and desk.record("a").mode is Mode.ENABLED
    assert desk.record("a").program.rev == 2  # a program's update disturbs no schedule

    assert deploy(
        desk, etl({"p1": {**COMMAND, "argv": ["x"]}, "p3": None}, {"a": None, "b": {"priority": 9}, "d": None})
    ) == (Deployed(schedules=Counts(unchanged=("a", "b", "d")), programs=Counts(unchanged=("p1", "p3"))))


@pytest.mark.requirement("LIFE-6")
def test_without_update_schedules_only_those_of_removed_programs_go(desk: Desk) -> None:
    deploy(desk, etl({"p1": None, "p2": None}, {"a": None, "c": {"program": "p2"}}))
    done = deploy(desk, etl({"p1": None}, {"new": None}), update_schedules=False)
    assert done.schedules == Counts(deleted=("c",))
    assert done.programs == Counts(deleted=("p2",), unchanged=("p1",))
    assert desk.record("a")
    with pytest.raises(NotFound):
        desk.record("new")


@pytest.mark.requirement("LIFE-6")
def test_a_schedule_made_by_hand_for_the_application_is_its_own(desk: Desk) -> None:
    deploy(desk, etl({"p1": None}, {"a": None}))
    desk.put("by-hand", metadata={"application": "etl"})
    desk.put("free")
    assert deploy(desk, etl({"p1": None}, {"a": None})).schedules.deleted == ("by-hand",)
    assert desk.record("free")


@pytest.mark.requirement("LIFE-6")
def test_a_name_of_another_application_is_a_conflict(desk: Desk) -> None:
    deploy(desk, etl({"p1": None}, {"a": None}))
    raw = {"programs": [item("p1", **COMMAND)], "schedules": []}
    other = parse_application(raw, namespace="sales", name="other")
    with pytest.raises(Conflict, match="belongs to application 'etl'"):
        deploy(desk, other)
    with pytest.raises(Conflict, match="belongs to application 'etl'"):
        desk.put("a", metadata={"application": "other"})
    assert desk.put("a", program="p1", trigger=HOURLY).effect is Effect.UNCHANGED  # it stays with its owner
    assert desk.record("a").metadata.application == "etl"


def test_a_plan_changes_nothing_and_says_what_would(desk: Desk) -> None:
    planned = deploy(desk, etl({"p1": None}, {"a": None}), dry_run=True)
    assert planned.schedules.created == ("a",)
    with pytest.raises(NotFound):
        desk.do(applications.get(desk.store, "sales", "etl"))
    assert deploy(desk, etl({"p1": None}, {"a": None})) == planned


def test_a_deployment_with_a_fault_writes_nothing(desk: Desk) -> None:
    with pytest.raises(Invalid) as refused:
        deploy(desk, etl({"p1": None}, {"a": None, "b": {"program": "p9"}, "c": {"program": "p8"}}))
    assert [fault.path for fault in refused.value.faults] == ["schedules[1].spec.program", "schedules[2].spec.program"]
    with pytest.raises(NotFound):
        desk.do(programs.get(desk.store, "sales", "p1"))


def test_a_schedule_may_name_any_program_of_the_namespace(desk: Desk) -> None:
    assert deploy(desk, etl({}, {"a": {"program": "load"}})).schedules.created == ("a",)


def test_a_schedule_must_not_name_a_program_that_this_deployment_removes(desk: Desk) -> None:
    deploy(desk, etl({"p1": None}, {"a": None}))
    with pytest.raises(Invalid):
        deploy(desk, etl({}, {"a": None}))


@pytest.mark.requirement("LIFE-6")
def test_a_deleted_application_takes_everything_along(desk: Desk) -> None:
    deploy(desk, etl({"p1": None}, {"a": None}))
    desk.put("other", program="p1")
    done = desk.do(applications.delete(desk.store, "sales", "etl", who="ann"))
    assert (done.schedules.deleted, done.programs.deleted) == (("a", "other"), ("p1",))
    with pytest.raises(NotFound):
        desk.do(applications.delete(desk.store, "sales", "etl", who="ann"))


def test_an_application_lists_what_is_its_own(desk: Desk) -> None:
    deploy(desk, etl({"p1": None}, {"a": None}))
    desk.put("free")
    found = desk.do(applications.get(desk.store, "sales", "etl"))
    assert (found.document["programs"], found.document["schedules"]) == (["p1"], ["a"])
    assert [one.name for one in desk.do(applications.page(desk.store, "sales")).items] == ["etl"]


# ── programs ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("LIFE-6")
def test_a_deleted_program_takes_every_schedule_along_that_names_it(desk: Desk) -> None:
    desk.program("other")
    desk.put("a", enabled=True)
    desk.put("b")
    desk.put("c", program="other")
    desk.later("3m")
    assert sorted(desk.do(programs.delete(desk.store, "sales", "load", who="ann"))) == ["a", "b"]
    assert desk.states("a") == ["superseded*3"]
    assert desk.record("c")
    with pytest.raises(NotFound):
        desk.do(programs.get(desk.store, "sales", "load"))
    assert desk.audit().holds


def test_an_equal_program_is_not_written(desk: Desk) -> None:
    assert desk.program().effect is Effect.UNCHANGED
    assert desk.program(arguments={"a": 1}).effect is Effect.UPDATED
    assert desk.do(programs.get(desk.store, "sales", "load")).ref.rev == 2


# ── namespaces and pools ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_write_makes_the_namespace(desk: Desk) -> None:
    assert desk.do(namespaces.get(desk.store, "sales")).name == "sales"
    with pytest.raises(Conflict):
        desk.do(namespaces.delete(desk.store, "sales", who="ann"))
    told = cast(declared.Namespace, document("Namespace", "sales", owner="core"))
    assert desk.do(namespaces.put(desk.store, told, who="ann")) is Effect.UPDATED
    assert desk.do(namespaces.put(desk.store, told, who="ann")) is Effect.UNCHANGED
    desk.do(programs.delete(desk.store, "sales", "load", who="ann"))
    desk.do(namespaces.delete(desk.store, "sales", who="ann"))
    with pytest.raises(NotFound):
        desk.do(namespaces.get(desk.store, "sales"))


def test_pools_are_declared_and_the_built_in_ones_stay(desk: Desk) -> None:
    gpu = cast(declared.Pool, document("Pool", "gpu", {"slots": 2, "rate": {"max": 10, "burst": 20}}))
    assert desk.do(pools.put(desk.store, gpu, who="ann")) is Effect.CREATED
    assert desk.do(pools.put(desk.store, gpu, who="ann")) is Effect.UNCHANGED
    assert pools.rate_of(desk.do(pools.get(desk.store, "gpu"))) == (10, 1_000_000, 20)
    with pytest.raises(Refused):
        desk.do(pools.delete(desk.store, "default", who="ann"))
    desk.do(pools.delete(desk.store, "gpu", who="ann"))
    with pytest.raises(NotFound):
        desk.do(pools.delete(desk.store, "gpu", who="ann"))
    assert [one.name for one in desk.do(pools.page(desk.store)).items] == sorted(BUILT_IN)


# ── apply and diff ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("OPS-4")
def test_documents_are_applied_whatever_their_order(desk: Desk) -> None:
    documents = [
        document("Schedule", "s", {"program": "q", "trigger": HOURLY}),
        document("Schedule", "t", {"program": "q", "trigger": HOURLY, "enabled": True}),
        document("Program", "q", COMMAND),
        document("Pool", "gpu", {"slots": 1}),
        document("Namespace", "sales", owner="core"),
    ]
    done = desk.do(apply.apply(desk.store, documents, who="ann"))
    assert [(one.kind, one.effect.value) for one in done] == [
        ("Schedule", "created"),
        ("Schedule", "created"),
        ("Program", "created"),
        ("Pool", "created"),
        ("Namespace", "updated"),
    ]
    assert [one.hint for one in done[:2]] == ["It is disabled. To enable it: tidegate enable s -n sales", ""]
    again = desk.do(apply.apply(desk.store, documents, who="ann"))
    assert {one.effect for one in again} == {Effect.UNCHANGED}


@pytest.mark.requirement("OPS-4")
def test_one_wrong_document_stops_all(desk: Desk) -> None:
    documents = [document("Program", "q", COMMAND), document("Schedule", "s", {"program": "zz", "trigger": HOURLY})]
    with pytest.raises(Invalid, match=r"documents\[1\].spec.program"):
        desk.do(apply.apply(desk.store, documents, who="ann"))
    with pytest.raises(NotFound):
        desk.do(programs.get(desk.store, "sales", "q"))


@pytest.mark.requirement("OPS-4")
def test_a_dry_run_and_a_diff_tell_what_applying_does(desk: Desk) -> None:
    desk.put(enabled=True, retry={"delay": "PT1M"})
    same = desk.declare(enabled=True, retry={"delay": "1m"})
    (told,) = desk.do(apply.diff(desk.store, [same]))
    assert told.same and told.fields == ()
    changed = desk.declare(enabled=True, priority=60, trigger={"type": "cron", "expression": "5 * * * *"})
    (told,) = desk.do(apply.diff(desk.store, [changed]))
    assert {(one.path, one.stored, one.given) for one in told.fields} == {
        ("spec.priority", None, 60),
        ("spec.trigger.expression", "* * * * *", "5 * * * *"),
    }
    (would,) = desk.do(apply.apply(desk.store, [changed], who="ann", dry_run=True))
    assert would.effect is Effect.UPDATED
    assert desk.record().rev == 1
    (new,) = desk.do(apply.diff(desk.store, [desk.declare("new")]))
    assert not new.exists and not new.same


@pytest.mark.requirement("OPS-4")
def test_a_diff_shows_the_last_word_of_a_person(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.do(schedules.disable(desk.store, "sales", "orders", who="bob"))
    (told,) = desk.do(apply.diff(desk.store, [desk.declare(enabled=True)]))
    assert told.same
    assert told.note == (
        "The document says enabled: true, but a person disabled it (disabled by bob); applying leaves that."
    )


def test_an_application_document_applies_what_it_lists(desk: Desk) -> None:
    spec = {"programs": [item("p1", **COMMAND)], "schedules": [item("a", program="p1", trigger=HOURLY)]}
    done = desk.do(apply.apply(desk.store, [document("Application", "etl", spec)], who="ann"))
    assert [(one.kind, one.name) for one in done] == [("Application", "etl"), ("Program", "p1"), ("Schedule", "a")]
    assert desk.record("a").metadata.application == "etl"
    bare = document("Application", "etl")
    assert desk.do(apply.apply(desk.store, [bare], who="ann"))[0].effect is Effect.UNCHANGED
