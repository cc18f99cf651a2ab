"""The process table: read as it is, and only the process that was meant gets a signal."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawjob.runner import tree


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with a name that is hard to read."""
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([odd, "60"])
    yield process
    process.kill()
    process.wait()


def test_a_name_full_of_brackets_changes_no_field(sleeper: "subprocess.Popen[bytes]") -> None:
    found = tree.read_process(sleeper.pid)
    assert found is not None
    assert (found.pid, found.parent) == (sleeper.pid, os.getpid())
    assert found.session == os.getsid(0)
    assert found.started > 0


def test_a_process_that_is_not_there_is_none() -> None:
    assert tree.read_process(2**22 + 1) is None


def test_descendants_are_found_over_generations_parents_first() -> None:
    table = {
        pid: tree.Process(pid, "S", parent, 1, 1)
        for pid, parent in {1: 0, 10: 1, 20: 10, 30: 20, 31: 20, 99: 1}.items()
    }
    found = [process.pid for process in tree.below(10, table)]
    assert found[0] == 20
    assert sorted(found) == [20, 30, 31]
    assert tree.below(30, table) == []


def test_this_process_stands_above_its_child(sleeper: "subprocess.Popen[bytes]") -> None:
    assert sleeper.pid in {process.pid for process in tree.below(os.getpid(), tree.processes())}


def test_a_signal_reaches_the_process_that_was_meant_and_no_other(sleeper: "subprocess.Popen[bytes]") -> None:
    found = tree.read_process(sleeper.pid)
    assert found is not None
    stranger = tree.Process(found.pid, found.state, found.parent, found.session, found.started + 1)
    assert not tree.send_signal(stranger, signal.SIGKILL)
    assert sleeper.poll() is None
    assert tree.send_signal(found, signal.SIGKILL)
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not tree.send_signal(found, signal.SIGKILL)


def test_memory_is_told_roughly_and_precisely(sleeper: "subprocess.Popen[bytes]") -> None:
    found = tree.read_process(sleeper.pid)
    assert found is not None
    assert 0 < tree.private_memory([found]) < 2**24
    precise = tree.proportional_memory([found])
    assert precise is None or 0 < precise < 2**24
