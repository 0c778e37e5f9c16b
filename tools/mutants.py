"""`make mutants`: put known mistakes of this field back, one at a time, and say which check sees each, how fast.

Two kinds. Those of the source (tests/mutants/source_mistakes.py) are made in a copy of the tree, SQL and engine as
they are delivered, and a named test must fail there. Those of the simulated world (tests/sim/*mistakes.py) are broken
parts, and a law of the simulator must break. Before anything is broken, every named test must pass.

    python tools/mutants.py [NAME ...] [--jobs 2] [--page docs/reference/mutants.md] [--results FILE] [--show]

Exit status 0 when every mistake was seen, 1 when one was not, 2 when it could not be tried.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
sys.path[:0] = [str(ROOT), str(TESTS), str(TESTS / "sim"), str(TESTS / "mutants")]

from gate_mistakes import GATE_BUGS  # noqa: E402
from hunting import hunt  # noqa: E402
from mistakes import BUGS, Bug  # noqa: E402
from one_mistake import Mistake  # noqa: E402
from source_mistakes import MISTAKES  # noqa: E402

COPIED = ("tidegate", "tests", "tools", "examples", "pyproject.toml")
LONGEST = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of one mistake."""

    name: str
    what: str
    where: str
    seen_by: str | None
    seconds: float
    said: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    wanted = set(options.names)
    bugs = [one for one in (*BUGS, *GATE_BUGS) if not wanted or one.name in wanted]
    mistakes = [one for one in MISTAKES if not wanted or one.name in wanted]
    if not (bugs or mistakes):
        print(f"no mistake is called {', '.join(sorted(wanted))}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="tidegate-mutants-") as directory:
        trees = [_copy(Path(directory) / str(number)) for number in range(options.jobs)]
        if mistakes and (fault := _all_pass(trees[0], [one.check for one in mistakes])):
            print(f"these checks fail without any mistake:\n{fault}", file=sys.stderr)
            return 2
        done = _try_all(mistakes, bugs, trees, options.show)
    lived = [one for one in done if one.seen_by is None]
    print(f"{len(done)} mistakes put back, {len(done) - len(lived)} seen")
    if options.results:
        done = _remembered(Path(options.results), done)
    for one in lived:
        print(f"NOT SEEN  {one.name}: {one.what} {one.said}")
    if options.page and len(done) == len(MISTAKES) + len(BUGS) + len(GATE_BUGS):
        Path(options.page).write_text(_page(done))
    return 1 if lived else 0


def _remembered(file: Path, done: Sequence[Tried]) -> list[Tried]:
    """With those of earlier runs that were not tried again; all in the order in which they are declared."""
    known = {one["name"]: Tried(**one) for one in json.loads(file.read_text())} if file.exists() else {}
    known |= {one.name: one for one in done}
    file.write_text(json.dumps([asdict(one) for one in known.values()], indent=1))
    order = [*(one.name for one in MISTAKES), *(one.name for one in (*BUGS, *GATE_BUGS))]
    return [known[name] for name in order if name in known]


def _try_all(mistakes: Sequence[Mistake], bugs: Sequence[Bug], trees: Sequence[Path], show: bool) -> list[Tried]:
    """Each tree is used by one process at a time."""
    done: list[Tried] = []
    jobs = len(trees)
    with ProcessPoolExecutor(jobs) as pool:
        shares = [pool.submit(_share, list(mistakes[job::jobs]), trees[job]) for job in range(jobs)]
        hunts = [pool.submit(_hunted, one.name) for one in bugs]
        for future in shares:
            done += future.result()
        done += [future.result() for future in hunts]
    order = {name: place for place, name in enumerate([*(one.name for one in mistakes), *(one.name for one in bugs)])}
    done.sort(key=lambda one: order[one.name])
    if show:
        for one in (one for one in done if one.said):
            print(f"{one.name}: {one.said}")
    return done


def _share(mistakes: Sequence[Mistake], tree: Path) -> list[Tried]:
    return [_told(_broken(one, tree)) for one in mistakes]


def _told(one: Tried) -> Tried:
    """Say it as soon as it is known: all of them take minutes."""
    print(f"{one.seconds:7.1f} s  {one.name:32} {one.seen_by or 'NOT SEEN'}", flush=True)
    return one


def _broken(mistake: Mistake, tree: Path) -> Tried:
    """The copy with the mistake in it, and back."""
    file = tree / mistake.path
    right = file.read_text()
    assert right.count(mistake.old) == 1, f"{mistake.path} has changed: {mistake.name} cannot be put back"
    file.write_text(right.replace(mistake.old, mistake.new))
    try:
        began = perf_counter()
        status, said = _pytest(tree, [mistake.check])
        seconds = perf_counter() - began
    finally:
        file.write_text(right)
    name = mistake.check.split("::")[1]
    return Tried(
        name=mistake.name,
        what=mistake.what,
        where=f"`{mistake.path}`",
        seen_by=f"`{name}`" if status == 1 else None,
        seconds=seconds,
        said=_why(said) if status == 1 else f"(pytest ended with {status}) {_why(said)}",
    )


def _hunted(name: str) -> Tried:
    bug = next(one for one in (*BUGS, *GATE_BUGS) if one.name == name)
    found = hunt(bug)
    seeds = f"{found.seeds} seed{'s' if found.seeds > 1 else ''}"
    done = Tried(
        name=name,
        what="",
        where="the simulated world",
        seen_by=f"law `{found.law}`, {seeds}" if found.law else None,
        seconds=found.seconds,
        said="" if found.law else f"in {seeds}; other laws that broke: {', '.join(found.others) or 'none'}",
    )
    return _told(done)


def _all_pass(tree: Path, checks: Sequence[str]) -> str:
    """What fails where nothing is broken; empty when nothing does."""
    status, said = _pytest(tree, sorted(set(checks)))
    if status == 1:  # those with time limits may fail on a busy machine
        status, said = _pytest(tree, sorted(set(checks)))
    return "" if status == 0 else said[-3000:]


def _pytest(tree: Path, checks: Sequence[str]) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:randomly", "--tb=short", *checks]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"it did not end within {LONGEST:g} s"
    return done.returncode, done.stdout + done.stderr


def _why(said: str) -> str:
    """The first line in which pytest says what went wrong."""
    return next((line.strip() for line in said.splitlines() if line.startswith("E ")), "")[:200]


def _copy(to: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=ignored)
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, to / name)
    return to


