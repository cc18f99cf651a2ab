"""Starts the canned worker and reads what its processes use: the worker, its wardens and what they executed."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from clawjob.domain.priority import QueueClass

COMMAND: Final = "CLAWJOB_BENCH_COMMAND"
"""JSON: argv and environment of every child."""
_QUEUES: Final = json.dumps(
    {"default": {name: f"https://sqs.eu-west-1.amazonaws.com/123456789012/runs-default-{name}" for name in QueueClass}}
)
_RESULTS: Final = "https://sqs.eu-west-1.amazonaws.com/123456789012/results"
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


@dataclass
class LoadedWorker:
    """A worker that executes what it is told to."""

    process: "subprocess.Popen[str]"

    def execute(self, how_many: int) -> list[float]:
        """Let so many runs be due now; returns the seconds from message to deletion of each."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the worker has no pipes")
        self.process.stdin.write(f"{how_many}\n")
        self.process.stdin.flush()
        seconds = []
        for _ in range(how_many):
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the worker ended")
            seconds.append(float(line))
        return seconds

    def processes(self) -> list[psutil.Process]:
        """The worker and its wardens."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """CPU of the worker, its wardens, and all that these have executed and reaped."""
        return sum(_cpu_with_reaped(process.pid) for process in self.processes())


def _cpu_with_reaped(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) * _TICK


@contextmanager
def canned_worker(argv: Sequence[str], env: dict[str, str] | None = None, slots: int = 5) -> Iterator[LoadedWorker]:
    """Start the worker; ends it and waits."""
    with tempfile.TemporaryDirectory(prefix="clawjob-bench-") as folder:
        environment = {
            **os.environ,
            "CLAWJOB_TABLE": "clawjob",
            "CLAWJOB_RUN_QUEUES": _QUEUES,
            "CLAWJOB_RESULTS_QUEUE": _RESULTS,
            "CLAWJOB_SLOTS": str(slots),
            "CLAWJOB_WORK_DIR": folder,
            "CLAWJOB_SLOT_MEMORY": "1MiB",
            "CLAWJOB_MEMORY_RESERVE": "1MiB",
            COMMAND: json.dumps({"argv": list(argv), "env": env or {}}),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.canned_worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield LoadedWorker(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def children_cpu() -> float:
    """CPU of this process's own and reaped children's."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def settle(seconds: float = 0.3) -> None:
    """Let what goes on in the background come to rest before a clock is read."""
    time.sleep(seconds)
