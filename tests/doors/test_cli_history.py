"""`tidegate history export`: what is wrong with the words is said before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import tidegate


@pytest.mark.requirement("OPS-9")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--to", "nowhere"), "no place for an archive"),
        (("--to", "/kept", "--table", "rnus"), "did you mean 'runs'"),
        (("--to", "/kept", "--from-day", "monday"), "write it like 2026-11-21"),
        (("--to", "/kept", "--from-day", "2026-11-21", "--to-day", "2026-11-20"), "is after the last"),
    ],
)
def test_a_wrong_word_is_told_with_what_would_be_right(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text('[database]\nurl = "postgresql://nobody@127.0.0.1:1/none"\n')
    said = tidegate("history", "export", *words, "--home", str(tmp_path))
    assert (said.status, told in " ".join(said.err.split())) == (1, True), said.err
    assert [one.name for one in tmp_path.iterdir()] == ["tidegate.toml"], "nothing was begun"


@pytest.mark.requirement("OPS-9")
def test_without_a_database_it_says_how_to_name_one(tmp_path: Path) -> None:
    said = tidegate("history", "export", "--to", "/kept", "--home", str(tmp_path))
    assert (said.status, "TIDEGATE_DATABASE_URL" in said.err) == (1, True)
