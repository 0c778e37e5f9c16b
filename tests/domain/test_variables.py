"""A value that an environment variable keeps is what is in it, or it is refused by its name: never silently empty."""

from __future__ import annotations

import pytest

from tidegate.domain.errors import Refused
from tidegate.domain.variables import is_variable, looked_up

pytestmark = pytest.mark.requirement("RUN-6")


def test_a_variable_is_what_is_in_it_and_other_text_is_itself() -> None:
    assert looked_up("env:A", {"A": "x"}, "The header X", "the worker") == "x"
    assert looked_up("env:A", {"A": ""}, "The header X", "the worker") == ""
    assert looked_up("file:/A", {}, "The header X", "the worker") == "file:/A"
    assert is_variable("env:A") and not is_variable("A") and not is_variable(1)


def test_one_that_is_not_set_is_told_by_its_name_its_place_and_what_wants_it() -> None:
    with pytest.raises(Refused) as told:
        looked_up("env:A", {}, "The header X", "the worker")
    assert str(told.value).startswith("The header X is in the worker's environment variable A, which is not set.")
    assert told.value.remedy == "Set A where the worker is started and start it again."
    with pytest.raises(Refused):
        looked_up("env:A", {"A": ""}, "The secret", "the scheduler", empty=False)
