"""The children of `tidegate up`: they are started again when they die, and they never outlive their parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import until

from tidegate.cli.processes import Recipe, Signals, Tree

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tree(said: list[str]) -> Iterator[Tree]:
    tree = Tree([Recipe("one", SLEEPER, os.environ), Recipe("two", SLEEPER, os.environ)], said.append)
    tree.tend()
    yield tree
    tree.stop({"one", "two"}, 5)


@pytest.mark.requirement("HA-8")
def test_a_child_that_was_killed_is_started_again_and_that_is_said(tree: Tree, said: list[str]) -> None:
    before, other = tree["one"].pid, tree["two"].pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: tree.tend() is not None and tree["one"].pid not in (before, None))
    assert tree["two"].pid == other
    assert "one ended unasked (killed by SIGKILL)" in said[0]


def test_a_child_that_keeps_ending_is_started_ever_more_rarely(said: list[str]) -> None:
    tree = Tree([Recipe("hasty", (sys.executable, "-c", "raise SystemExit(3)"), os.environ)], said.append)
    pauses: list[float] = []
    while len(said) < 3:
        tree.tend()
        if len(said) > len(pauses):
            pauses.append(tree["hasty"].pause)
        time.sleep(0.02)
    tree.stop({"hasty"}, 5)
    assert pauses == [0.25, 0.5, 1.0]
    assert "exit status 3" in said[0]


def test_who_does_not_end_when_asked_is_killed() -> None:
    tree = Tree([Recipe("stubborn", STUBBORN, os.environ)], lambda _: None)
    tree.tend()
    time.sleep(0.5)
    pid = tree["stubborn"].pid
    assert pid is not None
    assert tree.stop({"stubborn"}, 0.3) == ["stubborn"]
    assert not psutil.pid_exists(pid)


def test_a_signal_ends_the_parents_sleep_at_once() -> None:
    with Signals().installed() as signals:
        signal.raise_signal(signal.SIGTERM)
        began = time.monotonic()
        signals.sleep(10)
        assert time.monotonic() - began < 1
        assert signals.asked is signal.SIGTERM


PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
from tidegate.cli.processes import die_with
die_with(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(60)
''', str(os.getpid())], stdin=subprocess.PIPE, start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.requirement("HA-8")
def test_a_child_dies_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_child_whose_parent_was_gone_before_it_could_look_ends(tmp_path: Path) -> None:
    code = "from tidegate.cli.processes import die_with; die_with(1 << 22); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
