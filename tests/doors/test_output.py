"""How lists look in a window of 80 columns, and where nobody looks."""

from __future__ import annotations

import pytest

from tidegate.cli import output

COLUMNS = ("ID", "SCHEDULE", "STATE", "FIRE TIME", "REASON")
WHY = "The program could not find the file that it was looking for, and nobody knows who took it."
ROWS = [
    ("rhodl45eog8-2-8", "delays", "failed", "2026-11-21 19:49:58.651Z", WHY),
    ("rhodl45eog8-2-9", "delays", "succeeded", "2026-11-21 19:50:58Z", None),
]


def shown(capsys: pytest.CaptureFixture[str], rows: list[tuple[str | None, ...]]) -> list[str]:
    output.display(output.grid(COLUMNS, rows, empty="Nothing."))
    return capsys.readouterr().out.splitlines()


def test_a_sentence_goes_below_its_row_where_the_line_is_too_short(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert shown(capsys, [*ROWS]) == [
        "ID               SCHEDULE  STATE      FIRE TIME",
        "rhodl45eog8-2-8  delays    failed     2026-11-21 19:49:58.651Z",
        "    The program could not find the file that it was looking for, and nobody",
        "    knows who took it.",
        "rhodl45eog8-2-9  delays    succeeded  2026-11-21 19:50:58Z",
    ]


def test_where_nobody_looks_each_row_is_one_line_for_grep(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = shown(capsys, [*ROWS])
    assert len(lines) == 3 and lines[1].endswith(WHY) and lines[2].endswith("  -")


def test_what_fits_stays_beside_and_what_is_too_wide_or_has_lines_of_its_own_is_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short = ("r1", "s", "failed", "2026-11-21 19:50:58Z", "Why not.")
    assert shown(capsys, [short])[1].endswith("Why not.")
    monkeypatch.setenv("COLUMNS", "40")
    assert all(len(line) <= 40 for line in shown(capsys, [*ROWS]))
    monkeypatch.setenv("COLUMNS", "80")
    torn = ("r1", "two\nlines", "failed", "2026-11-21 19:50:58Z", WHY)
    assert any("lines" in line for line in shown(capsys, [torn]))
    assert shown(capsys, []) == ["Nothing."]
