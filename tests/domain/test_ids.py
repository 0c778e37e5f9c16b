"""Names of runs and attempts, written and read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId, parse_identity, parse_run_id

_numbers = st.integers(0, (1 << 63) - 1)


def _spelt(number: int) -> str:
    """Base 36 as Horner would read it back, one digit at a time."""
    digit = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36]
    return _spelt(number // 36) + digit if number >= 36 else digit


@pytest.mark.requirement("RUN-1")
@given(_numbers, _numbers, _numbers, st.integers(1, 1000))
@example(0, 35, 36, 1)
@example(1295, 1296, 46_655, 2)
@example(46_656, (1 << 63) - 1, 1_800_000_000_000_000, 3)
def test_a_name_is_the_key_in_base_36_and_is_read_back(slot: int, schedule: int, order: int, number: int) -> None:
    key = RunKey(slot, ScheduleId(schedule), order)
    assert str(key) == f"r{_spelt(slot)}-{_spelt(schedule)}-{_spelt(order)}"
    assert parse_run_id(str(key)) == key
    attempt = AttemptKey(key, number)
    assert parse_identity(attempt.identity) == attempt
