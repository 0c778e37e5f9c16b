"""Prints each requirement with the tests that prove it, so that an unproven line shows.

`python tools/requirements.py [--missing]`: the lines come from docs/reference/requirements.md, the proofs from the
`@pytest.mark.requirement` marks of the collected tests. Exit 1 when a mark names a line that does not exist.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"\b([A-Z]+-\d+)(?: to ([A-Z]+)-(\d+))? ?\(")


class Marks:
    """Collects requirement id -> test names."""

    def __init__(self) -> None:
        self.proofs: defaultdict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("requirement"):
                name = item.nodeid.split("[")[0]
                for requirement in mark.args:
                    if name not in self.proofs[requirement]:
                        self.proofs[requirement].append(name)


def declared(text: str) -> list[str]:
    """The ids of the document, in its order; `STORY-1 to STORY-11` counts as eleven."""
    found: list[str] = []
    for first, prefix, last in LINE.findall(text):
        kind, number = first.split("-")
        numbers = range(int(number), int(last) + 1) if prefix == kind and last else [int(number)]
        found += [f"{kind}-{n}" for n in numbers if f"{kind}-{n}" not in found]
    return found


def main(arguments: list[str]) -> int:
    marks = Marks()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-qq", str(ROOT / "tests")], [marks])
    if code not in (0, 5):
        print(said.getvalue()[-2000:])
        print(f"the tests could not be collected (pytest exit {int(code)})")
        return 1
    ids = declared((ROOT / "docs/reference/requirements.md").read_text())
    for requirement in ids:
        proofs = marks.proofs.get(requirement, [])
        if proofs and "--missing" not in arguments:
            print(f"{requirement:10} {len(proofs)} tests")
            for proof in proofs:
                print(f"             {proof}")
        elif not proofs:
            print(f"{requirement:10} -- no test yet")
    unknown = sorted(set(marks.proofs) - set(ids))
    print(f"\n{len(ids) - sum(not marks.proofs.get(r) for r in ids)} of {len(ids)} lines are proven by a test.")
    if unknown:
        print(f"marks name lines that do not exist: {', '.join(unknown)}")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
