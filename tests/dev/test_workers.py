"""The workers of the one-machine mode, with stand-ins of a few lines."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from clawjob.dev.workers import Workers

OBEDIENT = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("up", os.getpid(), os.environ["CLAWJOB_WORKER_NAME"], os.getsid(0), flush=True)
while True:
    signal.pause()
"""
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.ends: list[tuple[str, int, float]] = []

    def line(self, name: str, text: str) -> None:
        self.lines.append((name, text))

    def end(self, name: str, code: int, pause: float) -> None:
        self.ends.append((name, code, pause))


@contextmanager
def running(code: str, told: Told, count: int = 1, first_pause: float = 0.05) -> Iterator[Workers]:
    def environment_of(name: str) -> dict[str, str]:
        return {**os.environ, "CLAWJOB_WORKER_NAME": name}

    command = (sys.executable, "-c", code)
    workers = Workers(count, environment_of, told.line, told.end, command, first_pause=first_pause)
    workers.start()
    try:
        yield workers
    finally:
        workers.kill()
        workers.stop(10)


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.005)


def test_each_worker_has_its_name_and_a_session_of_its_own_and_ends_on_term() -> None:
    told = Told()
    with running(OBEDIENT, told, count=2) as workers:
        until(lambda: len(told.lines) == 2)
        for name, text in told.lines:
            _, pid, said_name, session = text.split()
            assert said_name == name
            assert session == pid != str(os.getsid(0))
        pids = workers.pids()
        assert sorted(pids) == ["worker-1", "worker-2"]
        assert workers.stop(10) == []
        assert workers.pids() == {}
        assert not any(psutil.pid_exists(pid) for pid in pids.values())
    assert told.ends == []


def test_a_worker_that_dies_is_told_and_started_anew_ever_more_slowly_when_it_dies_young() -> None:
    told = Told()
    with running(OBEDIENT, told) as workers:
        for round_number in (1, 2):
            until(lambda number=round_number: len(told.lines) == number and bool(workers.pids()))
            os.kill(workers.pids()["worker-1"], signal.SIGKILL)
            until(lambda number=round_number: len(told.ends) == number)
        until(lambda: len(told.lines) == 3)
    assert told.ends == [("worker-1", -9, 0.1), ("worker-1", -9, 0.2)]


def test_a_worker_that_does_not_end_in_time_is_killed() -> None:
    told = Told()
    with running(DEAF, told) as workers:
        until(lambda: bool(told.lines))
        (pid,) = workers.pids().values()
        assert workers.stop(0.2) == ["worker-1"]
        assert not psutil.pid_exists(pid)


def test_a_worker_sees_the_end_of_its_stdin_when_its_parent_is_killed() -> None:
    parent = """
import os, sys, time
from clawjob.dev.workers import Workers
child = "import os; print('up', os.getpid(), flush=True); os.read(0, 1)"
command = (sys.executable, "-c", child)
workers = Workers(1, lambda _: os.environ, lambda _, line: print(line, flush=True), print, command)
workers.start()
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[1])
        assert psutil.pid_exists(pid)
        process.kill()
        process.wait()
        until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
