"""Runs the benchmarks and prints each figure beside its goal; `--json` for machines.

`python -m bench` runs all of them, `python -m bench cron` one. Machines are
noisy: ratios are taken within one run, and where a peer is named it ran in the same minute on the same server.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import sys
import time

from rich.console import Console
from rich.table import Table

from bench.figures import Figure

ALL = ("cron", "simulator")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")

    began = time.perf_counter()
    figures: list[Figure] = []
    for name in options.names or ALL:
        print(f"{time.perf_counter() - began:6.1f} s  {name}", file=sys.stderr, flush=True)
        measure = importlib.import_module(f"bench.{name}").measure
        figures += measure(lambda text: print(f"          {text}", file=sys.stderr, flush=True))
    if options.json:
        print(json.dumps([{**dataclasses.asdict(f), "reached": f.reached} for f in figures], indent=2))
    else:
        show(figures)
    return 0


def show(figures: list[Figure]) -> None:
    """A table that fits 100 columns."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("figure", "measured", "goal", "", "how"):
        table.add_column(column, overflow="fold")
    for figure in figures:
        sign = ">=" if figure.more_is_better else "<="
        goal = "" if figure.goal is None else f"{sign} {figure.goal:,.4g} {figure.unit}"
        mark = {True: "[green]reached[/green]", False: "[red]not reached[/red]", None: ""}[figure.reached]
        table.add_row(figure.name, f"{figure.value:,.4g} {figure.unit}", goal, mark, figure.how)
    Console(width=140 if not sys.stdout.isatty() else None).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
