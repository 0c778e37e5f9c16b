"""Every known mistake can still be put back: the line that it changes is there, once, and so is the check that sees it.

Whether the check really fails is what `make mutants` finds out; it takes minutes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from one_mistake import Mistake
from source_mistakes import MISTAKES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.name)
def test_a_mistake_can_be_put_back(mistake: Mistake) -> None:
    text = (ROOT / mistake.path).read_text()
    assert text.count(mistake.old) == 1, f"{mistake.path} has changed: adjust {mistake.name} in source_mistakes.py"
    assert mistake.new != mistake.old


@pytest.mark.parametrize("check", sorted({one.check for one in MISTAKES}))
def test_its_check_is_there(check: str) -> None:
    path, name = check.partition("[")[0].split("::")
    assert f"def {name}(" in (ROOT / path).read_text(), f"{check} is gone: name another in source_mistakes.py"


def test_names_are_unique() -> None:
    assert max(Counter(one.name for one in MISTAKES).values()) == 1
