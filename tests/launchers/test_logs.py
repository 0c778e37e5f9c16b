"""Logs are read by offset, in pieces that put together are the whole."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.ids import AttemptKey, RunKey, ScheduleId
from tidegate.launchers.attempts import Attempts
from tidegate.launchers.logs import FileLogs
from tidegate.launchers.places import ENDED
from tidegate.launchers.process import ProcessLauncher

from .helpers import SLOT, driving, run, shell

ATTEMPT = AttemptKey(RunKey(SLOT, ScheduleId(1), 0), 1)


@pytest.mark.requirement("RUN-8")
@given(text=st.text(min_size=1, max_size=60), limit=st.integers(4, 9), cut=st.integers(0, 200))
def test_the_pieces_of_a_growing_log_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, text: str, limit: int, cut: int
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = Attempts(home).make(ATTEMPT.identity) / "log"
    data = text.encode("utf-8", "replace")

    async def work() -> str:
        logs, offset, pieces = FileLogs(home), 0, []
        path.write_bytes(data[:cut])  # the writer may stop in the middle of a character
        for complete in (False, True):
            if complete:
                path.write_bytes(data)
                (path.parent / ENDED).touch()
            while True:
                chunk = await logs.read(ATTEMPT, offset, limit)
                pieces.append(chunk.text)
                if chunk.complete or chunk.next_offset == offset:
                    break
                offset = chunk.next_offset
            assert chunk.complete == complete
        return "".join(pieces)

    assert asyncio.run(work()) == data.decode()


def test_what_is_no_utf8_is_shown_as_such_and_stops_nothing(tmp_path: Path) -> None:
    directory = Attempts(tmp_path).make(ATTEMPT.identity)
    (directory / "log").write_bytes(b"a\xff\xfeb\xe2\x82")
    (directory / ENDED).touch()
    chunk = run(FileLogs(tmp_path).read(ATTEMPT, 0))
    assert (chunk.text, chunk.next_offset, chunk.complete) == ("a\ufffd\ufffdb\ufffd", 6, True)


@pytest.mark.requirement("RUN-8")
def test_a_command_can_be_followed_to_its_end(tmp_path: Path) -> None:
    launch = shell("echo one; sleep 0.2; echo two")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            logs, text, offset, seen_running = FileLogs(tmp_path), "", 0, False
            await driver.launcher.start(launch)
            async with asyncio.timeout(10):
                while not (chunk := await logs.read(launch.attempt, offset)).complete:
                    text, offset = text + chunk.text, chunk.next_offset
                    seen_running |= text == "one\n"
                    await asyncio.sleep(0.02)
            assert text + chunk.text == "one\ntwo\n"
            assert seen_running

    run(work())


def test_where_the_files_say_nothing_the_record_is_asked(tmp_path: Path) -> None:
    async def ended(attempt: AttemptKey) -> bool:
        return attempt == ATTEMPT

    assert not run(FileLogs(tmp_path).read(ATTEMPT, 0)).complete
    assert run(FileLogs(tmp_path, ended).read(ATTEMPT, 0)).complete


def test_old_logs_go_and_those_of_running_attempts_stay(tmp_path: Path) -> None:
    ended, running = shell("true"), shell("sleep 30")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            await driver.run(ended)
            await driver.launcher.start(running)
            logs = FileLogs(tmp_path)
            newest = 0
            for launch in (ended, running):
                directory = Attempts(tmp_path).directory(launch.identity)
                for path in (directory, directory / "log"):
                    newest = max(newest, os.stat(path).st_mtime_ns // 1000)
            assert await logs.remove_older(newest, age=60_000_000) == 0
            assert await logs.remove_older(newest + 120_000_000, age=60_000_000) == 1
            assert not Attempts(tmp_path).directory(ended.identity).exists()
            assert Attempts(tmp_path).log(running.identity).exists()
            from tidegate.ports.launching import StopHow

            await driver.launcher.stop(running.attempt, StopHow.KILL)
            await driver.end(running)

    run(work())
