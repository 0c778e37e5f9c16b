"""Prints docs/reference/command-line.md from the commands themselves: every argument, option, default and meaning.

An argument or option that says nothing about itself, and a command without a usage example, is an error here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from tidegate.cli.main import app

EXAMPLES = {
    "up": ("tidegate up --home ~/tidegate --port 7420",),
    "scheduler": ("TIDEGATE_DATABASE_URL=postgresql://tidegate@db/tidegate tidegate scheduler",),
    "worker": ("TIDEGATE_DATABASE_URL=postgresql://tidegate@db/tidegate tidegate worker",),
    "api": ("TIDEGATE_DATABASE_URL=postgresql://tidegate@db/tidegate tidegate api --port 7420",),
    "db upgrade": ("tidegate db upgrade",),
    "db status": ("tidegate db status",),
    "apply": ("tidegate apply -f schedules.yaml --dry-run", "cat schedules.yaml | tidegate apply -f -"),
    "diff": ("tidegate diff -f schedules.yaml",),
    "import": ("tidegate import floe policies.json | tidegate apply -f -",),
    "deploy": ("tidegate deploy flights.py --dry-run", "tidegate deploy flights.py --no-update-schedules --yes"),
    "delete": ("tidegate delete schedule orders -n sales",),
    "enable": ("tidegate enable orders -n sales --reason 'the source is back'",),
    "disable": ("tidegate disable orders -n sales --mode hold --reason 'the source is late'",),
    "freeze": ("tidegate freeze --reason 'the cluster is upgraded'",),
    "unfreeze": ("tidegate unfreeze",),
    "get": ("tidegate get schedules -n sales", "tidegate get schedule orders -n sales -o yaml"),
    "describe": ("tidegate describe schedule orders -n sales",),
    "preview": ("tidegate preview orders --count 3", "tidegate preview -f new.yaml --after 2026-10-24T00:00:00Z"),
    "explain": ("tidegate explain orders -n sales",),
    "runs": ("tidegate runs --schedule orders --state failed,crashed",),
    "logs": ("tidegate logs -f RUN",),
    "queue": ("tidegate queue -n sales",),
    "audit": ("tidegate audit --since 2026-11-01T00:00:00Z -n sales",),
    "tables list": ("tidegate tables", "tidegate tables list -o json"),
    "tables health": ("tidegate tables health lake.raw.flights --history 5",),
    "tables status": ("tidegate tables status lake.raw.flights",),
    "tables runs": ("tidegate tables runs lake.raw.flights",),
    "tables maintain": ("tidegate tables maintain lake.raw.flights --operation rewrite_data_files --dry-run",),
    "history export": (
        "tidegate history export --to lake.history",
        "tidegate history export --to /archive --table runs",
    ),
    "policies list": ("tidegate policies",),
    "policies disable": ("tidegate policies disable --reason 'the catalog moves'",),
    "policies enable": ("tidegate policies enable",),
    "events publish": ('tidegate events publish user.file inbox --payload \'{"path": "a.csv"}\' --id a.csv',),
    "events list": ("tidegate events list --type user.file",),
    "events who": ("tidegate events who --type user.file --key sales/inbox",),
    "events set-aside": ("tidegate events set-aside",),
    "events replay": ("tidegate events replay 7",),
    "sinks replay": ("tidegate sinks replay alerts", "tidegate sinks replay alerts --position 4711"),
    "backfill create": (
        "tidegate backfill create load --start 2026-01-01 --end 2026-02-01 --dry-run",
        "tidegate backfill create load --key 2026-01-03T02:00:00Z --reprocess all --follow",
    ),
    "backfill list": ("tidegate backfill list --schedule load --state running,paused",),
    "backfill show": ("tidegate backfill show -f b17",),
    "backfill pause": ("tidegate backfill pause b17 --reason 'the cluster is needed'",),
    "backfill resume": ("tidegate backfill resume b17",),
    "backfill cancel": ("tidegate backfill cancel b17",),
    "trigger": ("tidegate trigger orders --arg region=eu --arg 'days=[1, 2]'",),
    "cancel": ("tidegate cancel RUN",),
    "rerun": ("tidegate rerun RUN",),
}
DEFAULT = re.compile(r"\[default: (.*)\]")  # in the help, where no fixed value can stand
HEAD = """# Command line

Made from the code by `make reference`; a test keeps it equal.

`tidegate COMMAND -h` says the same. Commands that ask a running Tidegate speak to `TIDEGATE_URL` (default
`http://127.0.0.1:7420`). `-n` and `-o` may also stand before the command: `tidegate -n sales -o json runs`. What a
command answers goes to standard output, everything said about it to standard error. Colour is for terminals only, and
`NO_COLOR` is honoured. `TIDEGATE_DEBUG=1` shows where something failed that nobody foresaw.

Exit status: 0 done, 1 refused or failed, 2 wrong usage. `diff`: 0 same, 1 differs, 2 error. `audit`: 1 when the ledger
does not hold."""


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name, in the order of the help."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if command.hidden:
            continue
        if hasattr(command, "list_commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def spelled(option: Any) -> str:
    """An option as it is written, with its value's word."""
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.secondary_opts:
        names += ", " + ", ".join(f"`{name}`" for name in option.secondary_opts)
    if option.is_flag:
        return names
    return f"{names} {value_of(option.type_descriptor.annotation)}"


def value_of(annotation: Any) -> str:
    """What is written after an option."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "\\|".join(str(one.value) for one in annotation)
    return {int: "NUMBER", Path: "PATH"}.get(annotation, "TEXT")


def word(argument: Any) -> str:
    """An argument's word in the usage."""
    return str(argument.metavar or argument.name.upper())


def default_of(option: Any) -> str:
    if option.required:
        return "required"
    if said := DEFAULT.search(option.help or ""):
        return said[1]
    value = getattr(option.default, "value", option.default)
    if value in (None, "", False, [], ()) or callable(value):
        return ""
    return f"`{value}`" if not isinstance(value, bool) else "yes"


def meaning(command: str, parameter: Any) -> str:
    """What a parameter says of itself."""
    if not parameter.help:
        raise SystemExit(f"{parameter.name!r} of `tidegate {command}` has no help: say what it means.")
    return " ".join(DEFAULT.sub("", parameter.help).split()).replace("|", "\\|")


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    everything = dict(commands(root))
    if wrong := set(EXAMPLES) ^ set(everything):
        raise SystemExit(f"Commands and their examples differ: {', '.join(sorted(wrong))} (see {__file__}).")
    lines = [HEAD, ""]
    for name, command in everything.items():
        visible = [one for one in command.params if not getattr(one, "hidden", False)]
        arguments = [one for one in visible if one.param_type_name == "argument"]
        options = [one for one in visible if one.param_type_name == "option" and one.name != "help"]
        words = [word(one) if one.required else f"[{word(one)}]" for one in arguments]
        usage = " ".join(["tidegate", name, *words])
        if not command.help:
            raise SystemExit(f"`tidegate {name}` has no docstring: say what it does.")
        lines += [
            f"## {name}",
            "",
            " ".join(command.help.split()),
            "",
            "```sh",
            f"{usage}{' [OPTIONS]' * bool(options)}",
        ]
        lines += [*EXAMPLES[name], "```", ""]
        if visible:
            lines += ["| Argument or option | Default | Meaning |", "| --- | --- | --- |"]
        lines += [f"| {word(one)} | {default_of(one)} | {meaning(name, one)} |" for one in arguments]
        lines += [f"| {spelled(one)} | {default_of(one)} | {meaning(name, one)} |" for one in options]
        lines += [""] if visible else []
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
