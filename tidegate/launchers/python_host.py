"""A pooled process: runs Python functions one after the other, for whichever worker asks, and outlives them all.

Two threads. The main one takes an order, writes `began` to the journal, calls the function, writes `finished`; it is
the only one that runs anybody's code, so that a signal can interrupt it. The listener (`launchers.python_door`)
speaks with workers. What both know lies on the `Desk`, under its lock.

If this process dies, the journal says which attempt it was running; what was only queued had not begun, and whoever
asked gives it to another host. If the workers die, it goes on with its queue, keeps the results for the next one, and
ends when nobody has been connected for a minute.

An identity is begun once: an order for one that is known here is passed over, and one whose attempt directory holds a
seal is refused. The sealer writes the seal first and asks the hosts second; the listener enters an order and checks
for the seal in one turn. So either the check sees the seal or the question finds the order.

A host runs the sources that it has imported. When one of their files changes it gives back what it has not begun and
ends; its successor imports them anew.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import shutil
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any

from tidegate.domain.ids import parse_identity
from tidegate.launchers import pool_wire, shim
from tidegate.launchers.context import make_context
from tidegate.launchers.places import ENDED, LOG, OUTBOX, attempt_directory, make_private, write_private
from tidegate.launchers.pool_journal import Journal
from tidegate.launchers.python_call import Callee, ProgramFault, Sources, resolve
from tidegate.launchers.python_door import Desk, Door
from tidegate.launchers.python_output import Output
from tidegate.sdk.run import Cancellation, Run, TidegateCancelled

CHECK_EVERY = 100_000
"""Microseconds between two looks at the files of all imported modules."""
STOPPED = "program.stopped"


class Host:
    """The main thread."""

    def __init__(self, directory: str, desk: Desk, output: Output) -> None:
        self.home = os.path.dirname(os.path.dirname(directory))
        os.environ[OUTBOX] = f"{self.home}/outbox"
        self.desk = desk
        self.output = output
        self._callees: dict[str, Callee] = {}
        self._sources = Sources()
        self._looked = 0
        self._interruptible = False
        signal.signal(signal.SIGUSR1, self._interrupt)

    def work(self) -> None:
        """Until told to end, or until the sources have changed."""
        desk = self.desk
        news: list[tuple[str, list[Any]]] = []
        while True:
            try:
                identity = desk.queue.get_nowait()
            except queue.Empty:
                desk.report(news, None)
                news = []
                identity = desk.queue.get()
            if identity is None:
                desk.report(news, None)
                return
            if self._stale():
                desk.report(news, None)
                desk.retire()
                return
            order = desk.take(identity)
            if order is None:
                continue
            try:
                desk.report(news, identity)
                news = []
                outcome, error = self._attempt(order)
            except OSError as fault:  # the journal cannot be written: nothing was begun
                outcome, error = "failed", _disk_full(self.home, fault)
            news.append((identity, desk.finish(identity, outcome, error)))

    def _attempt(self, order: list[Any]) -> tuple[str, Mapping[str, Any] | None]:
        identity, _, _, environment, _ = order
        directory = attempt_directory(self.home, identity)

        def make() -> str:
            make_private(directory)
            return f"{directory}/{LOG}"

        self.output.begin(make)
        with _environment(environment):
            outcome, error = self._judge(order)
        if self.output.end():
            with contextlib.suppress(OSError):
                write_private(f"{directory}/{ENDED}", "")
        if self.output.full is not None:
            return "failed", _disk_full(f"{directory}/{LOG}", self.output.full)
        return outcome, error

    def _judge(self, order: list[Any]) -> tuple[str, Mapping[str, Any] | None]:
        """Call it and name how that went."""
        said = "it returned"
        outcome, error = "succeeded", None
        try:
            self._call(order)
        except TidegateCancelled:
            said = "it was interrupted"
        except ProgramFault as fault:
            self._interruptible = False
            if fault.__cause__ is not None:
                _trace(fault.__cause__)
            said, outcome, error = fault.message, "failed", _error(fault.code, fault.message, fault.exit_status)
        except BaseException as fault:  # also KeyboardInterrupt: whatever it was, the host lives on
            self._interruptible = False
            _trace(fault)
            said = "".join(traceback.format_exception_only(fault)).strip()
            outcome, error = "failed", _error("program.error", said)
        self._interruptible = False
        if self.desk.cancellation.requested:
            return "cancelled", _error(STOPPED, f"Stopped (polite): {said}.")
        return outcome, error

    def _call(self, order: list[Any]) -> None:
        identity, entry, arguments, _, about = order
        self._interruptible = True
        if self.desk.cancellation.requested:
            raise TidegateCancelled
        callee = self._callees.get(entry)
        if callee is None:
            try:
                callee = self._callees[entry] = resolve(entry)
            finally:
                self._sources.note()
        callee.check(entry, arguments)
        keywords = dict(arguments)
        if callee.run_parameter is not None:
            context = make_context(parse_identity(identity), arguments, *about)
            keywords[callee.run_parameter] = Run.from_context(context, self.desk.cancellation)
        try:
            result = callee.function(**keywords)
            if callee.is_async:
                import asyncio  # only where it is needed: it is dear to import

                asyncio.run(result)
        except SystemExit as leaving:
            _judge_exit(leaving)
        self._interruptible = False

    def _interrupt(self, *_: object) -> None:
        if self._interruptible and self.desk.cancellation.requested:
            self._interruptible = False  # once; what the function makes of it is its affair
            raise TidegateCancelled

    def _stale(self) -> bool:
        now = shim.monotonic_us()
        if now - self._looked < CHECK_EVERY:
            return False
        self._sources.note()
        self._looked = now
        return self._sources.changed() is not None


@contextlib.contextmanager
def _environment(extra: Mapping[str, str]) -> Any:
    """The program's own variables, for as long as it runs."""
    if not extra:
        yield
        return
    before = {name: os.environ.get(name) for name in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _judge_exit(leaving: SystemExit) -> None:
    """sys.exit() as the interpreter reads it: nothing and 0 are success, a text is a message and status 1."""
    if leaving.code is None or leaving.code == 0:
        return
    status = leaving.code if isinstance(leaving.code, int) else 1
    text = "" if isinstance(leaving.code, int) else f" ({leaving.code})"
    raise ProgramFault("program.exit", f"The function called sys.exit with status {status}{text}.", status)


def _trace(fault: BaseException) -> None:
    """The traceback, from the user's first line on, to the log."""
    frames = fault.__traceback__
    while frames is not None and frames.tb_next is not None and _ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    with contextlib.suppress(OSError):
        traceback.print_exception(type(fault), fault, frames)


def _ours(file: str) -> bool:
    return file.startswith((os.path.dirname(__file__), "<frozen importlib"))


def _error(code: str, message: str, exit_status: int | None = None) -> Mapping[str, Any]:
    return {"code": code, "message": message, "exit_status": exit_status}


def _disk_full(path: str, fault: OSError) -> Mapping[str, Any]:
    return _error(
        "disk.full",
        f"{path} cannot be written: {fault.strerror}. Free space there, shorten the retention of logs, "
        "or move the home (--home).",
    )


def main(directory: str, fingerprint: str, boot: str) -> None:
    """`directory` is HOME/pools/<name>; `fingerprint` says what environment this is; `boot` names the boot it is in."""
    sys.dont_write_bytecode = True  # a cache is told from a source by whole seconds: too coarse for what people edit
    sys.path.insert(0, os.getcwd())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    shim.become_subreaper()
    output = Output(f"{directory}/spool", f"{directory}/host.log")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    listener = pool_wire.listen(directory)
    desk = Desk(Journal(directory), threading.main_thread(), Cancellation)
    me = {"boot": boot, "pid": os.getpid(), "start": shim.start_of_self()}
    write_private(f"{directory}/host.json.new", json.dumps({**me, "fingerprint": fingerprint}))
    os.rename(f"{directory}/host.json.new", f"{directory}/host.json")
    host = Host(directory, desk, output)
    door = Door(desk, listener, output, host.home)
    door.welcome(socket.socket(fileno=3))  # whoever started us
    door.start()
    host.work()
    door.close(patience=2.0)
    if not desk.finished:
        shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)  # threads that a function left behind do not hold us


if __name__ == "__main__":
    main(*sys.argv[1:])
