"""No orphan, no zombie, no slot harmed by another, whoever is killed (W-04 and what hostile children do)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clawjob.domain.run import Outcome
from clawjob.runner import tree
from support.children import PYTHON, below_us, marked, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.children import Runner

IGNORE = "trap '' TERM; "


def is_live(pid: int) -> bool:
    process = tree.read_process(pid)
    return process is not None and process.state not in "ZX"


def said(runner: "Runner", run_id: str = "") -> list[int]:
    """The numbers that a child has written."""
    return [int(word) for word in runner.log(run_id).split() if word.isdigit()]


def test_200_runs_that_leave_two_orphans_each_leave_no_zombie_and_no_orphan(runner: "Runner") -> None:
    """W-04."""
    others = {process.pid for process in below_us()}
    wardens = set(runner.supervisor.wardens.pids().values())
    for _ in range(200):
        end = runner.sh("(exit 0 & exit 0 &) ; (exit 0 &) ; exit 0")
        assert end.outcome is Outcome.SUCCEEDED
    left = {process.pid for process in below_us()} - others - wardens - set(runner.supervisor.wardens.pids().values())
    assert left == set()
    assert not any(process.state == "Z" for process in below_us())


def test_orphans_that_end_while_their_run_goes_on_are_reaped_then(runner: "Runner") -> None:
    """W-04: a run of hours must not collect zombies."""
    script = "for n in 1 2 3 4 5 6 7 8; do (exit 0 &); done; echo ready; exec sleep 300"
    started = runner.begin("sh", "-c", script)
    until(lambda: runner.log() == "ready\n")
    until(lambda: not any(process.state == "Z" for process in below_us()))
    started.stop.cancel("enough")
    started.end()


def test_a_grandchild_that_holds_the_pipes_open_does_not_hold_the_run(runner: "Runner") -> None:
    began = time.monotonic()
    end = runner.sh(IGNORE + "setsid sleep 300 & echo done; exit 0")
    assert end.outcome is Outcome.SUCCEEDED
    assert runner.log() == "done\n"
    assert time.monotonic() - began < 5


def test_the_end_of_one_slot_leaves_the_others_alone_whatever_their_processes_look_like(runner: "Runner") -> None:
    """A daemon without any mark, next to the same one of another slot."""
    daemon = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "    print(os.getpid(), flush=True)\n"
        "    os.execve('/bin/sleep', ['sleep', '300'], {})\n"
        "time.sleep(300)\n"
    )
    started = [
        runner.begin(PYTHON, "-c", daemon, slot=slot, run_id=f"{runner.run_id}-{slot}", timeout=60) for slot in range(4)
    ]
    names = [f"{runner.run_id}-{slot}" for slot in range(4)]
    until(lambda: all(said(runner, name) for name in names))
    daemons = [said(runner, name)[0] for name in names]
    for slot in (2, 0, 3):
        started[slot].stop.cancel("enough")
        assert started[slot].end().outcome is Outcome.CANCELLED
        assert not is_live(daemons[slot])
        daemons[slot] = 0
        assert all(is_live(pid) for pid in daemons if pid)
    started[1].stop.cancel("enough")
    started[1].end()


def test_five_slots_at_once_each_get_their_own_end(runner: "Runner") -> None:
    started = [
        runner.begin(
            *("sh", "-c", f"for n in 1 2 3 4 5 6 7 8 9; do (exit 0 &); done; exit {slot + 10}"),
            slot=slot,
            run_id=f"{runner.run_id}-{slot}",
        )
        for slot in range(5)
    ]
    assert [one.end().exit_code for one in started] == [10, 11, 12, 13, 14]


def test_the_worker_may_have_other_children(runner: "Runner") -> None:
    own = subprocess.Popen(["sh", "-c", "exit 77"])
    runner.sh("(exit 0 &); exit 0")
    assert own.wait(10) == 77


def test_a_child_that_kills_its_warden_ends_only_its_own_run(runner: "Runner") -> None:
    other = runner.begin("sh", "-c", "echo ready; sleep 300", slot=1, run_id=f"{runner.run_id}-other")
    until(lambda: runner.log(f"{runner.run_id}-other") == "ready\n")
    end = runner.sh(IGNORE + "setsid sleep 300 & kill -9 $PPID; sleep 300")
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, None)
    assert "was killed" in end.detail
    assert marked(runner.run_id) == []
    assert runner.sh("exit 4").exit_code == 4
    other.stop.cancel("enough")
    assert other.end().outcome is Outcome.CANCELLED


def test_a_warden_that_was_killed_between_runs_is_replaced(runner: "Runner") -> None:
    runner.sh("exit 0")
    warden = runner.supervisor.wardens.pids()["0"]
    os.kill(warden, signal.SIGKILL)
    until(lambda: not is_live(warden))
    assert runner.sh("exit 5").exit_code == 5


def test_a_head_warden_that_was_killed_is_replaced_and_runs_go_on(runner: "Runner") -> None:
    started = runner.begin("sh", "-c", "echo ready; sleep 0.5; exit 6", slot=1)
    until(lambda: runner.log() == "ready\n")
    os.kill(runner.supervisor.wardens.pids()["head"], signal.SIGKILL)
    assert runner.sh("exit 5", slot=2).exit_code == 5
    assert started.end().exit_code == 6


def test_signals_to_the_workers_terminal_do_not_reach_wardens(runner: "Runner") -> None:
    runner.sh("exit 0")
    for pid in runner.supervisor.wardens.pids().values():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(pid, number)
    assert runner.sh("exit 5").exit_code == 5


WORKER = """
import sys, threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from support.children import Runner
from clawjob.runner.child import Supervisor
from clawjob.runner.environment import hide_worker
supervisor = Supervisor(Path(sys.argv[1]), sys.argv[3], clock=lambda: datetime.now(UTC))
hide_worker()
supervisor.start()
runner = Runner(supervisor, Path(sys.argv[1]), sys.argv[2])
script = "trap '' TERM; echo > file; mkdir -m 0 shut; setsid sleep 300 & (sleep 300 &); echo ready; wait; sleep 300"
started = [runner.begin("sh", "-c", script, slot=slot, run_id=f"{sys.argv[2]}-{slot}", grace=0.2) for slot in range(2)]
print("started", flush=True)
threading.Event().wait()
"""


def all_marked(run_id: str, slots: int = 2) -> list[int]:
    return [pid for slot in range(slots) for pid in marked(f"{run_id}-{slot}")]


@pytest.mark.parametrize("death", range(4))
def test_a_worker_killed_in_the_middle_leaves_no_process_and_no_folder(root: Path, run_id: str, death: int) -> None:
    """W-05's worst case: SIGKILL. The wardens end the trees and remove the folders."""
    support = str(Path(__file__).parents[1])
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(root), run_id, f"worker-{death}", support], stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"started\n"
    try:
        until(lambda: len(all_marked(run_id)) >= 2 * death)
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    until(lambda: all_marked(run_id) == [], 20)
    until(lambda: not list((root / "work").glob("worker-*/")), 20)
    until(lambda: not wardens_of(root))


