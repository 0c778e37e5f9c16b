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


@pytest.mark.parametrize(
    ("exact", "shown"),
    [
        ("begun 2026-11-22T04:11:28.506829Z, took PT0.032721S.", "begun 2026-11-22 04:11:28.506Z, took 33 ms."),
        ("begun 2026-11-22T04:11:28Z: no such file", "begun 2026-11-22 04:11:28Z: no such file"),
        ("snapshot_age PT1M12.599675S is below P7D", "snapshot_age 1 min 13 s is below 7 d"),
        ("PT4H after its trigger (PT0.5S)", "4 h after its trigger (0.5 s)"),
        ("'PT4H' and day=2026-11-22T04:11:28Z stay", "'PT4H' and day=2026-11-22T04:11:28Z stay"),
        ("P, PT, P1 and PART are words; 2026-99-22T04:11:28Z is none", None),
    ],
)
def test_sentences_have_no_times_to_the_microsecond(exact: str, shown: str | None) -> None:
    assert output.plain(exact) == (exact if shown is None else shown)


def test_points_of_debt_add_up() -> None:
    assert [output.points(one) for one in (105.0003, 0.0083, 10, 0.5)] == ["105", "0.01", "10", "0.5"]


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
