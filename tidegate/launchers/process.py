"""Commands: processes that outlive the worker.

Each command runs under a shim (`launchers.shim`) in a session of its own, forked by the worker's one nursery
(`launchers.nursery`). What this module owns is the worker's side: one pidfd per living shim in the loop's poll set, and
the reading of ends. All truth lies in the attempts' directories, so a worker that dies here loses nothing: the next one
opens the claim it finds.

The life of a start: PATH lookup, directory, order to the nursery, the shim's answer. If the nursery dies or stays
silent in between, the identity is sealed; whichever of the shim's claim and the seal came first says whether it has
started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.domain.errors import Fenced, LaunchRefused
from tidegate.domain.ids import AttemptKey
from tidegate.domain.programs import Command
from tidegate.domain.schedules import JsonObject
from tidegate.launchers.attempts import Attempts, Claim, End, environment_of, refuse
from tidegate.launchers.nursery import Nursery
from tidegate.launchers.processes import ProcessRef, alive, kill_tree, monotonic_us, open_pidfd, send, this_boot
from tidegate.ports.launching import Launch, Phase, Report, StopHow

END_WITHIN = 5.0
"""Seconds for a shim to end its tree before the worker does it by force."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a shim is to run: an executable's path, its arguments beginning with its name, its whole environment."""

    path: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(slots=True)
class Watched:
    """An attempt that was alive when last seen."""

    shim: ProcessRef
    pidfd: int | None
    ended: bool = False


