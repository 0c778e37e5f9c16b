"""What a probe reads: from an address, a command, a cluster; and what it says when there is nothing to read."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.errors import Unavailable
from tidegate.domain.instants import MILLISECOND
from tidegate.launchers.answers import Beginning
from tidegate.launchers.probes import AllProbes, number_in
from tidegate.ports.probing import ProbeSpec, Reading

ANSWERS: dict[str, tuple[int, str]] = {
    "/plain": (200, " 12.5\n"),
    "/json": (200, json.dumps({"queues": [{"free/used": 3}]})),
    "/broken": (500, "7"),
    "/html": (200, "<html>"),
    "/long": (200, "1" * 2_000_000),
    "/master/json/": (200, json.dumps({"cores": 16, "coresused": 4, "status": "ALIVE"})),
    "/json/": (404, "no master"),
    "/ws/v1/cluster/metrics": (
        200,
        json.dumps({"clusterMetrics": {"totalVirtualCores": 8, "allocatedVirtualCores": 6}}),
    ),
}


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/packed":
            assert self.headers["Accept-Encoding"] == "gzip, deflate"
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(b'{"n": 7}'))
            return
        if self.path == "/secret":
            status, body = (200, "1") if self.headers.get("Authorization") == "Bearer abc" else (401, "")
        else:
            status, body = ANSWERS[self.path]
        self.send_response(status)
        self.end_headers()
        try:
            self.wfile.write(body.encode())
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


def read(**specs: ProbeSpec) -> dict[str, Reading]:
    return dict(asyncio.run(AllProbes(specs).read(list(specs))))


@pytest.mark.requirement("GATE-7")
def test_a_number_is_read_from_an_address_plain_or_by_a_pointer_into_json(server: str) -> None:
    found = read(
        plain=ProbeSpec(type="http", url=f"{server}/plain"),
        json=ProbeSpec(type="http", url=f"{server}/json", value="/queues/0/free~1used"),
        packed=ProbeSpec(type="http", url=f"{server}/packed", value="/n"),
    )
    assert found == {"plain": Reading(12.5), "json": Reading(3.0), "packed": Reading(7.0)}


@pytest.mark.requirement("GATE-7")
def test_the_cores_in_use_are_read_from_a_standalone_master_and_from_yarn(server: str) -> None:
    found = read(
        master=ProbeSpec(type="spark", master=f"{server}/master/json/"),
        yarn=ProbeSpec(type="spark", master=server),
    )
    assert found == {"master": Reading(25.0), "yarn": Reading(75.0)}


@pytest.mark.requirement("GATE-7")
def test_a_number_is_read_from_what_a_command_prints() -> None:
    script = "import json; print(json.dumps({'lag': 7}))"
    found = read(
        plain=ProbeSpec(type="command", argv=("echo", "42")),
        json=ProbeSpec(type="command", argv=(sys.executable, "-c", script), value="/lag"),
    )
    assert found == {"plain": Reading(42.0), "json": Reading(7.0)}


def test_a_secret_of_the_environment_goes_along_as_a_header(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = ProbeSpec(type="http", url=f"{server}/secret", headers={"Authorization": "env:PROBE_TOKEN"})
    assert "PROBE_TOKEN, which is not set" in read(one=probe)["one"].error
    monkeypatch.setenv("PROBE_TOKEN", "Bearer abc")
    assert read(one=probe)["one"] == Reading(1.0)


@pytest.mark.requirement("GATE-7")
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"type": "http", "url": "{}/broken"}, "it answered 500", id="error_status"),
        pytest.param({"type": "http", "url": "{}/html"}, "'<html>' is no number", id="no_number"),
        pytest.param({"type": "http", "url": "{}/html", "value": "/a"}, "it did not answer JSON", id="no_json"),
        pytest.param({"type": "http", "url": "{}/json", "value": "/queues/1"}, "has no /queues/1", id="nothing_there"),
        pytest.param({"type": "http", "url": "{}/json", "value": "/queues"}, "is no number", id="a_list"),
        pytest.param({"type": "http", "url": "{}/long"}, "more than 1000000 bytes", id="endless"),
        pytest.param({"type": "http", "url": "http://127.0.0.1:1/"}, "ConnectError", id="nobody_there"),
        pytest.param({"type": "spark", "master": "{}/json"}, "does not say how many cores", id="no_master"),
        pytest.param({"type": "command", "argv": ("no-such-command",)}, "cannot be started", id="no_command"),
        pytest.param(
            {"type": "command", "argv": ("sh", "-c", "echo no >&2; exit 3")}, "ended with 3: no", id="failing"
        ),
        pytest.param({"type": "command", "argv": ("yes",)}, "yes printed more than 1000000 bytes", id="endless_output"),
        pytest.param(
            {"type": "command", "argv": ("sh", "-c", "yes | head -c 9000000 >&2; echo no >&2; exit 3")},
            "ended with 3: no",
            id="much_complaint",
        ),
        pytest.param(
            {"type": "command", "argv": ("sh", "-c", "head -c 900000 /dev/zero | tr '\\0' x")},
            f"'{'x' * 76}... is no number",
            id="long_output",
        ),
        pytest.param({"type": "command", "argv": ("echo", "nan")}, "'nan' is no number", id="nan"),
        pytest.param({"type": "command", "argv": ("true",)}, "'' is no number", id="silent"),
    ],
)
def test_a_probe_without_a_number_says_why(server: str, spec: dict[str, object], says: str) -> None:
    told = {key: value.format(server) if isinstance(value, str) else value for key, value in spec.items()}
    [found] = read(one=ProbeSpec(**told)).values()  # type: ignore[arg-type]
    assert found.value is None and says in found.error


def test_a_probe_that_hangs_holds_up_no_other_and_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hanging = ("sh", "-c", f"sleep 60 & echo $! > {pids}; echo $$ >> {pids}; wait")
    began = time.monotonic()
    found = read(
        hanging=ProbeSpec(type="command", argv=hanging, timeout=500 * MILLISECOND),
        good=ProbeSpec(type="command", argv=("echo", "1")),
    )
    assert found["good"] == Reading(1.0)
    assert found["hanging"].error == "it did not answer within PT0.5S"
    assert time.monotonic() - began < 5
    left = [int(pid) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    assert all(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in left)


def test_what_a_probe_leaves_behind_with_its_output_holds_up_nobody(tmp_path: Path) -> None:
    """It left its group of processes, so that it outlives the look, and holds the pipes open."""
    pid = tmp_path / "pid"
    script = f"setsid sleep 60 & echo $! > {pid}; echo 1"
    try:
        began = time.monotonic()
        found = read(one=ProbeSpec(type="command", argv=("sh", "-c", script), timeout=500 * MILLISECOND))
        assert found["one"].error == "it did not answer within PT0.5S"
        assert time.monotonic() - began < 30
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_of_an_answer_no_more_is_kept_and_unpacked_than_is_wanted(pack: Callable[[bytes], bytes]) -> None:
    encoding = {bytes: "", gzip.compress: "gzip", zlib.compress: "Deflate"}[pack]
    travelled = pack(b"7" * 20_000_000)
    tracemalloc.start()
    beginning = Beginning(encoding, 1000)
    for first in range(0, len(travelled), 65536):
        beginning.take(travelled[first : first + 65536])
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert (bytes(beginning.body), beginning.more, beginning.broken) == (b"7" * 1000, True, False)
    whole = Beginning(encoding, 1000)
    for byte in pack(b"12345"):
        whole.take(bytes([byte]))
    assert (bytes(whole.body), whole.more, whole.broken) == (b"12345", False, False)


def test_an_answer_that_cannot_be_unpacked_is_told() -> None:
    beginning = Beginning("gzip", 1000)
    beginning.take(b"no gzip")
    assert beginning.broken and not beginning.body


@given(st.binary(max_size=30), st.sampled_from(["", "/", "/a", "/0/b"]))
def test_whatever_is_answered_is_a_finite_number_or_an_error_of_ours(answer: bytes, pointer: str) -> None:
    try:
        found = number_in(answer, pointer)
    except Unavailable:
        return
    assert abs(found) < float("inf")
