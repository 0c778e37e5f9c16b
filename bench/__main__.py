"""Runs the benchmarks and prints each figure beside its goal; `-o json` for machines.

`python -m bench` runs all of them, `python -m bench cron` one. Sizes can be changed by `-s NAME.SIZE=N`, such as
`-s idle.schedules=5000000`; `--list` shows them all. Machines are noisy: ratios are taken within one run, and where a
peer is named it ran in the same minute on the same server.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from types import ModuleType

from rich.console import Console
from rich.markup import escape

from bench.figures import Figure

ALL = (
    "cron",
    "planning",
    "maintenance",
    "prediction",
    "peer",
    "outage",
    "simulator",
    "fires",
    "midnight",
    "admission",
    "python_runs",
    "latency",
    "idle",
    "life",
    "failover",
    "second",
    "upgrade",
    "events",
    "arrivals",
    "watch",
    "assess",
    "relay",
    "commits",
    "spark",
    "cancels",
    "hot",
)
WIDTH = 80


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("-s", "--size", action="append", default=[], metavar="NAME.SIZE=N")
    parser.add_argument("--list", action="store_true", help="show each benchmark, and its sizes")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    if options.list:
        for name in ALL:
            module = importlib.import_module(f"bench.{name}")
            shown = " ".join(f"-s {name}.{size}={default}" for size, default in sizes_of(module).items())
            print(f"{name:12} {(module.__doc__ or '').splitlines()[0]}\n{'':12} {shown}".rstrip())
        return 0
    sizes = chosen(parser, options.size)

    began = time.perf_counter()
    figures: list[Figure] = []
    for name in options.names or ALL:
        say = teller(began, name)
        say(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        figures += importlib.import_module(f"bench.{name}").measure(say, **sizes.get(name, {}))
    if options.output == "json":
        print(json.dumps([{**dataclasses.asdict(f), "reached": f.reached} for f in figures], indent=2))
    else:
        show(figures)
    return 0


def sizes_of(module: ModuleType) -> dict[str, int]:
    """What can be changed about a benchmark: the parameters of its `measure` that have a number."""
    parameters = inspect.signature(module.measure).parameters.values()
    return {one.name: one.default for one in parameters if isinstance(one.default, int)}


def chosen(parser: argparse.ArgumentParser, given: Sequence[str]) -> dict[str, dict[str, int]]:
    """`NAME.SIZE=N`, checked."""
    found: dict[str, dict[str, int]] = {}
    for text in given:
        path, _, number = text.partition("=")
        name, _, size = path.partition(".")
        known = sizes_of(importlib.import_module(f"bench.{name}")) if name in ALL else {}
        if size not in known or not number.isdigit():
            parser.error(f"-s {text}: want NAME.SIZE=N with a name and a size that --list shows")
        found.setdefault(name, {})[size] = int(number)
    return found


def teller(began: float, name: str) -> Callable[[str], None]:
    """What a benchmark says while it works, with the time since the beginning."""

    def say(text: str) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  {name}: {text}", file=sys.stderr, flush=True)

    return say


def show(figures: Sequence[Figure]) -> None:
    """Two or three lines for each figure: what was measured, its goal, and how; 80 columns."""
    console = Console(highlight=False, width=WIDTH, soft_wrap=True)
    for figure in figures:
        value = f"{figure.value:,.4g} {figure.unit}"
        sign = ">=" if figure.more_is_better else "<="
        goal = "" if figure.goal is None else f"goal {sign} {figure.goal:,.4g}"
        mark = {True: "[green]reached[/green]", False: "[red]not reached[/red]", None: ""}[figure.reached]
        console.print(f"{escape(f'{figure.name:34}'[:40])} {escape(f'{value:>16}  {goal:16}')} {mark}".rstrip())
        how = textwrap.fill(figure.how, WIDTH - 1, initial_indent="    ", subsequent_indent="    ")
        console.print(f"[dim]{escape(how)}[/dim]")
    missed = [figure.name for figure in figures if figure.reached is False]
    reached = sum(figure.reached is True for figure in figures)
    console.print(f"{reached} goals reached, {len(missed)} not.")


if __name__ == "__main__":
    raise SystemExit(main())
