"""Whatever is sent, the answer is a checked document or `Invalid` with paths and sentences; never another exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sizes import examples

from tidegate.documents import parse, parse_application
from tidegate.documents.base import Document
from tidegate.documents.files import check
from tidegate.documents.kinds import MODELS
from tidegate.domain.errors import Invalid

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
WORDS = """
type cron expression timezone interval every at time window_days days never concurrency max scope program trigger
constraints waiting retry delay spec metadata name namespace labels command argv pyspark entry slots rate
"""
words = st.sampled_from(WORDS.split())
keys = words | st.text(max_size=4)
values = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


ODD: list[Any] = [None, True, 0, -1, 1.5, 10**30, float("nan"), "", " ", "x", "\0", "{{", "{{ x }}"]
ODD += [[], [None], ["x"], [[]], [{}], {}, {"a": None}, {"": ""}, {"a": {}}]


def documents(base: type[Document] = Document) -> Iterator[type[Document]]:
    """Every model of a document and of its parts."""
    for one in base.__subclasses__():
        yield one
        yield from documents(one)


@pytest.mark.parametrize(
    "model", sorted(set(documents()), key=lambda one: one.__qualname__), ids=lambda one: one.__name__
)
def test_any_field_may_hold_anything(model: type[Document]) -> None:
    for name, field in model.model_fields.items():
        for value in ODD:
            with suppress(ValidationError):
                model.model_validate({field.alias or name: value})


def sentences(work: Any) -> None:
    try:
        work()
    except Invalid as refused:
        assert refused.faults
        for fault in refused.faults:
            assert fault.reason
            assert "pydantic" not in str(fault) and "Union" not in str(fault)


@given(kind=st.sampled_from(sorted(MODELS)), spec=values, metadata=values)
@settings(deadline=None, max_examples=examples(300))
def test_any_spec(kind: str, spec: object, metadata: object) -> None:
    sentences(lambda: parse({"spec": spec}, kind=kind, name="x"))
    sentences(lambda: parse({"apiVersion": "tidegate/v1", "kind": kind, "metadata": metadata, "spec": spec}))


@given(
    trigger=st.fixed_dictionaries({"type": words}).flatmap(
        lambda tagged: st.dictionaries(keys, values, max_size=5).map(lambda rest: {**rest, **tagged})
    )
)
@settings(deadline=None, max_examples=examples(200))
def test_any_trigger(trigger: dict[str, Any]) -> None:
    sentences(lambda: parse({"spec": {"program": "p", "trigger": trigger}}, kind="Schedule", name="x"))


@given(raw=values)
@settings(deadline=None)
def test_any_application(raw: object) -> None:
    sentences(lambda: parse_application(raw, namespace="a", name="b"))
    sentences(lambda: parse_application({"programs": raw, "schedules": [raw]}, namespace="a", name="b"))


@given(expression=st.text(max_size=30), every=st.text("PT0123456789DHMSWYdhms. -", max_size=14))
@settings(deadline=None, max_examples=examples(300))
def test_any_text_of_time(expression: str, every: str) -> None:
    for trigger in ({"type": "cron", "expression": expression}, {"type": "interval", "every": every}):
        sentences(
            lambda trigger=trigger: parse({"spec": {"program": "p", "trigger": trigger}}, kind="Schedule", name="x")
        )
    sentences(
        lambda: parse(
            {"spec": {"program": "p", "trigger": {"type": "after_finish", "delay": every}}}, kind="Schedule", name="x"
        )
    )


@given(text=st.text(max_size=60))
@settings(deadline=None, max_examples=examples(300))
def test_any_file(text: str) -> None:
    sentences(lambda: check(text, "x.yaml"))
