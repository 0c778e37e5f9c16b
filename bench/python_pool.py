"""How many no-op Python functions a second the pool alone takes from start to a recorded end: no database, no engine.

    python bench/python_pool.py [--count 20000] [--hosts 1] [--rate 5000]

`flood` starts all at once; `paced` starts `--rate` a second, as the dispatcher would, and shows what that costs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from pathlib import Path

import psutil

from tidegate.domain.ids import AttemptKey, ProgramId, RunKey, ScheduleId
from tidegate.domain.programs import ProgramRef, Python
from tidegate.domain.runs import Cause
from tidegate.launchers.python_pool import PythonPoolLauncher
from tidegate.ports.launching import Launch, Phase


def launches(entry: str, first: int, count: int) -> list[Launch]:
    program = ProgramRef(id=ProgramId(1), rev=1, namespace="bench", name="noop", spec=Python(entry=entry))
    return [
        Launch(
            attempt=AttemptKey(RunKey(1_774_742_400_000_000, ScheduleId(1), number), 1),
            fence=1,
            namespace="bench",
            schedule="noop",
            program=program,
            arguments={},
            cause=Cause.FIRE,
            caused_by="clock",
            fire_time=1_774_742_400_000_000,
            previous_fire_time=None,
        )
        for number in range(first, first + count)
    ]


class Bench:
    def __init__(self, launcher: PythonPoolLauncher) -> None:
        self.launcher = launcher
        self.changed = asyncio.Event()
        launcher.on_change = self.changed.set
        self.latencies: list[float] = []

    async def work(self, work: list[Launch], rate: float) -> tuple[float, float, float]:
        """Seconds, and the CPU seconds of worker and hosts."""
        worker, hosts = time.process_time(), self.cpu_of_hosts()
        begun = time.perf_counter()
        starting = asyncio.create_task(self.start(work, rate, begun))
        open_attempts = {launch.attempt: number for number, launch in enumerate(work)}
        while open_attempts:
            self.changed.clear()
            ended = [
                r
                for r in await self.launcher.poll(list(itertools.islice(open_attempts, 1000)))
                if r.phase is Phase.FINISHED
            ]
            assert all(report.outcome == "succeeded" for report in ended)
            now = time.perf_counter()
            for report in ended:
                number = open_attempts.pop(report.attempt)
                self.latencies.append(now - (begun + number / rate) if rate else now - begun)
            await self.launcher.forget([report.attempt for report in ended])
            if not ended:
                await self.changed.wait()
            await asyncio.sleep(0.002)  # as a supervisor that records its ends in batches
        await starting
        return time.perf_counter() - begun, time.process_time() - worker, self.cpu_of_hosts() - hosts

    async def start(self, work: list[Launch], rate: float, begun: float) -> None:
        done = 0
        while done < len(work):
            due = len(work) if not rate else min(len(work), int((time.perf_counter() - begun) * rate) + 1)
            for launch in work[done:due]:
                await self.launcher.start(launch)
            done = due
            await asyncio.sleep(0.01)

    def cpu_of_hosts(self) -> float:
        times = [psutil.Process(link.ref.pid).cpu_times() for link in self.launcher._links if not link.dead]
        return sum(each.user + each.system for each in times)


async def main(count: int, hosts: int, rate: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "programs.py").write_text("def noop(): pass\n")
        launcher = PythonPoolLauncher(Path(folder) / "home", hosts)
        await launcher.open()
        bench = Bench(launcher)
        entry = f"{folder}/programs.py:noop"
        await bench.work(launches(entry, 0, 200), 0)
        for name, at in (("flood", 0.0), ("paced", rate)):
            bench.latencies.clear()
            took, worker, theirs = await bench.work(launches(entry, 1000 if at else 1_000_000, count), at)
            ordered = sorted(bench.latencies)
            print(
                f"{name}: {count / took:8.0f}/s, start to end p50 {ordered[len(ordered) // 2] * 1e3:.1f} ms, ", end=""
            )
            print(f"p99 {ordered[len(ordered) * 99 // 100] * 1e3:.1f} ms; CPU each: ", end="")
            print(f"worker {worker / count * 1e6:.1f} us, hosts {theirs / count * 1e6:.1f} us")
        await launcher.end_hosts()
        await launcher.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5000)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    asyncio.run(main(options.count, options.hosts, options.rate))
