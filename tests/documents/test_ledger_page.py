"""The page on the ledger lists the parts that are really started, and where."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHERE = {"scheduler.py": "scheduler", "lake.py": "scheduler", "worker.py": "worker", "members.py": "all"}


def parts_of(source: str) -> dict[str, str]:
    """The parts that a module of the engine defines: the name of each by its class."""
    return {
        one.name: found[1]
        for one in ast.parse(source).body
        if isinstance(one, ast.ClassDef) and (found := re.search(r"\bname = f?'([a-z ]+?) ?['{]", ast.unparse(one)))
    }


def test_the_page_names_each_part_that_wiring_starts_and_where() -> None:
    names: dict[str, str] = {}
    for path in (ROOT / "tidegate" / "engine").glob("*.py"):
        names |= parts_of(path.read_text())
    started = {}
    for path in (ROOT / "tidegate" / "wiring").glob("*.py"):
        for part, name in names.items():
            if re.search(rf"\b{part}\(", path.read_text()):
                started[name] = WHERE[path.name]
    assert len(started) > 20 and set(started) == set(names.values())
    page = (ROOT / "docs" / "explanation" / "ledger.md").read_text()
    rows = dict(re.findall(r"^\| (?!Part |---)(.+?) \| (.+?) \|", page, re.M))
    assert {name: re.sub(r"^one (\w+).*", r"\1", where) for name, where in rows.items()} == started
