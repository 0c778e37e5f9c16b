"""The doors as people meet them: a real server on a real port, and the command as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from tidegate.api.app import create_app
from tidegate.api.context import Doors
from tidegate.cli import main
from tidegate.domain.ids import AttemptKey
from tidegate.ports.launching import LogChunk
from tidegate.sim.memory import MemoryStore
from tidegate.store.store import PostgresStore

from .running import Up, tidegate_up


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A whole Tidegate, as it is without any setting."""
    with tidegate_up(tmp_path / "home") as running:
        yield running


class NoLogs:
    """Attempts that printed nothing."""

    async def read(self, attempt: AttemptKey, offset: int, limit: int = 65536) -> LogChunk:
        return LogChunk(text="", next_offset=offset, complete=True)


def memory_doors(**changes: Any) -> Doors:
    return Doors(store=MemoryStore(lambda: time.time_ns() // 1000), logs=NoLogs(), **changes)


@dataclass
class Served:
    """A server that runs in a thread."""

    url: str
    doors: Doors
    http: httpx.Client

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        prefix = "" if path.startswith(("/healthz", "/readyz", "/metrics", "/openapi.json")) else "/api/v1"
        return self.http.request(method, prefix + path, **given)

    def declare(self, name: str = "s", *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
        """A program `p` and a schedule of it."""
        program = {"spec": {"type": "command", "argv": ["true"]}}
        assert self("PUT", f"/namespaces/{namespace}/programs/p", json=program).is_success
        body = {"spec": {"program": "p", "trigger": {"type": "cron", "expression": "0 2 * * *"}, **spec}}
        answer = self("PUT", f"/namespaces/{namespace}/schedules/{name}", json=body)
        assert answer.is_success, answer.text
        made: dict[str, Any] = answer.json()
        return made


def serve(doors: Doors, app: FastAPI | None = None) -> Iterator[Served]:
    """Serve while the generator is open."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # or asyncio leaves Nagle on
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(app or create_app(doors), log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)  # in a thread it takes no signals
    thread = threading.Thread(target=lambda: asyncio.run(_life(server, listener, doors.store)))
    thread.start()
    try:
        with httpx.Client(base_url=url, trust_env=False, timeout=20, verify=False) as http:
            yield Served(url, doors, http)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


async def _life(server: uvicorn.Server, listener: socket.socket, store: Any) -> None:
    """A store belongs to one event loop, from its first question to its end."""
    await server.serve(sockets=[listener])
    if isinstance(store, PostgresStore):
        await store.close()


@dataclass
class Shared:
    """One server for all tests over the store in memory: making its routes takes longer than most tests."""

    app: FastAPI
    served: Served
    registry: CollectorRegistry

    def afresh(self) -> Served:
        """The same server over an empty store."""
        doors = self.app.state.doors = memory_doors(registry=self.registry)
        self.served.http.cookies.clear()
        return replace(self.served, doors=doors)


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    doors = memory_doors()
    app = create_app(doors)
    for one in serve(doors, app):
        yield Shared(app, one, doors.registry)


@pytest.fixture
def served(shared: Shared) -> Served:
    """The doors over the store in memory, which both stores' conformance suite makes as good as the other."""
    return shared.afresh()


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.slow)])
def served_by(request: pytest.FixtureRequest) -> Iterator[Served]:
    """The doors over each store. What the stores answer is held equal by the conformance suite, which is fast."""
    if request.param == "memory":
        yield request.getfixturevalue("shared").afresh()
    else:
        store = PostgresStore(request.getfixturevalue("emptied_database_url"))
        yield from serve(Doors(store=store, logs=NoLogs()))


@dataclass
class Said:
    """What a command said."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def tidegate(*arguments: str, url: str = "", given: str = "") -> Said:
    """What the command says, without the half second that a process of its own takes."""
    environ = {"TIDEGATE_URL": url, "COLUMNS": "80", "TIDEGATE_DATABASE_URL": None, "TIDEGATE_HOME": None}
    done = CliRunner().invoke(main.app, arguments, input=given, env=environ, prog_name="tidegate")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(done.exit_code, done.stdout, done.stderr)


def command(*arguments: str, url: str = "", given: str = "", environ: dict[str, str] | None = None) -> Said:
    """Run the command as a process."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", *arguments],
        capture_output=True,
        text=True,
        input=given,
        env={**inherited, "TIDEGATE_URL": url, "COLUMNS": "80", **(environ or {})},
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """A file of documents."""
    file = tmp_path / "flights.yaml"
    file.write_text(
        """\
apiVersion: tidegate/v1
kind: Program
metadata: {name: land}
spec: {type: command, argv: ["true"]}
---
apiVersion: tidegate/v1
kind: Schedule
metadata: {name: nightly, labels: {team: core}}
spec:
  program: land
  trigger: {type: cron, expression: "0 2 * * *", timezone: Europe/Berlin}
"""
    )
    return file
