"""The directory of an attempt: what outlives the worker that started it.

    HOME/attempts/<2 hex>/<identity>/     mode 0700, files 0600
        launch.json     what was asked for, for people; no environment value is in it, since those may be secrets
        context.json    what the program sees as its run (TIDEGATE_CONTEXT)
        log             standard output and error
        process         the claim: who has this identity, for ever, and how it ended (see `launchers.shim`)

The claim is made by link(2) from a complete draft, so exactly one of all starters and sealers gets it, whatever dies
or freezes in between: a zombie that comes back finds the seal. It stays until the janitor removes the directory, days
later.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tidegate.domain.errors import LaunchRefused, Refused
from tidegate.domain.instants import format_instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.variables import looked_up
from tidegate.launchers import shim
from tidegate.launchers.context import context_of, run_key
from tidegate.launchers.places import LOG, OUTBOX, attempt_directory, make_private, write_private
from tidegate.launchers.processes import ProcessRef
from tidegate.ports.launching import Launch

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
OURS = ("RUN_ID", "RUN_KEY", "ATTEMPT", "FENCE", "NAMESPACE", "SCHEDULE", "FIRE_TIME", "ARGUMENTS", "CONTEXT")
WITHHELD = frozenset({"TIDEGATE_DATABASE_URL", *(f"TIDEGATE_{name}" for name in OURS)})
"""What a program never inherits from its worker: another run's identity, and the key to the database."""


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt's process ended. `status` is its exit status, `signal` what killed it; else it never began."""

    status: int | None = None
    signal: int | None = None
    stop: str | None = None
    """`polite` or `kill` when it had been asked to end before it did."""
    at: int = 0
    """When, by `processes.monotonic_us` of its boot."""
    errno: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who has an identity: `owner`, or nobody for ever (sealed). `end` once it has ended and said so."""

    owner: ProcessRef | None
    end: End | None

    @property
    def sealed(self) -> bool:
        return self.owner is None


class Attempts:
    """The directories of all attempts of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "attempts"

    def directory(self, identity: str) -> Path:
        return Path(attempt_directory(str(self.home), identity))

    def log(self, identity: str) -> Path:
        return self.directory(identity) / LOG

    def make(self, identity: str) -> Path:
        """The directory, made if need be. Raises LaunchRefused `disk.full` or `home.unwritable`."""
        directory = self.directory(identity)
        try:
            make_private(str(directory))
        except OSError as error:
            refuse(error, directory)
        return directory

    def prepare(self, launch: Launch) -> Path:
        """Make the directory and write what people and programs read. Raises as `make` does."""
        directory = self.make(launch.identity)
        try:
            write_private(f"{directory}/launch.json", json.dumps(describe(launch)))
            write_private(f"{directory}/context.json", json.dumps(context_of(launch)))
        except OSError as error:
            refuse(error, directory)
        return directory

    def claim(self, identity: str) -> Claim | None:
        """Who has it; None while nobody has."""
        try:
            data = (self.directory(identity) / shim.CLAIM).read_bytes()
        except FileNotFoundError:
            return None
        owner = _owner(data[: shim.END_AT])
        return Claim(owner, None if owner is None else _end(data[shim.END_AT :]))

    def seal(self, identity: str) -> Claim:
        """Make sure that nothing that has not begun ever begins; afterwards, who has it."""
        directory = self.make(identity)
        try:
            descriptor = shim.make_claim(str(directory), {"sealed": True})
        except OSError as error:
            refuse(error, directory)
        if descriptor is not None:
            os.close(descriptor)
            return Claim(None, None)
        claim = self.claim(identity)
        assert claim is not None, "a claim is never taken back"
        return claim

    def tidy(self, identity: str) -> None:
        """Its end is on record elsewhere: drop what only served the program. Claim and log stay."""
        for name in ("launch.json", "context.json"):
            with contextlib.suppress(OSError):
                (self.directory(identity) / name).unlink()


def _owner(said: bytes) -> ProcessRef | None:
    """None for a seal."""
    try:
        owner = json.loads(said)
        return None if owner.get("sealed") else ProcessRef(owner["boot"], owner["pid"], owner["start"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return ProcessRef("", 0, 0)  # torn by a power cut: of another boot, hence gone


def _end(padding: bytes) -> End | None:
    try:
        return End(**json.loads(padding)) if padding.strip() else None
    except (ValueError, TypeError):
        return None  # torn by a power cut: it never said how it ended


def refuse(error: OSError, path: Path) -> NoReturn:
    """Say what an operating system error means for the person who has to mend it."""
    if error.errno in FULL:
        raise LaunchRefused(
            f"The disk that holds {path} is full, so this attempt has no place for its log and its end.",
            remedy="Free space there, shorten the retention of logs, or move the home (--home).",
            code="disk.full",
        ) from error
    raise LaunchRefused(
        f"{path} cannot be written: {error.strerror or error}.",
        remedy="The home must exist and belong to the user of the worker.",
        code="home.unwritable",
    ) from error


def describe(launch: Launch) -> dict[str, Any]:
    spec = launch.program.spec
    return {
        "identity": launch.identity,
        "program": {"id": launch.program.id, "rev": launch.program.rev, "name": launch.program.name, "type": spec.TYPE},
        "environment": sorted(spec.environment),
        "timeout_us": launch.timeout,
        "grace_us": launch.grace,
    }


def extra_environment(launch: Launch, worker: Mapping[str, str]) -> dict[str, str]:
    """The program's own variables, `env:NAME` read from the worker's. Raises LaunchRefused where NAME is not set."""
    return {name: _value(launch, name, value, worker) for name, value in launch.program.spec.environment.items()}


def _value(launch: Launch, name: str, value: Any, worker: Mapping[str, str]) -> str:
    return of_worker(launch, f"The variable {name}", value, worker) if isinstance(value, str) else json.dumps(value)


def of_worker(launch: Launch, what: str, value: str, worker: Mapping[str, str]) -> str:
    """The value of `env:NAME` in the worker's environment, or the text as it is. Raises LaunchRefused."""
    try:
        program = f"{launch.program.namespace}/{launch.program.name}"
        return looked_up(value, worker, f"{what} of program {program}", "the worker")
    except Refused as fault:
        raise LaunchRefused(fault.message, remedy=fault.remedy, code="program.environment", retryable=False) from None


def environment_of(launch: Launch, worker: Mapping[str, str], context: Path) -> dict[str, str]:
    """All of a process's environment: the worker's, then what names the run, then the program's own on top."""
    environment = {name: value for name, value in worker.items() if name not in WITHHELD}
    environment |= {
        "TIDEGATE_RUN_ID": str(launch.attempt.run),
        "TIDEGATE_RUN_KEY": run_key(launch.attempt.run, launch.namespace, launch.schedule),
        "TIDEGATE_ATTEMPT": str(launch.attempt.number),
        "TIDEGATE_FENCE": str(launch.fence),
        "TIDEGATE_NAMESPACE": launch.namespace,
        "TIDEGATE_SCHEDULE": launch.schedule,
        "TIDEGATE_ARGUMENTS": dump_arguments(launch.arguments),
        "TIDEGATE_CONTEXT": str(context),
        OUTBOX: str(context.parents[3] / "outbox"),
    }
    if launch.fire_time is not None:
        environment["TIDEGATE_FIRE_TIME"] = format_instant(launch.fire_time)
    return environment | extra_environment(launch, worker)


def dump_arguments(arguments: JsonObject) -> str:
    return json.dumps(dict(arguments), ensure_ascii=False, separators=(",", ":"))