class ProcessLauncher:
    """Programs of kind `command`. Subclass with another `command_line` to run other things the same way."""

    kinds = frozenset({"command"})

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is the worker's own, which programs inherit (default: this process's)."""
        self.attempts = Attempts(home)
        self.environment = os.environ if environment is None else environment
        self.on_change: Callable[[], None] = lambda: None
        self._nursery = Nursery()
        self._watched: dict[str, Watched] = {}
        self._ends: dict[str, Report] = {}
        self._killing: dict[str, asyncio.Task[None]] = {}

    async def open(self) -> None:
        self._nursery.begin()  # so that the first command starts as fast as the others

    async def close(self) -> None:
        for identity in list(self._watched):
            self._unwatch(identity)
        tasks = list(self._killing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._nursery.end()

    def command_line(self, launch: Launch, directory: Path) -> CommandLine:
        """What to run. Raises LaunchRefused `program.not_found` when argv[0] is nowhere on PATH."""
        assert isinstance(launch.program.spec, Command)
        argv = launch.program.spec.argv
        environment = environment_of(launch, self.environment, directory / "context.json")
        search = environment.get("PATH", os.defpath)
        path = shutil.which(argv[0], path=search)
        if path is None:
            raise LaunchRefused(
                f"{argv[0]!r} is not a program that can be run: not found on PATH ({search}).",
                remedy="Install it where the worker runs, extend the worker's PATH, or name it by its full path.",
                code="program.not_found",
                retryable=False,
            )
        return CommandLine(path, argv, environment)

    async def start(self, launch: Launch) -> str:
        identity = launch.identity
        if identity in self._watched:
            return _backend_id(self._watched[identity].shim)
        line = self.command_line(launch, self.attempts.directory(identity))
        if (claim := self.attempts.claim(identity)) is not None:
            return self._already(launch, claim)
        directory = self.attempts.prepare(launch)
        order = {
            "directory": str(directory),
            "path": line.path,
            "argv": line.argv,
            "environment": dict(line.environment),
        }
        try:
            answer = await self._nursery.fork(order)
        except (TimeoutError, OSError) as error:
            claim = self.attempts.seal(identity)
            if claim.sealed:
                raise LaunchRefused(f"No process could be started: {error or 'no answer'}.") from error
            return self._already(launch, claim)
        return self._answered(launch, directory, answer)

    def _answered(self, launch: Launch, directory: Path, answer: dict[str, Any]) -> str:
        if "taken" in answer:
            claim = self.attempts.claim(launch.identity)
            assert claim is not None
            return self._already(launch, claim)
        if "errno" in answer:
            error = OSError(answer["errno"], answer["message"])
            if not answer.get("recorded"):
                refuse(error, directory)
            raise LaunchRefused(
                f"The command cannot be run: {answer['message']}.",
                remedy="Its file must be an executable for this machine, and arguments with environment not too long.",
                code="program.not_executable",
                retryable=False,
            )
        ref = ProcessRef(answer["boot"], answer["pid"], answer["start"])
        self._watch(launch.identity, ref)
        return _backend_id(ref)

    def _already(self, launch: Launch, claim: Claim) -> str:
        if claim.owner is None:
            raise Fenced(f"Attempt {launch.identity} was sealed: another worker found that it had not started.")
        self._adopt(launch.attempt, claim)
        return _backend_id(claim.owner)

    async def seal(self, launch: Launch) -> Report | None:
        identity = launch.identity
        if identity not in self._watched and identity not in self._ends:
            claim = self.attempts.seal(identity)
            if claim.sealed:
                return None
            self._adopt(launch.attempt, claim)
        return (await self.poll([launch.attempt]))[0]

    def _adopt(self, attempt: AttemptKey, claim: Claim) -> None:
        assert claim.owner is not None
        identity = attempt.identity
        if claim.end is None and alive(claim.owner):
            self._watch(identity, claim.owner)
        elif identity not in self._watched:
            self._watched[identity] = Watched(claim.owner, None, ended=True)

    def _watch(self, identity: str, ref: ProcessRef) -> None:
        if identity in self._watched:
            return
        pidfd = open_pidfd(ref)
        self._watched[identity] = Watched(ref, pidfd)
        if pidfd is not None:
            asyncio.get_running_loop().add_reader(pidfd, self._ended, identity)

    def _unwatch(self, identity: str) -> None:
        watched = self._watched.pop(identity, None)
        if watched is not None and watched.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watched.pidfd)
            os.close(watched.pidfd)

    def _ended(self, identity: str) -> None:
        watched = self._watched[identity]
        assert watched.pidfd is not None
        asyncio.get_running_loop().remove_reader(watched.pidfd)
        os.close(watched.pidfd)
        watched.pidfd, watched.ended = None, True
        self.on_change()

    async def poll(self, attempts: Sequence[AttemptKey]) -> Sequence[Report]:
        reports = []
        for attempt in attempts:
            identity = attempt.identity
            if identity in self._ends:
                reports.append(self._ends[identity])
                continue
            watched = self._watched.get(identity)
            if watched is None:
                claim = self.attempts.claim(identity)
                if claim is None or claim.sealed:
                    continue
                self._adopt(attempt, claim)
                watched = self._watched[identity]
            if not watched.ended and (watched.pidfd is not None or alive(watched.shim)):
                reports.append(Report(attempt=attempt, phase=Phase.RUNNING, backend_id=_backend_id(watched.shim)))
                continue
            reports.append(await self._conclude(attempt, watched))
        return reports

    async def _conclude(self, attempt: AttemptKey, watched: Watched) -> Report:
        """The shim is gone. What it wrote is the end; if nothing, it was killed, and its tree must not go on."""
        identity = attempt.identity
        claim = self.attempts.claim(identity)
        end = None if claim is None else claim.end
        backend_id = _backend_id(watched.shim)
        if end is not None:
            here = watched.shim.boot == this_boot()
            ago = max(0, monotonic_us() - end.at) if here else 0
            outcome, error = judge(end, self.attempts.log(identity))
            report = Report(
                attempt=attempt, phase=Phase.FINISHED, backend_id=backend_id, outcome=outcome, error=error, ago=ago
            )
        else:
            if watched.shim.boot == this_boot():
                await asyncio.to_thread(kill_tree, watched.shim, _marker(attempt))
            report = Report(attempt=attempt, phase=Phase.GONE, backend_id=backend_id)
            if identity in self._killing:
                error = {"code": "program.stopped", "message": "Ended by force.", "exit_status": None}
                report = Report(
                    attempt=attempt, phase=Phase.FINISHED, backend_id=backend_id, outcome="cancelled", error=error
                )
        self._ends[identity] = report
        self._unwatch(identity)
        return report

    async def stop(self, attempt: AttemptKey, how: StopHow) -> None:
        identity = attempt.identity
        watched = self._watched.get(identity)
        if watched is None:
            claim = self.attempts.claim(identity)
            if claim is None or claim.owner is None or claim.end is not None:
                return
            self._adopt(attempt, claim)
            watched = self._watched[identity]
        match how:
            case StopHow.POLITE:
                send(watched.shim, signal.SIGTERM)
            case StopHow.KILL:
                send(watched.shim, signal.SIGUSR1)
                if identity not in self._killing:
                    self._killing[identity] = asyncio.create_task(self._force(attempt, watched.shim))

    async def _force(self, attempt: AttemptKey, ref: ProcessRef) -> None:
        """A shim that was itself stopped or killed does not end its tree: do it from here."""
        for _ in range(int(END_WITHIN / 0.05)):
            if not alive(ref):
                break
            await asyncio.sleep(0.05)
        else:
            await asyncio.to_thread(kill_tree, ref, _marker(attempt))
            send(ref, signal.SIGCONT)
            send(ref, signal.SIGKILL)
        await asyncio.to_thread(kill_tree, ref, _marker(attempt))
        self.on_change()

    async def forget(self, attempts: Sequence[AttemptKey]) -> None:
        for attempt in attempts:
            identity = attempt.identity
            self._ends.pop(identity, None)
            self._unwatch(identity)
            if (task := self._killing.get(identity)) is not None:
                task.add_done_callback(partial(self._killed, identity))
            self.attempts.tidy(identity)

    def _killed(self, identity: str, _: asyncio.Task[None]) -> None:
        self._killing.pop(identity, None)


def judge(end: End, log: Path) -> tuple[str, JsonObject | None]:
    """An end as outcome and error."""
    if end.errno is not None:
        return "failed", _error("program.not_executable", f"The command could not be run: {end.message}.", None)
    exit_status = end.status if end.signal is None else 128 + (end.signal or 0)
    said = f"exit status {end.status}" if end.signal is None else f"killed by signal {end.signal} ({_name(end.signal)})"
    if end.stop is not None:
        return "cancelled", _error("program.stopped", f"Stopped ({end.stop}): {said}.", exit_status)
    if exit_status == 0:
        return "succeeded", None
    if _disk_is_full(log):
        message = f"The command ended with {said}, and the disk that holds {log} is full. Free space there."
        return "failed", _error("disk.full", message, exit_status)
    if end.signal is not None:
        return "failed", _error("program.signal", f"The command was {said}, not by Tidegate.", exit_status)
    return "failed", _error("program.exit", f"The command ended with {said}; its log says why.", exit_status)


def _error(code: str, message: str, exit_status: int | None) -> JsonObject:
    return {"code": code, "message": message, "exit_status": exit_status}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"


def _disk_is_full(path: Path) -> bool:
    try:
        return os.statvfs(path).f_bavail == 0
    except OSError:
        return False


def _marker(attempt: AttemptKey) -> dict[str, str]:
    return {"TIDEGATE_RUN_ID": str(attempt.run), "TIDEGATE_ATTEMPT": str(attempt.number)}


def _backend_id(ref: ProcessRef) -> str:
    return f"pid {ref.pid}"
