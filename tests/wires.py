"""A wire to PostgreSQL that tests cut, or mute."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Wire:
    """A wire between store and server that can be cut at the COMMIT, before or after the server has seen it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cut_before = self.cut_after = self.muted = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self.port)
        answers = asyncio.create_task(self._answers(back, writer))
        try:
            while data := await reader.read(65536):
                commits = re.search(rb"COMMIT\0", data) is not None
                if commits and self.cut_before:
                    break
                if commits and self.cut_after:
                    self.muted = True  # the server hears it all, and nobody hears the answer
                    asyncio.get_running_loop().call_later(0.3, writer.close)
                forth.write(data)
        except OSError:
            pass
        finally:
            answers.cancel()
            for end in (writer, forth):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async def _answers(self, back: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await back.read(65536):
            if not self.muted:
                writer.write(data)
        writer.close()


@asynccontextmanager
async def wire(url: str) -> AsyncIterator[tuple[Wire, str]]:
    parts = conninfo_to_dict(url)
    made = Wire(int(str(parts["port"])))
    listener = await asyncio.start_server(made.carry, "127.0.0.1", 0)
    parts.update(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
    yield made, make_conninfo("", **{name: str(value) for name, value in parts.items()})
    listener.close()
    await listener.wait_closed()
