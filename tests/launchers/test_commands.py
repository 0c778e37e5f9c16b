"""Commands are real processes: how they end is known, whoever lives, and what was stopped is gone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from waiting import comes

from tidegate.domain.errors import Fenced, LaunchRefused
from tidegate.launchers import shim
from tidegate.launchers.attempts import Attempts, Claim
from tidegate.launchers.logs import FileLogs
from tidegate.launchers.process import ProcessLauncher
from tidegate.launchers.processes import ProcessRef, alive, ref_of, send, start_of, this_boot
from tidegate.pipeline.claims import take_claim
from tidegate.ports.launching import Phase, StopHow

from .helpers import command, driving, function, log_of, run, shell


def marked(word: str) -> list[psutil.Process]:
    """Living processes with this word in their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and word in process.cmdline():
                found.append(process)
    return found


@pytest.mark.requirement("RUN-6")
@pytest.mark.parametrize("status", [0, 1, 7, 127, 137, 143, 200, 255])
def test_an_exit_status_is_told_as_it_was(tmp_path: Path, status: int) -> None:
    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            report = await driver.run(shell(f"exit {status}"))
            assert report.phase is Phase.FINISHED
            if status == 0:
                assert (report.outcome, report.error) == ("succeeded", None)
            else:
                assert report.outcome == "failed"
                assert report.error["code"] == "program.exit"
                assert report.error["exit_status"] == status

    run(work())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_death_by_a_signal_is_no_exit_status(tmp_path: Path, number: signal.Signals) -> None:
    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            report = await driver.run(shell(f"kill -{int(number)} $$"))
            assert report.outcome == "failed"
            assert report.error["code"] == "program.signal"
            assert number.name in report.error["message"]

    run(work())


@pytest.mark.requirement("RUN-6", "TIME-7")
def test_a_command_gets_exactly_the_declared_environment(tmp_path: Path) -> None:
    worker = {
        "PATH": os.environ["PATH"],
        "HOME": "/nowhere",
        "TIDEGATE_FIRE_TIME": "of another run",
        "TIDEGATE_DATABASE_URL": "postgresql://secret",
        "TOKEN": "s3cret",
    }
    arguments = {"region": "eu", "n": 1, "deep": {"x": [1, None, "ü"]}}
    launch = command("env", "-0", environment={"MINE": "env:TOKEN", "N": 3}, arguments=arguments, fire_time=None)

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path, environment=worker)) as driver:
            assert (await driver.run(launch)).outcome == "succeeded"

    run(work())
    seen = dict(line.split("=", 1) for line in log_of(tmp_path, launch).split("\0") if line)
    context = Path(seen.pop("TIDEGATE_CONTEXT"))
    assert seen.pop("TIDEGATE_OUTBOX") == str(tmp_path / "outbox")
    assert json.loads(seen.pop("TIDEGATE_ARGUMENTS")) == arguments
    assert seen == {
        "PATH": worker["PATH"],
        "HOME": "/nowhere",
        "TOKEN": "s3cret",
        "MINE": "s3cret",
        "N": "3",
        "TIDEGATE_RUN_ID": str(launch.attempt.run),
        "TIDEGATE_RUN_KEY": f"sales/orders@2026-03-29T00:00:00Z#{launch.attempt.run.ord}",
        "TIDEGATE_ATTEMPT": "1",
        "TIDEGATE_FENCE": "41",
        "TIDEGATE_NAMESPACE": "sales",
        "TIDEGATE_SCHEDULE": "orders",
    }
    kept = [path for path in context.parent.iterdir() if path.name != "log"]
    assert not any("s3cret" in path.read_text() for path in kept), "a secret is never written down"
    assert all(path.stat().st_mode & 0o077 == 0 for path in [context.parent, *context.parent.iterdir()])
    told = json.loads(context.read_text())
    assert told["id"] == str(launch.attempt.run)
    assert told["arguments"] == arguments
    assert told["fire_time"] is None


