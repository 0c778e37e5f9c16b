"""Pooled Python functions: quick, each with its own log, lost by nobody's death but their own host's."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tidegate.domain.errors import Fenced, LaunchRefused
from tidegate.domain.ids import AttemptKey
from tidegate.launchers.attempts import Attempts
from tidegate.launchers.logs import FileLogs
from tidegate.launchers.pool_link import who
from tidegate.launchers.processes import alive
from tidegate.launchers.python_pool import PythonPoolLauncher
from tidegate.ports.launching import Phase, StopHow

from .helpers import Driver, driving, function, log_of, run

ROOT = Path(__file__).parents[2]
PROGRAMS = """
import os, subprocess, sys, time
from pathlib import Path

def noop(): pass
def touch(path): open(path, "a").write("x")
def see(run, region, n=1):
    print(run.id, run.attempt, run.fence, run.fire_time.isoformat(), region, n, dict(run.arguments))
def annotated(it: "Run"): print(it.schedule)
async def later(): print("awaited")
def talk(run):
    print("one")
    subprocess.run(["echo", "two"])
    print("three", file=sys.stderr)
    os.write(1, b"four\\n")
    run.log.info("five")
def slow(seconds=60.0): time.sleep(seconds)
def patient(run, path):
    try:
        open(path + ".begun", "w").close()
        time.sleep(60)
    except BaseException:
        open(path, "w").write(str(run.cancelled))
        raise
def deaf():
    while True:
        try:
            print("deaf")
            time.sleep(60)
        except BaseException:
            pass
def family(number):
    subprocess.Popen(["setsid", "sleep", number])
    subprocess.run(["sleep", number])
def boom(): raise ValueError("no such carrier: ü")
def leave(code=None): sys.exit(code)
def die(): os.kill(os.getpid(), 11)
def secret(): print(os.environ["TOKEN"])
def follow(path):
    print("begun")
    while not os.path.exists(path): time.sleep(0.01)
def below(path):
    subprocess.run(["sh", "-c", "echo from below; while [ ! -e " + path + " ]; do sleep 0.01; done"])
def much(): print("x" * 20_000_000)
"""


@pytest.fixture
def programs(tmp_path: Path) -> str:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS)
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose hosts are gone afterwards, whatever the test did."""
    home = tmp_path / "home"
    home.mkdir()
    yield home
    for directory in home.glob("pools/*"):
        if (told := who(directory)) is not None and alive(told[0]):
            os.kill(told[0].pid, signal.SIGKILL)


def host_of(driver: Driver) -> int:
    (link,) = driver.launcher._links  # type: ignore[attr-defined]
    return int(link.ref.pid)


