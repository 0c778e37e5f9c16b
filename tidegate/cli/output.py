"""How answers look: tables that fit 80 columns, JSON and YAML as the REST doors give them, times with their zone.

Colour is for terminals only (rich knows, and NO_COLOR is honoured). What is printed on standard output is the answer;
everything said about it goes to standard error.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from tidegate.domain.errors import Invalid, TidegateError
from tidegate.domain.instants import parse_duration, parse_instant, to_datetime

WHOLE = frozenset({"ID", "RUN"})
"""Columns that are never folded: people copy what stands there."""
SENTENCES = frozenset({"REASON", "WAITS FOR", "WHY"})
"""Columns that go below their row where the line is too short for all of it."""
REASON = 120  # characters of a reason in a list; `tidegate explain` has all of it
WIDE = 160  # columns when nobody looks: nothing is folded, so that grep finds whole words


class Form(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def _console(stream: Any) -> Console:
    width = None if stream.isatty() or os.environ.get("COLUMNS") else WIDE
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def out() -> Console:
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def note(text: str) -> None:
    """Something said about the answer, on standard error."""
    err().print(Text(text), soft_wrap=True)


def say(text: str) -> None:
    """A line of the answer."""
    out().print(Text(text), soft_wrap=True)


def fail(error: TidegateError, status: int = 1) -> NoReturn:
    """One clear message, every fault on a line of its own; ends the command."""
    console = err()
    faults = error.faults if isinstance(error, Invalid) else getattr(error, "errors", ())
    if len(faults) > 1:
        console.print(Text.assemble(("Error: ", "bold red"), f"{len(faults)} faults:"), soft_wrap=True)
        for fault in faults:
            console.print(Text(f"  {fault}"), soft_wrap=True)
    else:
        console.print(Text.assemble(("Error: ", "bold red"), str(error)), soft_wrap=True)
    raise typer.Exit(status)


def show(form: Form, value: Any, table: Callable[[], Any]) -> None:
    """Print it as asked: `table` is only called for people."""
    match form:
        case Form.JSON:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        case Form.YAML:
            sys.stdout.write(as_yaml(value))
        case Form.TABLE:
            display(table())


def display(renderable: Any) -> None:
    """Print a table or a page, without the blanks that fill up its lines where nobody looks."""
    console = out()
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as capture:
        console.print(renderable)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def as_yaml(value: Any) -> str:
    from ruamel.yaml import YAML  # a fifth of a second that most commands need not wait for

    yaml = YAML()
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 120
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> Any:
    """A plain table: bold headings, no lines; in a narrow window sentences below their rows, else cells folded."""
    found = [[cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row] for row in rows]
    return _Grid(columns, found) if found else Text(empty, style="dim")


@dataclass(frozen=True, slots=True)
class _Grid:
    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every = range(len(self.columns))
        below = [at for at in every if self.columns[at] in SENTENCES]
        beside = [at for at in every if at not in below]
        lines = []
        if below and self._needs(beside) <= options.max_width < min(WIDE, self._needs(every)):
            lines = list(console.render_lines(self._table(beside), options, pad=False))
        if len(lines) != len(self.rows) + 1:
            yield self._table(every)
            return
        yield Segments([*lines[0], Segment.line()])
        for row, line in zip(self.rows, lines[1:], strict=True):
            yield Segments([*line, Segment.line()])
            for at in below:
                if row[at].plain not in ("", "-"):
                    yield Padding(row[at], (0, 0, 0, 4))

    def _needs(self, columns: Sequence[int]) -> int:
        """The width of the table when nothing is folded."""
        widths = (max(cell_len(self.columns[at]), *(row[at].cell_len for row in self.rows)) for at in columns)
        return sum(widths) + 2 * (len(columns) - 1)

    def _table(self, columns: Sequence[int]) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
        for at in columns:
            table.add_column(self.columns[at], overflow="fold", no_wrap=self.columns[at] in WHOLE)
        for row in self.rows:
            table.add_row(*(row[at] for at in columns))
        return table


def facts(pairs: Iterable[tuple[str, Any]]) -> Any:
    """Name and value, one a line; what is not known is left out."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            table.add_row(Text(name), value if isinstance(value, Text) else Text(_cell(value)))
    return table


def brief(reason: str) -> str:
    """A reason for a list: in one line, and cut where it gets long."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON else f"{line[: REASON - 4]} ..."


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Mapping() | list() | tuple():
            return json.dumps(value, ensure_ascii=False) if value else "-"
        case _:
            return str(value)


def when(instant: str | None) -> str:
    """An instant of an answer for a table: to the second where that is all of it, in UTC and saying so."""
    if not instant:
        return "-"
    moment = to_datetime(parse_instant(instant))
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{moment:%f}"[:4] if moment.microsecond else "") + "Z"


def took(start: str | None, end: str | None) -> str:
    """How long something lasted, for people."""
    if not start or not end:
        return "-"
    return span(parse_instant(end) - parse_instant(start))


_EXACT = re.compile(
    r"(?<![\w'\"`=/:.-])(?:"
    r"(?P<instant>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z)"
    r"|(?P<span>P(?=[0-9T])(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?)"
    r")(?![\w'\"`=/-]|[.:][\w])"
)
"""An instant or a duration in a sentence, as JSON writes it; what stands in quotes or belongs to a name is none."""


def plain(sentence: str) -> str:
    """A sentence of an answer for people: its instants and durations as tables show them, not to the microsecond."""

    def shown(found: re.Match[str]) -> str:
        try:
            instant = found["instant"]
            return when(instant) if instant is not None else span(parse_duration(found["span"]))
        except ValueError:
            return found[0]

    return _EXACT.sub(shown, sentence)


def span(micros: int) -> str:
    """A duration for people: 33 ms, 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 4 d 3 h."""
    seconds = micros / 1_000_000
    if 0 < seconds < 0.1:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def points(number: float) -> str:
    """Points of debt for people: 105, 0.01."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


STYLES = {
    "succeeded": "green",
    "failed": "red",
    "crashed": "red",
    "timed_out": "red",
    "missed": "yellow",
    "cancelled": "yellow",
    "expired": "yellow",
    "running": "cyan",
    "starting": "cyan",
    "stopping": "cyan",
}


def state(name: str) -> Text:
    return Text(name, style=STYLES.get(name, ""))


def inline(value: Any) -> str:
    """A JSON value in a line; text without quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