def test_a_command_is_told_its_fire_time(tmp_path: Path) -> None:
    launch = shell("echo $TIDEGATE_FIRE_TIME; cat")  # standard input is empty, not the worker's

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            assert (await driver.run(launch)).outcome == "succeeded"

    run(work())
    assert log_of(tmp_path, launch) == "2026-03-29T00:00:00Z\n"


@pytest.mark.parametrize(
    ("launch", "code", "says"),
    [
        (command("no-such-program-anywhere"), "program.not_found", "PATH"),
        (command("true", environment={"X": "env:NOT_SET"}), "program.environment", "NOT_SET"),
    ],
)
def test_what_cannot_start_is_refused_for_good_and_says_why(
    tmp_path: Path, launch: object, code: str, says: str
) -> None:
    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path, environment={"PATH": os.environ["PATH"]})) as driver:
            with pytest.raises(LaunchRefused, match=says) as refused:
                await driver.launcher.start(launch)
            assert refused.value.code == code
            assert not refused.value.retryable
            assert await driver.launcher.seal(launch) is None

    run(work())


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            with pytest.raises(LaunchRefused) as refused:
                await driver.launcher.start(command(str(broken)))
            assert refused.value.code == "program.not_executable"

    run(work())


@pytest.mark.requirement("RUN-5")
def test_the_same_identity_starts_once(tmp_path: Path) -> None:
    launch = shell("echo once")

    async def work() -> None:
        first, second = ProcessLauncher(tmp_path), ProcessLauncher(tmp_path)
        async with driving(first) as driver, driving(second) as other:
            await asyncio.gather(*(launcher.start(launch) for launcher in (first, second, first, second)))
            assert (await driver.end(launch)).outcome == "succeeded"
            assert (await other.end(launch)).outcome == "succeeded"

    run(work())
    assert log_of(tmp_path, launch) == "once\n"


@pytest.mark.requirement("RUN-5", "RUN-1")
def test_a_zombie_cannot_start_what_was_sealed(tmp_path: Path) -> None:
    async def work() -> None:
        zombie, successor = ProcessLauncher(tmp_path), ProcessLauncher(tmp_path)
        async with driving(zombie), driving(successor):
            launch = shell("echo never")
            assert await successor.seal(launch) is None
            with pytest.raises(Fenced):
                await zombie.start(launch)
            assert not Attempts(tmp_path).log(launch.identity).exists()

    run(work())


@pytest.mark.requirement("RUN-5", "RUN-1")
def test_of_a_start_and_a_seal_that_race_exactly_one_wins(tmp_path: Path) -> None:
    async def work() -> None:
        zombie, successor = ProcessLauncher(tmp_path), ProcessLauncher(tmp_path)
        async with driving(zombie), driving(successor) as driver:
            won = set()
            for number in range(60):
                launch = shell("echo ran")

                async def seal(launch: object = launch, wait: float = number % 6 * 0.0007) -> object:
                    await asyncio.sleep(wait)
                    return await successor.seal(launch)

                started, found = await asyncio.gather(zombie.start(launch), seal(), return_exceptions=True)
                if isinstance(started, Fenced):
                    assert found is None
                    assert not (Attempts(tmp_path).log(launch.identity).exists() and log_of(tmp_path, launch))
                else:
                    assert isinstance(started, str)
                    assert found is not None
                    assert (await driver.end(launch)).outcome == "succeeded"
                    assert log_of(tmp_path, launch) == "ran\n"
                won.add(type(started))
            assert won

    run(work())


