"""The demo ends what it started, also when it is asked to end in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
DEMO = """
import signal, sys, time
signal.signal(int(sys.argv.pop()), signal.SIG_DFL)  # whoever starts tests in the background has it ignored
import demo.__main__ as demo
demo.provision = lambda story: None
demo.upkeep.Keeping.write_past = lambda keeping, catalog: time.sleep(600)
raise SystemExit(demo.main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_it_leaves_neither_process_nor_home(asked: signal.Signals) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket may have 107 characters
        _ends(Path(short), asked)


def _ends(tmp_path: Path, asked: signal.Signals) -> None:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    log = tmp_path / "said"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-c", DEMO, str(int(asked))],
            cwd=ROOT, env={**inherited, "TMPDIR": str(tmp_path)}, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    started: list[psutil.Process] = []
    try:
        until(lambda: demo.poll() is not None or "tidegate up:" in log.read_text(), 120)
        assert demo.poll() is None, log.read_text()
        started = psutil.Process(demo.pid).children(recursive=True)
        assert len(started) > 3
        demo.send_signal(asked)
        assert demo.wait(60) == 128 + asked, log.read_text()
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started)
        assert not list(tmp_path.glob("tidegate-demo-*"))
        assert "Traceback" not in log.read_text() and asked.name in log.read_text()
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.wait()
        for one in started:  # psutil knows a process by its start too: another one of that id is not meant
            if one.is_running():
                one.kill()
