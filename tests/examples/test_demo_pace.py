"""The demo on a slow machine: it waits for what it shows, says so, and never waits beyond its limit."""

from hypothesis import given
from hypothesis import strategies as st

from demo.pace import Pace


class Wall:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def pace(self) -> Pace:
        return Pace(clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(st.floats(0, 300), st.floats(0, 300))
def test_a_wait_ends_when_it_is_done_or_at_its_limit(ready_at: float, limit: float) -> None:
    wall, told = Wall(), list[float]()
    done = wall.pace().until(lambda: wall.now >= ready_at, limit, look=lambda: None, tell=lambda: told.append(wall.now))
    first = min(ready_at, limit)
    assert first <= wall.now <= first + 0.5
    if ready_at <= limit:
        assert done
    elif ready_at > limit + 0.5:
        assert not done
    assert len(told) >= int(wall.now // 10.5) - 1
    assert all(later - earlier >= 10 for earlier, later in zip(told, told[1:], strict=False))


def test_what_is_done_already_is_not_waited_for() -> None:
    wall, looks = Wall(), list[float]()
    assert wall.pace().until(lambda: True, 0, look=lambda: looks.append(wall.now), tell=lambda: None)
    assert (wall.now, len(looks)) == (0.0, 1)