ROOT = Path(__file__).parents[2]
WORKER = """
import asyncio, sys
from pathlib import Path
from tests.launchers.helpers import shell, function
from tidegate.launchers.logs import FileLogs
from tidegate.launchers.process import ProcessLauncher
async def main():
    launcher = ProcessLauncher(Path(sys.argv[1]))
    await launcher.open()
    await launcher.start(shell(sys.argv[2], order=int(sys.argv[3])))
    print("started", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def start_in_a_worker_and_kill_it(home: Path, script: str, order: int) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, home, script, str(order)], stdout=subprocess.PIPE, cwd=ROOT
    )
    with worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"started\n"
        worker.kill()


@pytest.mark.requirement("RUN-5", "RUN-4")
def test_a_command_survives_the_worker_and_is_adopted(tmp_path: Path) -> None:
    start_in_a_worker_and_kill_it(tmp_path, "sleep 1; exit 9", 1001)
    launch = shell("sleep 1; exit 9", order=1001)

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            found = await driver.launcher.seal(launch)
            assert found.phase is Phase.RUNNING
            assert (await driver.end(launch)).error["exit_status"] == 9

    run(work())


@pytest.mark.slow
@pytest.mark.requirement("RUN-5")
def test_an_end_while_no_worker_lives_is_known_afterwards(tmp_path: Path) -> None:
    start_in_a_worker_and_kill_it(tmp_path, "sleep 0.3; echo done; exit 5", 1002)
    time.sleep(0.8)
    launch = shell("sleep 0.3; echo done; exit 5", order=1002)

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            found = await driver.launcher.seal(launch)
            assert (found.phase, found.outcome, found.error["exit_status"]) == (Phase.FINISHED, "failed", 5)
            assert 100_000 < found.ago < 30_000_000

    run(work())
    assert log_of(tmp_path, launch) == "done\n"


def test_a_shim_that_is_killed_is_a_crash_and_its_command_does_not_go_on(tmp_path: Path) -> None:
    launch = shell("sleep 4711 & sleep 4711")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            await driver.launcher.start(launch)
            claim = Attempts(tmp_path).claim(launch.identity)
            assert claim is not None
            assert claim.owner is not None
            os.kill(claim.owner.pid, signal.SIGKILL)
            assert (await driver.end(launch)).phase is Phase.GONE

    run(work())
    assert not marked("4711")


def test_a_dead_nursery_is_replaced(tmp_path: Path) -> None:
    async def work() -> None:
        launcher = ProcessLauncher(tmp_path)
        async with driving(launcher) as driver:
            assert (await driver.run(shell("true"))).outcome == "succeeded"
            os.kill(launcher._nursery._pid, signal.SIGKILL)
            with contextlib.suppress(LaunchRefused):
                await launcher.start(shell("true"))
            assert (await driver.run(shell("true"))).outcome == "succeeded"

    run(work())


def test_a_nursery_that_cannot_be_started_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            driver.launcher._nursery.end()
            before = set(os.listdir("/proc/self/fd"))
            with monkeypatch.context() as patched:
                patched.setattr(os, "posix_spawn", Mock(side_effect=BlockingIOError(errno.EAGAIN, "no more processes")))
                with pytest.raises(LaunchRefused, match="no more processes"):
                    await driver.launcher.start(shell("true"))
            gc.collect()
            assert set(os.listdir("/proc/self/fd")) <= before
            assert (await driver.run(shell("true"))).outcome == "succeeded"

    run(work())


@pytest.mark.requirement("RUN-9")
def test_a_polite_stop_lets_the_program_end_its_own_way(tmp_path: Path) -> None:
    launch = shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            await driver.launcher.start(launch)
            while "ready" not in log_of(tmp_path, launch):
                await asyncio.sleep(0.01)
            await driver.launcher.stop(launch.attempt, StopHow.POLITE)
            report = await driver.end(launch)
            assert (report.outcome, report.error["exit_status"]) == ("cancelled", 3)

    run(work())
    assert log_of(tmp_path, launch).endswith("bye\n")


TREES = {
    "children": "sleep {n} & sleep {n} & wait",
    "deaf": "trap '' TERM INT HUP; sleep {n} & while :; do sleep {n}; done",
    "own_session": "setsid sleep {n} & wait",
    "double_fork": "(setsid sh -c 'trap \"\" TERM; sleep {n} & sleep {n}; :' &) ; sleep {n}; :",
    "own_session_daemon_deaf": "(trap '' TERM; setsid sleep {n} &) ; (setsid setsid sleep {n} &); sleep {n}; :",
}


@pytest.mark.requirement("RUN-9")
@pytest.mark.parametrize("name", TREES)
def test_after_a_kill_nothing_of_the_tree_is_left(tmp_path: Path, name: str) -> None:
    number = str(900_000 + os.getpid() % 10_000 * 10 + list(TREES).index(name))
    launch = shell(TREES[name].replace("{n}", number))

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            await driver.launcher.start(launch)
            while not marked(number):
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)
            await driver.launcher.stop(launch.attempt, StopHow.POLITE)
            await asyncio.sleep(0.1)
            await driver.launcher.stop(launch.attempt, StopHow.KILL)
            await driver.launcher.stop(launch.attempt, StopHow.KILL)
            report = await driver.end(launch)
            assert report.outcome == "cancelled"
            assert not marked(number)

    run(work())


def test_a_frozen_shim_cannot_keep_its_tree_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.launchers.process.END_WITHIN", 0.3)
    number = str(800_000 + os.getpid())
    launch = shell(f"(setsid sleep {number} &); sleep {number}; :")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            await driver.launcher.start(launch)
            while len(marked(number)) < 2:
                await asyncio.sleep(0.02)
            claim = Attempts(tmp_path).claim(launch.identity)
            assert claim is not None
            assert claim.owner is not None
            os.kill(claim.owner.pid, signal.SIGSTOP)
            await driver.launcher.stop(launch.attempt, StopHow.KILL)
            assert (await driver.end(launch)).outcome == "cancelled"
            assert not marked(number)

    run(work())


def test_the_daemon_of_a_command_that_ended_by_itself_is_left_alone(tmp_path: Path) -> None:
    number = str(700_000 + os.getpid())
    launch = shell(f"(setsid sleep {number} &); sleep 0.1")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            assert (await driver.run(launch)).outcome == "succeeded"

    run(work())
    (daemon,) = marked(number)
    daemon.kill()


def test_a_reused_pid_or_another_boot_is_never_taken_for_the_process() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        me = ref_of(child.pid)
        assert me is not None
        assert alive(me)
        earlier = ProcessRef(me.boot, me.pid, me.start - 1)
        rebooted = ProcessRef("another boot", me.pid, me.start)
        for stranger in (earlier, rebooted):
            assert not alive(stranger)
            assert not send(stranger, signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
    assert start_of(child.pid) is None


def test_after_a_reboot_what_has_not_said_its_end_has_crashed(tmp_path: Path) -> None:
    launch = shell("true")
    directory = Attempts(tmp_path).prepare(launch)
    claim = shim.make_claim(str(directory), {"boot": "the last one", "pid": os.getpid(), "start": 1})
    assert claim is not None
    os.close(claim)

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            assert (await driver.launcher.seal(launch)).phase is Phase.GONE

    run(work())
    assert this_boot() != "the last one"


def test_an_end_that_was_torn_by_a_power_cut_is_no_end(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path)
    directory = attempts.make("x")
    claim = shim.make_claim(str(directory), {"boot": "b", "pid": 1, "start": 1})
    assert claim is not None
    os.pwrite(claim, b'{"status": 0, "sto', shim.END_AT)
    os.close(claim)
    assert attempts.claim("x") == Claim(ProcessRef("b", 1, 1), None)


@pytest.mark.requirement("OPS-11")
@pytest.mark.parametrize(
    "left",
    [b"", b"\0" * shim.CLAIM_SIZE, b'{"boot": "b", "pi', b"[]", b'{"boot": "b"}'],
    ids=["empty", "zeros", "half", "a list", "a part"],
)
def test_a_claim_that_was_torn_by_a_power_cut_is_one_of_another_boot(tmp_path: Path, left: bytes) -> None:
    launch = shell("true")
    (Attempts(tmp_path).prepare(launch) / shim.CLAIM).write_bytes(left)

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            assert (await driver.launcher.seal(launch)).phase is Phase.GONE
            await driver.launcher.stop(launch.attempt, StopHow.KILL)
        logs = FileLogs(tmp_path)
        assert (await logs.read(launch.attempt, 0)).complete
        assert await logs.remove_older(2**62, 0) == 1

    run(work())


def test_a_claim_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, bool]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        sync(descriptor)
        seen.append((os.fstat(descriptor).st_size, (tmp_path / shim.CLAIM).exists()))

    monkeypatch.setattr(os, "fsync", note)
    claim = shim.make_claim(str(tmp_path), {"sealed": True})
    assert claim is not None
    os.close(claim)
    (tmp_path / shim.CLAIM).unlink()
    taken = take_claim(tmp_path)
    assert taken is not None
    taken.end(status=0, stop=None)
    assert seen == [(shim.CLAIM_SIZE, False)] * 2


def test_much_output_blocks_nobody(tmp_path: Path) -> None:
    size = 50_000_000
    launch = command("head", "-c", str(size), "/dev/zero")

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            assert (await driver.run(launch)).outcome == "succeeded"

    run(work())
    assert Attempts(tmp_path).log(launch.identity).stat().st_size == size


@pytest.fixture
def tiny_disk(tmp_path: Path) -> object:
    """A file system of 64 pages; where nobody may mount one the test is passed over."""
    place = tmp_path / "tiny"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("mounting needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> None:
    with contextlib.suppress(OSError), open(place / "filler", "wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass


def test_on_a_full_disk_nothing_starts_and_the_refusal_says_why(tiny_disk: Path) -> None:
    launch = shell("true")

    async def work() -> None:
        async with driving(ProcessLauncher(tiny_disk)) as driver:
            fill(tiny_disk)
            with pytest.raises(LaunchRefused, match=str(tiny_disk)) as refused:
                await driver.launcher.start(launch)
            assert refused.value.code == "disk.full"
            assert "Free space" in refused.value.remedy
            (tiny_disk / "filler").unlink()
            assert (await driver.run(launch)).outcome == "succeeded"

    run(work())


def test_a_disk_that_fills_up_under_a_command_loses_no_end(tiny_disk: Path) -> None:
    launch = shell("head -c 10000000 /dev/zero")

    async def work() -> None:
        async with driving(ProcessLauncher(tiny_disk)) as driver:
            report = await driver.run(launch)
            assert report.outcome == "failed"
            assert report.error["code"] == "disk.full"
            assert str(tiny_disk) in report.error["message"]

    run(work())


@pytest.mark.slow
def test_nothing_is_held_while_many_commands_run(tmp_path: Path) -> None:
    """No thread and no connection a command: only one descriptor."""

    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            launches = [shell("sleep 0.5") for _ in range(50)]
            threads = psutil.Process().num_threads()
            for launch in launches:
                await driver.launcher.start(launch)
            assert psutil.Process().num_threads() == threads
            for launch in launches:
                report = await driver.end(launch)
                assert report.outcome == "succeeded", (report, log_of(tmp_path, launch))
            await driver.launcher.forget([launch.attempt for launch in launches])
            assert not Attempts(tmp_path).directory(launches[0].identity).joinpath("context.json").exists()

    run(work())


def test_nothing_is_kept_of_what_was_killed(tmp_path: Path) -> None:
    async def work() -> None:
        async with driving(ProcessLauncher(tmp_path)) as driver:
            launches = [shell("sleep 60") for _ in range(5)]
            for launch in launches:
                await driver.launcher.start(launch)
                await driver.launcher.stop(launch.attempt, StopHow.KILL)
                await driver.end(launch)
                await driver.launcher.forget([launch.attempt])
            await comes(lambda: not driver.launcher._killing, 30)

    run(work())


def test_other_kinds_are_not_its_affair() -> None:
    assert function("a:b").program.kind not in ProcessLauncher.kinds
