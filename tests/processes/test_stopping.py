"""Timeout, cancel, drain, lost lease: the whole tree is ended, in time, and the outcome says why (W-01, W-02)."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clawjob.domain.run import Outcome
from clawjob.runner import tree
from clawjob.runner.stop import StopRequest
from support.children import marked, until

if TYPE_CHECKING:
    from support.children import Runner

SECOND = timedelta(seconds=1)
IGNORE = "trap '' TERM; "
LONG = f"300.{os.getpid()}"
"""How long this file's daemons sleep: tells them from all other processes of the machine."""
DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
os.closerange(0, 100)
os.execve("/bin/sleep", ["sleep", sys.argv[1]], {} if sys.argv[2] == "clear" else dict(os.environ))
"""


def daemons() -> list[int]:
    """Daemons that live, found by their command only."""
    found = []
    for pid in tree.processes():
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes() == f"sleep\0{LONG}\0".encode():
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_timeout_ends_grandchildren_too(runner: "Runner") -> None:
    """W-01."""
    began = time.monotonic()
    end = runner.run("sh", "-c", "sleep 300 & sleep 300", timeout=0.5, grace=5)
    assert (end.outcome, end.signal) == (Outcome.TIMED_OUT, "SIGTERM")
    assert end.detail == "over its timeout of 0.5 s"
    assert time.monotonic() - began < 5.5
    assert marked(runner.run_id) == []


def test_a_child_that_ignores_term_is_killed_after_the_grace(runner: "Runner") -> None:
    """W-02."""
    began = time.monotonic()
    end = runner.sh(IGNORE + "sleep 300 & wait; sleep 300", timeout=0.3, grace=0.5)
    assert (end.outcome, end.signal) == (Outcome.TIMED_OUT, "SIGKILL")
    assert 0.8 <= time.monotonic() - began < 3


def test_a_child_may_end_in_good_order_within_the_grace_and_is_timed_out_still(runner: "Runner") -> None:
    end = runner.sh("trap 'echo saved; exit 0' TERM; sleep 300 & wait", timeout=0.3)
    assert (end.outcome, end.exit_code) == (Outcome.TIMED_OUT, 0)
    assert runner.log() == "saved\n"


def test_a_crawler_below_a_shell_has_the_grace_although_the_shell_ends_at_once(runner: "Runner") -> None:
    script = "import signal, time; signal.signal(15, lambda *_: (time.sleep(2.5), print('saved'), exit(0)));"
    script += "print('ready', flush=True); time.sleep(300)"
    started = runner.begin("sh", "-c", 'python3 -c "$0"; true', script, grace=20)
    until(lambda: runner.log() == "ready\n")
    started.stop.cancel("enough")
    end = started.end()
    assert (end.outcome, end.signal) == (Outcome.CANCELLED, "SIGTERM")
    assert runner.log() == "ready\nsaved\n"


def test_a_child_that_ended_by_itself_is_not_timed_out_by_its_leftovers(runner: "Runner") -> None:
    end = runner.sh(IGNORE + "sleep 300 & exit 4", timeout=0.5)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 4)
    assert "left behind and ended: 1" in end.detail


@pytest.mark.parametrize("environment", ["keep", "clear"])
def test_a_daemon_in_another_session_with_two_forks_is_ended_too(runner: "Runner", environment: str) -> None:
    """W-01, also with an environment that says nothing."""
    script = 'python3 -c "$0" "$1" "$2"; sleep 300'
    started = runner.begin("sh", "-c", script, DAEMON, LONG, environment, timeout=1.5, grace=1)
    until(daemons)
    assert started.end().outcome is Outcome.TIMED_OUT
    assert daemons() == []


def test_a_daemon_is_ended_when_its_run_ends_well(runner: "Runner") -> None:
    end = runner.run("python3", "-c", DAEMON, LONG, "clear")
    assert end.outcome is Outcome.SUCCEEDED
    assert "left behind" in end.detail
    assert daemons() == []


def test_stopped_processes_hear_the_term(runner: "Runner") -> None:
    began = time.monotonic()
    end = runner.sh("trap 'exit 0' TERM; kill -STOP $$", timeout=0.3, grace=20)
    assert end.outcome is Outcome.TIMED_OUT
    assert time.monotonic() - began < 5


def test_a_cancel_wakes_at_once_and_carries_its_reason(runner: "Runner") -> None:
    started = runner.begin("sh", "-c", "echo ready; exec sleep 300")
    until(lambda: runner.log() == "ready\n")
    began = time.monotonic()
    started.stop.cancel("the site is down (asked by anna)")
    end = started.end()
    assert time.monotonic() - began < 1
    assert (end.outcome, end.detail) == (Outcome.CANCELLED, "the site is down (asked by anna)")


def test_a_drain_interrupts_with_its_own_grace(runner: "Runner") -> None:
    """W-05."""
    started = runner.begin("sh", "-c", IGNORE + "echo ready; sleep 300 & wait; sleep 300", grace=60)
    until(lambda: runner.log() == "ready\n")
    began = time.monotonic()
    started.stop.interrupt("the worker drains", 0.3 * SECOND)
    end = started.end()
    assert (end.outcome, end.detail) == (Outcome.INTERRUPTED, "the worker drains")
    assert 0.3 <= time.monotonic() - began < 3


def test_a_second_stop_shortens_the_grace_and_a_cancel_wins_over_a_drain(runner: "Runner") -> None:
    started = runner.begin("sh", "-c", IGNORE + "echo ready; sleep 300 & wait; sleep 300", grace=60)
    until(lambda: runner.log() == "ready\n")
    started.stop.interrupt("drain", 60 * SECOND)
    started.stop.cancel("user", 0.1 * SECOND)
    end = started.end()
    assert (end.outcome, end.detail) == (Outcome.CANCELLED, "user")


def test_a_lost_lease_kills_at_once_and_reports_nothing(runner: "Runner") -> None:
    started = runner.begin("sh", "-c", IGNORE + "echo ready; sleep 300 & wait; sleep 300", grace=60)
    until(lambda: runner.log() == "ready\n")
    began = time.monotonic()
    started.stop.lose_lease()
    end = started.end()
    assert end.lease_lost
    assert end.outcome is Outcome.LOST
    assert time.monotonic() - began < 2


def test_a_lease_lost_during_a_cancels_grace_reports_nothing(runner: "Runner") -> None:
    started = runner.begin("sh", "-c", IGNORE + "echo ready; sleep 300 & wait; sleep 300", grace=60)
    until(lambda: runner.log() == "ready\n")
    started.stop.cancel("user")
    started.stop.lose_lease()
    assert started.end().lease_lost


@pytest.mark.parametrize(
    ("wish", "outcome"),
    [("cancel", Outcome.CANCELLED), ("interrupt", Outcome.INTERRUPTED), ("lose_lease", Outcome.LOST)],
)
def test_what_was_stopped_before_its_start_is_never_started(runner: "Runner", wish: str, outcome: Outcome) -> None:
    """W-07."""
    stop = StopRequest()
    getattr(stop, wish)("early")
    end = runner.sh("echo ran", stop=stop)
    assert (end.outcome, end.lease_lost) == (outcome, wish == "lose_lease")
    assert runner.log() == ""


def test_a_stop_after_the_end_changes_nothing(runner: "Runner") -> None:
    stop = StopRequest()
    assert runner.sh("exit 0", stop=stop).outcome is Outcome.SUCCEEDED
    stop.cancel("late")


def test_a_cancel_of_a_run_that_ended_by_itself_while_leftovers_are_ended_leaves_its_outcome(
    runner: "Runner",
) -> None:
    started = runner.begin("sh", "-c", "(" + IGNORE + "sleep 300 & echo ready; wait; sleep 300) & sleep 0.2; exit 6")
    until(lambda: runner.log() == "ready\n")
    until(lambda: len(marked(runner.run_id)) < 4)
    # Long enough for the child to have ended, short enough for its leftovers to be there.
    time.sleep(0.3)
    started.stop.cancel("late")
    end = started.end()
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 6)


def test_a_tree_that_grows_while_it_is_killed_is_ended(runner: "Runner") -> None:
    """Each process forks the next and stays: the newest one is in no list of processes."""
    script = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(300):
    if os.fork():
        time.sleep(300)
    os.setsid()
    time.sleep(0.01)
time.sleep(300)
"""
    end = runner.python(script, timeout=0.5, grace=0.1)
    assert end.outcome is Outcome.TIMED_OUT
    assert "not be ended" not in end.detail
    assert marked(runner.run_id) == []