def wardens_of(root: Path) -> list[int]:
    """Wardens of workers on a root: the head warden's command names it, and wardens are its forks."""
    found = []
    for pid in tree.processes():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"head_warden" in command and str(root).encode() in command:
            found.append(pid)
    return found


def test_no_descriptor_is_lost_over_many_runs_of_all_kinds(runner: "Runner") -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def each_kind() -> None:
        runner.sh("exit 1")
        runner.run("/no/such")
        runner.run("/etc/passwd")
        runner.sh("exec >&- 2>&-; sleep 0.01")
        runner.sh("sleep 300", timeout=0.05, grace=0.05)
        runner.sh("kill -9 $PPID")

    def of_warden() -> int:
        # The last of each kind left a new warden, which is ready when it has looked after a run.
        runner.sh("exit 0")
        warden = runner.supervisor.wardens.pids()["0"]
        return len(list(Path(f"/proc/{warden}/fd").iterdir())) if os.geteuid() == 0 else 0

    each_kind()
    before = of_warden(), descriptors()
    for _ in range(5):
        each_kind()
    assert (of_warden(), descriptors()) == before


def test_a_child_s_folder_goes_whatever_is_in_it(make_runner: "Callable[..., Runner]", root: Path) -> None:
    runner = make_runner("worker")
    runner.sh("mkdir -p a/b; touch a/b/c; ln -s / root; mkfifo pipe; chmod 0 a/b a; echo '{}' > tmp/x")
    assert list(runner.supervisor.folders.runs.iterdir()) == []
