"""Probes: a number from an HTTP answer, from what a command prints, or from a Spark cluster's own pages."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

import httpx

from tidegate.domain.errors import Refused, Unavailable
from tidegate.domain.instants import SECOND, Duration, format_duration
from tidegate.domain.variables import looked_up
from tidegate.launchers.answers import PACKED, Beginning
from tidegate.ports.probing import Probe, ProbeSpec, Reading

LONGEST = 1_000_000
"""Bytes of an answer; more is no answer."""
_COMPLAINT = 4096
"""Bytes of what a command prints on standard error, from the end."""


class AllProbes:
    """`ports.probing.Probes` of some specifications."""

    def __init__(self, specs: Mapping[str, ProbeSpec]) -> None:
        self._specs = specs
        self._probes = {name: probe_of(spec) for name, spec in specs.items()}

    @property
    def every(self) -> Mapping[str, Duration]:
        return {name: spec.every for name, spec in self._specs.items()}

    async def read(self, names: Collection[str]) -> Mapping[str, Reading]:
        found = await asyncio.gather(*(self._read(name) for name in names))
        return dict(zip(names, found, strict=True))

    async def _read(self, name: str) -> Reading:
        timeout = self._specs[name].timeout
        try:
            return Reading(await asyncio.wait_for(self._probes[name].read(), timeout / SECOND))
        except TimeoutError:
            return Reading(None, f"it did not answer within {format_duration(timeout)}")
        except Unavailable as fault:
            return Reading(None, str(fault))
        except Exception as fault:  # whatever a probe does wrong, the others are read
            return Reading(None, f"{type(fault).__name__}: {fault}")


def probe_of(spec: ProbeSpec) -> Probe:
    """The probe that a specification means."""
    match spec.type:
        case "http":
            return HttpProbe(spec)
        case "command":
            return CommandProbe(spec)
        case "spark":
            return SparkProbe(spec)
    raise ValueError(f"no such type of probe: {spec.type}")


class HttpProbe:
    """What a GET answers."""

    def __init__(self, spec: ProbeSpec) -> None:
        self._spec = spec

    async def read(self) -> float:
        return number_in(await fetch(self._spec.url, self._spec.headers), self._spec.value)


class CommandProbe:
    """What a command prints on standard output. Never given to a shell; it and what it started end with the look."""

    def __init__(self, spec: ProbeSpec) -> None:
        self._spec = spec

    async def read(self) -> float:
        loop = asyncio.get_running_loop()
        try:
            transport, look = await loop.subprocess_exec(
                lambda: _Look(loop), *self._spec.argv, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        except OSError as fault:
            raise Unavailable(f"{self._spec.argv[0]} cannot be started: {fault.strerror or fault}") from None
        try:
            await look.over
        finally:
            with suppress(ProcessLookupError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
            transport.close()  # what escaped may hold the pipes as long as it likes
            await look.ended.wait()
        if len(look.printed) > LONGEST:
            raise Unavailable(f"{self._spec.argv[0]} printed more than {LONGEST} bytes")
        if status := transport.get_returncode():
            said = look.complaint.decode("utf-8", "replace").strip().splitlines()
            raise Unavailable(f"{self._spec.argv[0]} ended with {status}{': ' + said[-1] if said else ''}")
        return number_in(bytes(look.printed), self._spec.value)


class _Look(asyncio.SubprocessProtocol):
    """What a command prints: `LONGEST` bytes and one part more at most, and the end of its complaints."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.printed = bytearray()
        self.complaint = b""
        self.over: asyncio.Future[None] = loop.create_future()
        """It has ended and all was read, or it printed too much."""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self.complaint = (self.complaint + data)[-_COMPLAINT:]
        elif len(self.printed) <= LONGEST:
            self.printed += data
            if len(self.printed) > LONGEST:
                self._done()

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, fault: Exception | None) -> None:
        self._done()

    def _done(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class SparkProbe:
    """Percent of a cluster's cores that are in use: of a standalone master, or of YARN."""

    def __init__(self, spec: ProbeSpec) -> None:
        self._spec = spec
        self._url = httpx.URL(spec.master)

    async def read(self) -> float:
        if self._url.path not in ("", "/"):
            found = _json(await fetch(str(self._url), self._spec.headers))
        else:
            try:
                found = _json(await fetch(str(self._url.copy_with(path="/json/")), self._spec.headers))
            except Unavailable:  # no standalone master
                found = _json(await fetch(str(self._url.copy_with(path="/ws/v1/cluster/metrics")), self._spec.headers))
        return used_cores(found)


def used_cores(found: Any) -> float:
    """Percent, from what a standalone master (`/json/`) or YARN (`/ws/v1/cluster/metrics`) says of itself. A cluster
    without a core is full."""
    metrics = found.get("clusterMetrics") if isinstance(found, dict) else None
    match metrics or found:
        case {"cores": int(cores), "coresused": int(used)}:
            pass
        case {"totalVirtualCores": int(cores), "allocatedVirtualCores": int(used)}:
            pass
        case _:
            raise Unavailable("it does not say how many cores it has and uses; is it a Spark master or YARN?")
    return 100.0 * used / cores if cores > 0 else 100.0


async def fetch(url: str, headers: Mapping[str, str]) -> bytes:
    """The body of a good answer. Raises Unavailable."""
    told = httpx.Headers({"Accept-Encoding": PACKED})
    told.update(_told(headers))
    try:
        async with httpx.AsyncClient(timeout=None, headers=told) as client:
            async with client.stream("GET", url) as answer:
                if not answer.is_success:
                    raise Unavailable(f"it answered {answer.status_code}")
                read = Beginning(answer.headers.get("Content-Encoding", ""), LONGEST)
                async for part in answer.aiter_raw():
                    read.take(part)
                    if read.more:
                        raise Unavailable(f"it answered more than {LONGEST} bytes")
                    if read.broken:
                        raise Unavailable("its answer cannot be unpacked")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
        raise Unavailable(f"{type(fault).__name__}: {fault}") from None
    return bytes(read.body)


def _told(headers: Mapping[str, str]) -> dict[str, str]:
    """With the values of environment variables filled in."""
    try:
        return {
            name: looked_up(value, os.environ, f"header {name}", "the scheduler") for name, value in headers.items()
        }
    except Refused as fault:
        raise Unavailable(fault.message) from None


# ── the number in an answer ────────────────────────────────────────────────────────────────────────────────────────


def number_in(answer: bytes, pointer: str) -> float:
    """The number that a JSON pointer means, or that the whole answer is. Raises Unavailable."""
    if not pointer:
        return _finite(answer.decode("utf-8", "replace").strip())
    found = _json(answer)
    for part in pointer.removeprefix("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        match found:
            case dict() if key in found:
                found = found[key]
            case list() if key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            case _:
                raise Unavailable(f"its answer has no {pointer}")
    return _finite(found)


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise Unavailable(f"it did not answer JSON but {_short(answer.decode('utf-8', 'replace'))}") from None


def _finite(found: Any) -> float:
    try:
        number = math.nan if isinstance(found, bool) or not isinstance(found, str | int | float) else float(found)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise Unavailable(f"{_short(found)} is no number")
    return number


def _short(found: Any) -> str:
    text = repr(found[:80] if isinstance(found, str) else found)  # what is copied may be long
    return text if len(text) <= 80 else text[:77] + "..."
