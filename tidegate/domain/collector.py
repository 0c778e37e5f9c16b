"""Making very many values at once, none of which is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """While inside, Python does not look for cycles of garbage.

    It would, again and again as values become more, and each time through all that there is: a quarter of the time of a
    pass over ten thousand tables. What is in no cycle is freed all the same. Of two threads inside at once, the first
    to leave wakes it for both.
    """
    awake = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if awake:
            gc.enable()
