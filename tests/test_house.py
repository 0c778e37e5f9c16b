"""The house rules that no linter knows: sizes, pages that are made from the code, links that lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "tidegate").rglob("*.py"))


def test_no_module_is_longer_than_a_person_wants_to_read() -> None:
    long = {str(path.relative_to(ROOT)): n for path in MODULES if (n := len(path.read_text().splitlines())) > 450}
    assert not long


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(p.relative_to(ROOT)) for p in MODULES if p.read_text().strip() and not p.read_text().startswith('"""')
    ]
    assert not silent


@pytest.mark.parametrize(
    ("page", "maker"),
    [
        ("run-states", ["tools/run_states.py"]),
        ("command-line", ["tools/command_page.py"]),
        ("documents", ["tools/document_page.py"]),
        ("maintenance-options", ["tools/options_page.py"]),
        ("history", ["tools/history_page.py"]),
    ],
)
def test_pages_of_the_reference_say_what_the_code_says(page: str, maker: list[str]) -> None:
    made = subprocess.run([sys.executable, *maker], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr  # something has no meaning, or no example: the message says what
    same = (ROOT / f"docs/reference/{page}.md").read_text() == made.stdout
    assert same, f"docs/reference/{page}.md is not what the code says any more: make reference"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_links_between_the_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_no_file_names_a_path_of_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = [
        name
        for name in listed
        if name.endswith((".py", ".md", ".toml", ".lock", ".yaml", ".sql", ".sh", "Makefile"))
        and name != "tests/test_house.py"
        and re.search(
            r"(/work/(main|shared)|/root/|files\.pythonhosted|pypi\.org|repo1?\.maven)", (ROOT / name).read_text()
        )
    ]
    assert not found
