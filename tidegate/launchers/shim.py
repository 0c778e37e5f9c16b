"""The shim: a tiny parent per attempt that knows how its command ended, also when no worker lives.

Who forks whom. A worker cannot be the command's parent: when it dies, the exit status is lost. So every attempt gets
a parent of its own, the shim. Starting Python for each would cost 15 ms; so the worker keeps one small, single-
threaded process, the nursery, which forks a shim in half a millisecond and ends with the worker (its orders end),
while the shims live on. Only the standard library is imported here, and this file is run by its path.

Exactly once. The claim on an identity is the file `process` in the attempt's directory: made complete under another
name, then given its name by link(2), which fails when the name exists. A sealer makes the same file in the same way.
So either the shim has the claim and runs the command, or the seal stands and no shim ever will; there is no time
between.

How it ended. The claim is padded, and the end is written into the padding by one pwrite(2): that needs no space on a
full disk, and whoever reads it sees all of it or nothing. The shim is a subreaper (Linux): whatever the command
leaves behind becomes the shim's child, so that it can end the whole tree, daemons too, by asking the kernel who its
children are.

Signals to a shim: SIGTERM asks the command's tree to end; SIGUSR1 ends it. After either, the attempt ends when all of
the tree has. A command that ends by itself may leave daemons; those are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn

CLAIM = "process"
END_AT = 256
"""Where the end is written; before it stands who has the claim."""
CLAIM_SIZE = 512
PR_SET_CHILD_SUBREAPER = 36
HEARD = {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1}
RESET = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD]


def nursery(orders: socket.socket, replies: int) -> None:
    """Fork a shim for each order until the worker goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended shims
    gc.freeze()
    while (head := _receive(orders, 4)) is not None:
        body = _receive(orders, struct.unpack("!I", head)[0])
        if body is None:
            return
        order = json.loads(body)
        try:
            child = os.fork()
        except OSError as error:
            _reply(replies, order, {"errno": error.errno, "message": f"cannot fork: {error}"})
            continue
        if child == 0:
            _attend(order, orders, replies)


def _receive(source: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = source.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _reply(replies: int, order: dict[str, Any], answer: dict[str, Any]) -> None:
    """One line, short enough that the pipe keeps it in one piece."""
    line = json.dumps({"token": order["token"], **answer})
    with contextlib.suppress(OSError):  # the worker is gone; a later one reads the claim
        os.write(replies, line.encode() + b"\n")


def _attend(order: dict[str, Any], orders: socket.socket, replies: int) -> NoReturn:
    """A shim's life."""
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, orders.detach())  # never closed: the next file opened would take its place as standard input
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        become_subreaper()
        shim = Shim(order)
        answer = shim.start()
        _reply(replies, order, answer)
        os.dup2(null, replies)
        if "pid" in answer:
            shim.wait()
        code = 0
    except OSError as error:
        _reply(replies, order, {"errno": error.errno, "message": str(error)[:1000]})
    finally:
        os._exit(code)


class Shim:
    def __init__(self, order: dict[str, Any]) -> None:
        self.directory: str = order["directory"]
        self.order = order
        self.command = 0
        self.stop: str | None = None
        self.claim = -1

    def start(self) -> dict[str, Any]:
        """Take the claim and start the command. The answer has `pid`, or `taken`, or `errno` and `message`."""
        log = os.open(f"{self.directory}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        own = {"boot": self.order["boot"], "pid": os.getpid(), "start": start_of_self()}
        claim = make_claim(self.directory, own)
        if claim is None:
            return {"taken": True}
        self.claim = claim
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        try:
            self.command = os.posix_spawn(
                self.order["path"],
                self.order["argv"],
                self.order["environment"],
                file_actions=actions,
                setpgroup=0,
                setsigmask=[],
                setsigdef=RESET,
            )
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None) or 0
            self.record({"errno": number, "message": str(error)})
            return {"errno": number, "message": str(error)[:1000], "recorded": True}
        os.close(log)
        return own

    def wait(self) -> None:
        """Until the command has ended, and after a stop all that it started; then write the end."""
        end: dict[str, int] | None = None
        while True:
            if self.stop == "kill":
                for pid in descendants():
                    _signal(pid, signal.SIGKILL)
                heard = signal.sigtimedwait(HEARD, 0.01)
                number = heard.si_signo if heard else 0
            else:
                number = signal.sigwait(HEARD)
            if number == signal.SIGUSR1:
                self.stop = "kill"
            elif number == signal.SIGTERM and self.stop is None:
                self.stop = "polite"
                self.ask()
            status, alone = self.reap()
            if status is not None:
                end = status
            if end is not None and (alone or self.stop is None):
                self.record(end)
                return

    def ask(self) -> None:
        """SIGTERM to each process group of the tree."""
        groups = {_group(pid) for pid in [self.command, *descendants()]} - {os.getpgid(0), None}
        for group in groups:
            if group is not None:
                _signal(-group, signal.SIGTERM)

    def reap(self) -> tuple[dict[str, int] | None, bool]:
        """How the command ended, if it just did; and whether there is no child any more."""
        end = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return end, True
            if pid == 0:
                return end, False
            if pid == self.command:
                end = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"status": os.WEXITSTATUS(status)}

    def record(self, end: dict[str, Any]) -> None:
        end = {**end, "stop": self.stop, "at": monotonic_us()}
        if "message" in end:
            end["message"] = end["message"][:80]
        os.pwrite(self.claim, json.dumps(end).encode().ljust(CLAIM_SIZE - END_AT), END_AT)


def monotonic_us() -> int:
    """Microseconds that pass evenly while this boot lasts, sleep included; the same for every process."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


def make_claim(directory: str, owner: dict[str, Any]) -> int | None:
    """Claim the attempt of this directory for ever. An open descriptor of the claim, or None when it has an owner."""
    draft = f"{directory}/.{CLAIM}.{os.getpid()}"
    claim = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(claim, json.dumps(owner).encode().ljust(CLAIM_SIZE))
        os.fsync(claim)  # else a power cut can leave the name without what stands in it
        os.link(draft, f"{directory}/{CLAIM}")
    except FileExistsError:
        os.close(claim)
        return None
    except OSError:
        os.close(claim)
        raise
    finally:
        os.unlink(draft)
    return claim


def become_subreaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start_of_self() -> int:
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def descendants() -> list[int]:
    """Living processes below this one, nearest first."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                state, parent = stat.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    level = children.get(os.getpid(), [])
    while level:
        found += level
        level = [child for pid in level for child in children.get(pid, [])]
    return found


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


if __name__ == "__main__":
    nursery(socket.socket(fileno=0), 1)