@pytest.mark.requirement("RUN-6")
def test_a_function_gets_its_run_and_arguments(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            seen = function(f"{programs}:see", arguments={"region": "eu"})
            assert (await driver.run(seen)).outcome == "succeeded"
            run_id = seen.attempt.run
            assert log_of(home, seen) == f"{run_id} 1 41 2026-03-29T00:00:00+00:00 eu 1 {{'region': 'eu'}}\n"
            for name, said in (("annotated", "orders\n"), ("later", "awaited\n")):
                launch = function(f"{programs}:{name}")
                assert (await driver.run(launch)).outcome == "succeeded"
                assert log_of(home, launch) == said

    run(work())


@pytest.mark.requirement("RUN-6")
@pytest.mark.parametrize(
    ("entry", "arguments", "code", "says"),
    [
        ("no_such_package.jobs:load", {}, "program.import", ["no_such_package", "Searched", "install"]),
        ("PROGRAMS:absent", {}, "program.import", ["absent", "programs.py"]),
        ("/no/such/file.py:load", {}, "program.import", ["/no/such/file.py"]),
        ("PROGRAMS:see", {}, "program.arguments", ["'region'"]),
        ("PROGRAMS:noop", {"x": 1}, "program.arguments", ["'x'"]),
        ("PROGRAMS:boom", {}, "program.error", ["ValueError", "no such carrier: ü"]),
        ("PROGRAMS:leave", {"code": 3}, "program.exit", ["3"]),
        ("PROGRAMS:leave", {"code": "gave up"}, "program.exit", ["gave up"]),
    ],
)
def test_each_failure_has_its_code_and_says_what_to_do(
    home: Path, programs: str, entry: str, arguments: dict[str, object], code: str, says: list[str]
) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            launch = function(entry.replace("PROGRAMS", programs), arguments=arguments)
            report = await driver.run(launch)
            assert (report.phase, report.outcome, report.error["code"]) == (Phase.FINISHED, "failed", code)
            assert all(word in report.error["message"] for word in says)
            if code == "program.error":
                assert "Traceback" in log_of(home, launch)
                assert "python_host" not in log_of(home, launch), "the traceback begins with the user's line"
            assert (await driver.run(function(f"{programs}:leave"))).outcome == "succeeded"
            assert (await driver.run(function(f"{programs}:leave", arguments={"code": 0}))).outcome == "succeeded"

    run(work())


@pytest.mark.requirement("RUN-8")
def test_all_that_a_function_says_is_in_its_log_in_order_and_a_silent_one_has_none(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            talk, noop = function(f"{programs}:talk"), function(f"{programs}:noop")
            await driver.launcher.start(talk)
            await driver.launcher.start(noop)
            assert (await driver.end(talk)).outcome == "succeeded"
            assert (await driver.end(noop)).outcome == "succeeded"
            lines = log_of(home, talk).splitlines()
            assert lines[:4] == ["one", "two", "three", "four"]
            assert lines[4].endswith("tidegate.run: five")
            assert not Attempts(home).directory(noop.identity).exists()
            assert (await FileLogs(home).read(talk.attempt, 0)).complete
            much = function(f"{programs}:much")
            assert (await driver.run(much)).outcome == "succeeded"
            assert Attempts(home).log(much.identity).stat().st_size == 20_000_001

    run(work())


@pytest.mark.requirement("RUN-8")
@pytest.mark.parametrize(("name", "said"), [("follow", "begun\n"), ("below", "from below\n")])
def test_a_log_can_be_followed_while_it_grows(home: Path, programs: str, name: str, said: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            launch = function(f"{programs}:{name}", arguments={"path": str(home / "go")})
            await driver.launcher.start(launch)
            logs = FileLogs(home)
            async with asyncio.timeout(5):
                while not (chunk := await logs.read(launch.attempt, 0)).text:
                    await asyncio.sleep(0.02)
            assert (chunk.text, chunk.complete) == (said, False)
            (home / "go").touch()
            await driver.end(launch)
            assert (await logs.read(launch.attempt, chunk.next_offset)).complete

    run(work())


def test_a_secret_is_in_the_functions_environment_only(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1, environment={"VAULT": "s3cret"})) as driver:
            launch = function(f"{programs}:secret", environment={"TOKEN": "env:VAULT"})
            assert (await driver.run(launch)).outcome == "succeeded"
            assert log_of(home, launch) == "s3cret\n"
            assert (await driver.run(function(f"{programs}:secret"))).error["message"] == "KeyError: 'TOKEN'"
            with pytest.raises(LaunchRefused, match="ABSENT"):
                await driver.launcher.start(function(f"{programs}:secret", environment={"TOKEN": "env:ABSENT"}))
            files = [path for path in (home / "pools").rglob("*") if path.is_file()]
            assert not any(b"s3cret" in path.read_bytes() for path in files if path.name != "spool")

    run(work())


@pytest.mark.requirement("RUN-9")
def test_a_polite_stop_interrupts_the_function(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            launch = function(f"{programs}:patient", arguments={"path": str(home / "saw")})
            await driver.launcher.start(launch)
            await driver.running(launch)
            pid = host_of(driver)
            while not (home / "saw.begun").exists():
                await asyncio.sleep(0.01)
            await driver.launcher.stop(launch.attempt, StopHow.POLITE)
            assert (await driver.end(launch)).outcome == "cancelled"
            assert (home / "saw").read_text() == "True"
            assert (await driver.run(function(f"{programs}:noop"))).outcome == "succeeded"
            assert host_of(driver) == pid, "the host lives on"

    run(work())


@pytest.mark.requirement("RUN-9")
def test_a_kill_ends_a_deaf_function_and_gives_the_others_back_unharmed(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            deaf, noop = function(f"{programs}:deaf"), function(f"{programs}:noop")
            await driver.launcher.start(deaf)
            await driver.launcher.start(noop)
            while not Attempts(home).log(deaf.identity).exists():
                await asyncio.sleep(0.01)
            await driver.launcher.stop(deaf.attempt, StopHow.POLITE)
            await asyncio.sleep(0.1)
            assert (await driver.launcher.poll([deaf.attempt]))[0].phase is Phase.RUNNING
            await driver.launcher.stop(deaf.attempt, StopHow.KILL)
            assert (await driver.end(deaf)).outcome == "cancelled"
            assert (await driver.end(noop)).outcome == "succeeded"

    run(work())


@pytest.mark.requirement("RUN-9")
def test_a_kill_takes_what_the_function_had_started(home: Path, programs: str) -> None:
    number = str(600_000 + os.getpid())

    def sleepers() -> list[int]:
        found = []
        for process in psutil.process_iter():
            try:
                if number in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            launch = function(f"{programs}:family", arguments={"number": number})
            await driver.launcher.start(launch)
            while len(sleepers()) < 2:
                await asyncio.sleep(0.02)
            await driver.launcher.stop(launch.attempt, StopHow.KILL)
            assert (await driver.end(launch)).outcome == "cancelled"
            assert not sleepers()

    run(work())


@pytest.mark.requirement("RUN-9")
def test_what_has_not_begun_is_stopped_without_a_trace(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            slow, queued = (
                function(f"{programs}:slow"),
                function(f"{programs}:touch", arguments={"path": str(home / "t")}),
            )
            await driver.launcher.start(slow)
            await driver.running(slow)
            await driver.launcher.start(queued)
            await asyncio.sleep(0.1)
            assert (await driver.launcher.poll([queued.attempt]))[0].phase is Phase.STARTING
            for launch in (queued, slow):
                await driver.launcher.stop(launch.attempt, StopHow.POLITE)
                assert (await driver.end(launch)).outcome == "cancelled"
            assert not (home / "t").exists()

    run(work())


@pytest.mark.requirement("FAIL-3")
def test_a_host_that_dies_loses_only_what_it_was_running(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            path = home / "touched"
            before = [function(f"{programs}:touch", arguments={"path": str(path)}) for _ in range(5)]
            dies = function(f"{programs}:die")
            after = [function(f"{programs}:touch", arguments={"path": str(path)}) for _ in range(5)]
            for launch in [*before, dies, *after]:
                await driver.launcher.start(launch)
            assert (await driver.end(dies)).phase is Phase.GONE
            for launch in before + after:
                assert (await driver.end(launch)).outcome == "succeeded"
            assert path.read_text() == "x" * 10, "each ran once"
            await driver.launcher.forget([launch.attempt for launch in [*before, dies, *after]])
            assert len(list((home / "pools").iterdir())) == 1, "nothing is kept of the dead one"

    run(work())


@pytest.mark.slow
def test_a_small_function_does_not_wait_behind_a_long_one(home: Path, programs: str) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 2)) as driver:
            slow = function(f"{programs}:slow")
            quick = [function(f"{programs}:noop") for _ in range(20)]
            for launch in [slow, *quick]:
                await driver.launcher.start(launch)
            for launch in quick:
                assert (await driver.end(launch, patience=5)).outcome == "succeeded"
            await driver.running(slow)

    run(work())


@pytest.mark.slow
def test_there_are_never_more_hosts_than_allowed(home: Path, programs: str) -> None:
    async def work() -> None:
        launcher = PythonPoolLauncher(home, 2)
        async with driving(launcher) as driver:
            launches = [function(f"{programs}:slow", arguments={"seconds": 0.1}) for _ in range(12)]
            for launch in launches:
                await launcher.start(launch)
            for launch in launches:
                await driver.end(launch)
                assert len(launcher._links) <= 2
            assert len(launcher._links) == 2

    run(work())


@pytest.mark.slow
def test_a_changed_source_is_read_anew(home: Path, tmp_path: Path) -> None:
    module, helper = tmp_path / "job.py", tmp_path / "helping.py"
    helper.write_text("WORD = 'one'\n")
    module.write_text("import helping\ndef say(): print(helping.WORD)\n")

    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            for word in ("one", "two", "six"):
                helper.write_text(f"WORD = '{word}'\n")
                launch = function(f"{module}:say")
                assert (await driver.run(launch)).outcome == "succeeded"
                assert log_of(home, launch) == f"{word}\n"
                await asyncio.sleep(0.15)
            module.write_text("def say(: pass")
            assert (await driver.run(function(f"{module}:say"))).error["code"] == "program.import"
            module.write_text("def say(): print('mended')\n")
            assert (await driver.run(function(f"{module}:say"))).outcome == "succeeded"

    run(work())


@pytest.mark.requirement("RUN-5")
def test_an_identity_begins_once_and_a_zombie_finds_the_seal(home: Path, programs: str) -> None:
    async def work() -> None:
        zombie, successor = PythonPoolLauncher(home, 1), PythonPoolLauncher(home, 1)
        async with driving(zombie) as driver, driving(successor) as other:
            path = str(home / "touched")
            await driver.run(function(f"{programs}:noop"))
            late = function(f"{programs}:touch", arguments={"path": path})
            assert await successor.seal(late) is None
            with pytest.raises(Fenced):
                await zombie.start(late)
            # started, but still in the zombie's memory when it froze
            frozen = function(f"{programs}:touch", arguments={"path": path})
            await zombie.start(frozen)
            held, zombie._soon = zombie._queue.copy(), True
            zombie._queue.clear()
            await asyncio.sleep(0)
            assert await successor.seal(frozen) is None
            zombie._queue.extend(held)
            zombie._distribute()
            report = await driver.end(frozen)
            assert (report.outcome, report.error["code"]) == ("lost", "fenced")
            assert not (home / "touched").exists()
            ran = function(f"{programs}:touch", arguments={"path": path})
            for _ in range(3):
                await zombie.start(ran)
            await driver.end(ran)
            found = await successor.seal(ran)
            assert (found.phase, found.outcome) == (Phase.FINISHED, "succeeded")
            assert (await other.end(ran)).outcome == "succeeded"
            assert (home / "touched").read_text() == "x"

    run(work())


WORKER = """
import asyncio, sys
from pathlib import Path
from tests.launchers.helpers import Driver, function
from tidegate.launchers.python_pool import PythonPoolLauncher
async def main():
    home, programs, touched = sys.argv[1:]
    launcher = PythonPoolLauncher(Path(home), 1)
    await launcher.open()
    driver = Driver(launcher)
    begun = function(programs + ":slow", order=2001, arguments={"seconds": 0.7})
    await launcher.start(begun)
    await launcher.start(function(programs + ":touch", order=2002, arguments={"path": touched}))
    await driver.running(begun)
    print("running", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.requirement("RUN-5", "RUN-4")
@pytest.mark.parametrize("wait", [0.0, 1.0], ids=["adopted_while_it_runs", "ended_while_nobody_lived"])
def test_a_function_survives_the_worker_and_is_adopted(home: Path, programs: str, wait: float) -> None:
    touched = str(home / "touched")
    arguments = [sys.executable, "-c", WORKER, str(home), programs, touched]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"running\n"
        worker.kill()
    time.sleep(wait)
    begun = function(f"{programs}:slow", order=2001, arguments={"seconds": 0.7})
    queued = function(f"{programs}:touch", order=2002, arguments={"path": touched})

    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            found = await driver.launcher.seal(begun)
            assert found.phase is (Phase.FINISHED if wait else Phase.RUNNING)
            # Given to the host or still in the dead worker's memory: it runs once, or is sealed and never does.
            report = await driver.launcher.seal(queued)
            assert (await driver.end(begun)).outcome == "succeeded"
            ran = report is not None and (await driver.end(queued)).outcome == "succeeded"
            assert (home / "touched").exists() == ran

    run(work())


@pytest.mark.requirement("RUN-5")
def test_host_and_worker_may_both_die(home: Path, programs: str) -> None:
    async def work() -> None:
        first = PythonPoolLauncher(home, 1)
        await first.open()
        driver = Driver(first)
        done, running = function(f"{programs}:noop"), function(f"{programs}:slow")
        await driver.run(done)
        await first.start(running)
        await driver.running(running)
        pid = host_of(driver)
        await first.close()
        os.kill(pid, signal.SIGKILL)
        async with driving(PythonPoolLauncher(home, 1)) as other:
            assert (await other.launcher.seal(done)).outcome == "succeeded"
            assert (await other.launcher.seal(running)).phase is Phase.GONE
            assert await other.launcher.seal(function(f"{programs}:noop")) is None
            await other.launcher.forget([done.attempt, running.attempt])
            assert not list((home / "pools").iterdir())

    run(work())


def test_hosts_that_cannot_come_up_are_given_up_with_a_word(
    home: Path, programs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")

    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            report = await driver.run(function(f"{programs}:noop"))
            assert (report.outcome, report.error["code"]) == ("lost", "python.host")

    run(work())


def test_a_deep_home_has_room_for_its_sockets(tmp_path: Path, programs: str) -> None:
    home = tmp_path / ("deep" * 20) / ("home" * 20)
    home.mkdir(parents=True)

    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver, driving(PythonPoolLauncher(home, 1)) as other:
            launch = function(f"{programs}:slow", arguments={"seconds": 0.3})
            await driver.launcher.start(launch)
            await driver.running(launch)
            assert (await other.launcher.seal(launch)).phase is Phase.RUNNING
            assert (await other.end(launch)).outcome == "succeeded"

    run(work())


def test_an_unknown_attempt_is_left_out_of_a_poll(home: Path) -> None:
    async def work() -> None:
        async with driving(PythonPoolLauncher(home, 1)) as driver:
            unknown: AttemptKey = function("a:b").attempt
            assert await driver.launcher.poll([unknown]) == []
            await driver.launcher.stop(unknown, StopHow.KILL)
            await driver.launcher.forget([unknown])

    run(work())
