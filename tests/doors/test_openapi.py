"""Whatever anybody sends, the answer is one that OpenAPI promises, and never a 500."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok

from tidegate.api.app import create_app

from .conftest import Served, memory_doors, serve

SCHEMA = schemathesis.openapi.from_dict(create_app(memory_doors()).openapi())
OPERATIONS = {one.ok().label: one.ok() for one in SCHEMA.get_all_operations() if isinstance(one, Ok)}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    for served in serve(memory_doors()):
        served.declare()
        yield served


@pytest.mark.requirement("OPS-1")
def test_openapi_is_valid() -> None:
    SCHEMA.validate()
    assert len(OPERATIONS) > 40


@pytest.mark.slow
@pytest.mark.requirement("OPS-1")
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_answer_is_one_that_was_promised(label: str, server: Served) -> None:
    @settings(max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=server.url)
        assert answer.status_code < 500 or answer.status_code == 503, (case.as_curl_command(), answer.text)
        assert str(answer.status_code) in OPERATIONS[label].definition.raw["responses"], answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]
            assert {"type", "title", "status", "detail", "code", "errors"} == set(answer.json())

    ask()
