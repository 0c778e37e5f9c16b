"""`tidegate scheduler`, `worker` and `api`: one role each, alone in production or as a child of `tidegate up`.

SIGTERM and SIGINT ask a role to leave cleanly: it gives up its leases and its place at once, so that nobody waits for
its heartbeat to grow old. A lone worker leaves its attempts running, for the next one to adopt; the worker of `up` ends
them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.options import Home
from tidegate.cli.processes import die_with
from tidegate.domain.errors import Refused

if TYPE_CHECKING:
    from tidegate.settings import LogSettings, Settings

ChildOf = Annotated[int | None, typer.Option("--child-of", hidden=True)]


def scheduler(home: Home = None, child_of: ChildOf = None) -> None:
    """Run a scheduler: what is due becomes runs, and runs are let go."""
    from tidegate import wiring

    settings = _begin("scheduler", home, child_of)
    asyncio.run(_until_asked(lambda stop: wiring.run_scheduler(settings, stop)))


def worker(
    home: Home = None,
    child_of: ChildOf = None,
    end_attempts: Annotated[bool, typer.Option("--end-attempts", hidden=True)] = False,
) -> None:
    """Run a worker: runs that are ready are started, watched and stopped."""
    from tidegate import wiring

    settings = _begin("worker", home, child_of)
    leaving = wiring.Leaving.END_ATTEMPTS if end_attempts else wiring.Leaving.LEAVE_ATTEMPTS
    asyncio.run(_until_asked(lambda stop: wiring.run_worker(settings, stop, leaving)))


def api(
    home: Home = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on.")] = None,
    child_of: ChildOf = None,
    fd: Annotated[int | None, typer.Option("--fd", hidden=True)] = None,
) -> None:
    """Run the REST doors."""
    from tidegate.api.server import serve
    from tidegate.cli.up import listen, refuse_beyond_loopback

    settings = _begin("api", home, child_of, {"host": host, "port": port})
    refuse_beyond_loopback(settings.api.host)
    listener = socket.socket(fileno=fd) if fd is not None else listen(settings.api.host, settings.api.port)
    with listener:
        asyncio.run(_until_asked(lambda stop: serve(settings, listener, stop)))


def _begin(role: str, home: Path | None, parent: int | None, flags: dict[str, object] | None = None) -> Settings:
    if parent is not None:
        die_with(parent)
    from tidegate import settings as configuration

    settings = configuration.load(home=home, flags={"api": flags or {}})
    configure_logging(role, settings.log)
    if not settings.database.url:
        raise Refused(
            f"{'An' if role == 'api' else 'A'} {role} alone needs a database to share.",
            remedy="Set TIDEGATE_DATABASE_URL, or use `tidegate up`, which brings its own.",
        )
    return settings


async def _until_asked(run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(stop)


# ── what is said on standard error ─────────────────────────────────────────────────────────────────────────────────


def configure_logging(role: str, settings: LogSettings) -> None:
    """One line per record: for people, or as JSON for machines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(role) if settings.format == "json" else _text(role))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "py4j", "uvicorn"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))


def _text(role: str) -> logging.Formatter:
    return logging.Formatter(f"%(asctime)s {role:<9} %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S%z")


class JsonLines(logging.Formatter):
    """{time, role, level, logger, message, trace?}, one object a line."""

    def __init__(self, role: str) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S%z")
        self.role = role

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": self.formatTime(record, self.datefmt),
            "role": self.role,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)
