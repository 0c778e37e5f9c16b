"""The short form of `make chaos`: real processes, real faults, and the history holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement(
    "HA-2", "HA-3", "HA-4", "HA-5", "HA-6", "HA-8", "RUN-1", "RUN-5", "RUN-9", "EVENT-1", "CATCH-1"
)
def test_real_processes_under_real_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chaos", "--seconds", "12", "--apis", "1", "--pause", "0.4", "--freeze", "6"]
    done = subprocess.run(
        [*command, "--home", str(tmp_path / "chaos")], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
