"""A whole Tidegate as people start it, for the tests that look at one from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from waiting import free_port, until

from tidegate.cli.up import MARK, end_leftovers, mark_of


class Up:
    """A running `tidegate up`."""

    def __init__(self, home: Path, port: int, **environ: str) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{port}"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate.cli.main", "up", "--home", str(home), "--port", str(port)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**inherited, **environ},
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self.lines.extend(iter(stream.readline, ""))

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def ready(self) -> bool:
        assert self.process.poll() is None, self.said
        try:
            return httpx.get(f"{self.url}/readyz", trust_env=False, timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def role(self, name: str) -> psutil.Process:
        """The process of a role."""
        for child in psutil.Process(self.process.pid).children():
            if name in child.cmdline():
                return child
        raise AssertionError(f"no {name}")

    def roles(self) -> set[int]:
        return {self.role(name).pid for name in ("scheduler", "worker", "api")}

    def get(self, path: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1{path}", trust_env=False, timeout=20)
        assert answer.is_success, answer.text
        return answer.json()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{self.url}/api/v1{path}", json=body, trust_env=False, timeout=20)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def declare(self, name: str, argv: list[str], **spec: Any) -> None:
        program = {"spec": {"type": "command", "argv": argv}}
        self.call("PUT", f"/namespaces/default/programs/{name}", program)
        body = {"spec": {"program": name, "trigger": {"type": "never"}, "enabled": True, **spec}}
        self.call("PUT", f"/namespaces/default/schedules/{name}", body)

    def trigger(self, name: str) -> str:
        return str(self.call("POST", f"/namespaces/default/schedules/{name}:trigger")["id"])

    def state(self, run: str) -> str:
        return str(self.get(f"/runs/{run}")["state"])

    def ended(self, run: str) -> bool:
        return self.state(run) == "succeeded"

    def ask_to_end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 30.0) -> int:
        self.process.send_signal(number)
        status = self.process.wait(seconds)
        self._reader.join(5)
        return status

    def clean(self) -> None:
        """Whatever a failed test left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._reader.join(10)
        end_leftovers(self.home)
        until(lambda: not database_processes(self.home))


def processes_of(home: Path) -> list[str]:
    """Everything that carries the mark of a home, or works in its database."""
    return marked(home) + database_processes(home)


def marked(home: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark_of(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


def database_processes(home: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "postgres" and str(home) in process.cwd():
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


@contextmanager
def tidegate_up(home: Path, **environ: str) -> Iterator[Up]:
    """One that is ready, on a port of its own; afterwards nothing of it is left."""
    running = Up(home, free_port(), **environ)
    try:
        until(running.ready, 60)
        yield running
    finally:
        running.clean()
