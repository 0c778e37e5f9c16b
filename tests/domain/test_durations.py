"""What is written of a duration can be read again, to the microsecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.instants import DAY, format_duration, parse_duration


@given(st.integers(0, 10_000 * DAY))
def test_a_duration_that_was_written_is_read_as_the_same(duration: int) -> None:
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize("text", ["P", "PT", "P1DT", "PT1.S", "PT1.0000001S", "", "1", "-PT1S", "4 h"])
def test_what_is_none_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="write it like PT4H"):
        parse_duration(text)
