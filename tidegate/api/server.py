"""The API role: uvicorn on a socket that is open already."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractContextManager, nullcontext

import uvicorn

from tidegate import wiring
from tidegate.api.app import create_app
from tidegate.api.context import Doors
from tidegate.settings import Settings

GRACE = 2  # seconds for requests under way


class Server(uvicorn.Server):
    """Without signal handlers of its own: whoever runs it decides when it ends."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def serve(settings: Settings, listener: socket.socket, stop: asyncio.Event) -> None:
    """Answer on `listener` until `stop` is set. Also while the database is away: then with 503.

    Raises Refused: this version may not work with the database."""
    async with wiring.open_doors(settings, stop) as (store, logs):
        doors = Doors(
            store=store,
            logs=logs,
            body_limit=settings.api.body_limit,
            update_schedules=settings.api.update_schedules,
            patience=settings.scheduler.patience,
            kept=settings.retention.runs,
            catalog=settings.spark.catalog,
            ruling=settings.maintenance.ruling,
        )
        config = uvicorn.Config(
            create_app(doors),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=GRACE,
            timeout_keep_alive=30,
        )
        server = Server(config)
        answering = asyncio.create_task(server.serve(sockets=[listener]))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait({answering, asked}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await answering
        asked.cancel()