def _page(done: Sequence[Tried]) -> str:
    seen = [one for one in done if one.seen_by]
    sections: list[tuple[str, Callable[[Tried], bool]]] = [
        ("In the source: SQL and engine as delivered", lambda one: bool(one.what)),
        ("In the simulated world: broken parts and stores", lambda one: not one.what),
    ]
    lines = [
        "# Known mistakes, put back",
        "",
        "Made by `make mutants`: mistakes that schedulers are known for are put back one at a time, and a named check",
        "must see each. Those of the source are changes of one place in a copy of the tree",
        "(`tests/mutants/source_mistakes.py`), seen by a test; those of the simulated world are broken subclasses",
        "(`tests/sim/mistakes.py`, `tests/sim/gate_mistakes.py`), seen by a law of the simulator. Seconds are those of",
        f"the whole check with everything it starts, PostgreSQL included, at a load of {os.getloadavg()[2]:.0f} on "
        f"{os.cpu_count()} cores: on a",
        "quiet machine most take a few.",
        "",
        f"**{len(seen)} of {len(done)} were seen ({100 * len(seen) / len(done):.0f} %).**",
    ]
    for title, belongs in sections:
        some = [one for one in done if belongs(one)]
        source = any(one.what for one in some)
        lines += ["", f"## {title}", ""]
        lines += (
            ["| Mistake | What it does | Where | Seen by | s |", "| --- | --- | --- | --- | --- |"]
            if source
            else ["| Mistake | Seen by | s |", "| --- | --- | --- |"]
        )
        for one in some:
            middle = f" {one.what} | {one.where} |" if source else ""
            lines.append(f"| {one.name} |{middle} {one.seen_by or '**not seen**'} | {one.seconds:.1f} |")
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tools/mutants.py", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--page", help="where to write the table, when all were tried")
    parser.add_argument("--results", help="a file that keeps what was found, so that few can be tried again")
    parser.add_argument("--show", action="store_true", help="say also how each check failed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
