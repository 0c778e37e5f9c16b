"""A catalog that was silent is heard again when it answers, and its silence holds up nobody else."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from waiting import comes
from wires import wire

from tidegate.domain.errors import Unavailable
from tidegate.lake import catalogs, readers, surveying
from tidegate.lake.catalogs import JdbcCatalog, RestCatalog
from tidegate.ports.lake import CatalogSpec
from tidegate.ports.postgres import watchful

pytestmark = pytest.mark.anyio
SILENCES = 12
"""More than there are threads in the event loop's own pool on a machine with few cores, or in a REST catalog's."""


def threads(name: str) -> int:
    return sum(one.name.startswith(f"catalog-{name}") for one in threading.enumerate())


async def answers(asked: Awaitable[object]) -> bool:
    try:
        await asked
    except Unavailable:
        return False
    return True


@pytest.mark.requirement("LAKE-1")
async def test_a_database_that_swallowed_a_question_is_heard_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "PATIENCE", 0.1)
    async with wire(database_url) as (cable, url):
        catalog = JdbcCatalog(CatalogSpec(name="mute", kind="jdbc", url=url, schema="lake"))
        async with asyncio.timeout(60):
            while not await answers(catalog.tables()):
                pass
            for _ in range(SILENCES):
                cable.muted = True
                with pytest.raises(Unavailable, match="'mute' does not answer"):
                    await catalog.tables()
                cable.muted = False
            monkeypatch.setattr(catalogs, "PATIENCE", 10.0)
            assert await answers(catalog.tables())
            assert await asyncio.to_thread(lambda: "free") == "free"
        await catalog.close()
        await comes(lambda: threads("mute") == 0)


async def test_what_a_url_says_itself_of_a_connection_stays() -> None:
    assert watchful("host=h") == {
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    assert "connect_timeout" not in watchful("host=h connect_timeout=60")
    with pytest.raises(psycopg.ProgrammingError):
        watchful("no address")


@pytest.mark.parametrize("module", [readers, surveying], ids=["reading", "measuring"])
async def test_storage_that_does_not_answer_takes_no_thread_that_all_share(
    monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    begun, answered = threading.Event(), threading.Event()

    def hang(orders: Sequence[Any]) -> Sequence[Any]:
        begun.set()
        answered.wait(60)
        return orders

    monkeypatch.setattr(module, "_read_all" if module is readers else "survey_all", hang)
    local = readers.LocalReader() if module is readers else surveying.LocalSurveyor()
    asked = getattr(local, "read" if module is readers else "survey")
    with ThreadPoolExecutor(1) as shared:
        asyncio.get_running_loop().set_default_executor(shared)
        reading = asyncio.create_task(asked(["table"]))
        await comes(begun.is_set, 30)
        try:
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 30) == "free"
        finally:
            answered.set()
        assert await reading == ["table"]
    await local.close()


class Rest:
    """A REST catalog without a table, which does not answer while it is told to be silent."""

    def __init__(self) -> None:
        self.speaking = threading.Event()
        self.speaking.set()


@contextmanager
def rest() -> Iterator[tuple[Rest, str]]:
    made = Rest()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not made.speaking.is_set():
                made.speaking.wait(60)
                self.close_connection = True
                return  # what was asked meanwhile is lost
            status, said = 200, {"defaults": {}, "overrides": {}}
            if "/config" not in self.path:
                status, said = 404, {"error": {"message": "none", "type": "NoSuchTableException", "code": 404}}
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made, f"http://127.0.0.1:{server.server_port}"
    finally:
        made.speaking.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.requirement("LAKE-1")
async def test_a_rest_catalog_that_swallowed_questions_is_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "REQUEST", 3.0, raising=False)
    asked = {f"mute.raw.table{number}": "x" for number in range(SILENCES)}
    with rest() as (server, uri):
        catalog = RestCatalog(CatalogSpec(name="mute", kind="rest", properties={"uri": uri}))
        async with asyncio.timeout(60):
            while not await answers(catalog.compare(asked)):
                pass
            server.speaking.clear()
            with monkeypatch.context() as patched:
                patched.setattr(catalogs, "PATIENCE", 0.1)
                for _ in range(3):  # the first silence is of tables, the others of the catalog itself
                    assert not await answers(catalog.compare(asked))
            await comes(lambda: threads("mute") == 0)  # nobody lets go of them: what hangs ends by itself
            server.speaking.set()
            while not await answers(catalog.compare(asked)):
                pass
        await catalog.close()
