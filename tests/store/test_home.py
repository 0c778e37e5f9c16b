"""One Tidegate to a home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.domain.errors import Refused
from tidegate.store import home

HOLDER = (
    "import sys, time; from pathlib import Path; from tidegate.store import home; "
    "lock = home.acquire(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def holder(place: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_second_one_is_refused_with_home_and_pid(tmp_path: Path) -> None:
    process = holder(tmp_path)
    try:
        with pytest.raises(Refused) as refusal:
            home.acquire(tmp_path)
        assert str(tmp_path) in str(refusal.value) and str(process.pid) in str(refusal.value)
    finally:
        process.kill()
        process.communicate()


def test_the_death_of_the_holder_frees_the_home(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with home.acquire(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_home_is_made_private_and_other_files_are_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "home"
    home.acquire(place).release()
    assert place.stat().st_mode & 0o777 == 0o700
    (place / "mine.txt").write_text("x")
    home.acquire(place).release()
    assert (place / "mine.txt").read_text() == "x"


@pytest.mark.parametrize("written", ["2", "999", "x", ""])
def test_a_home_of_a_newer_version_is_refused(tmp_path: Path, written: str) -> None:
    (tmp_path / "version").write_text(written)
    with pytest.raises(Refused) as refusal:
        home.acquire(tmp_path)
    assert "newer" in refusal.value.message and refusal.value.remedy
    assert (tmp_path / "version").read_text() == written


def test_a_file_in_the_place_of_the_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused) as refusal:
        home.acquire(tmp_path / "file")
    assert "--home" in refusal.value.remedy
