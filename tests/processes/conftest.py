"""Fixtures for tests with real processes. After each test nothing may be left: no process, zombie or descriptor."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clawjob.runner.child import Supervisor, SupervisorSettings
from support.children import Runner, below_us, marked

_numbers = count(1)


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that every user may pass through, as a worker's folder must be."""
    folder = Path(tempfile.mkdtemp(prefix="clawjob-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run_id() -> str:
    """A run id that no other test has."""
    return f"run-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def make_runner(root: Path, run_id: str) -> Iterator[Callable[..., Runner]]:
    """Make supervisors; at the end each must have given everything back."""
    made: list[Supervisor] = []

    def make(name: str = "worker", shipper: Any = None, clock: Any = None, **settings: Any) -> Runner:
        supervisor = Supervisor(
            root,
            name,
            clock=clock or (lambda: datetime.now(UTC)),
            shipper=shipper,
            settings=SupervisorSettings(**settings),
        )
        supervisor.start()
        made.append(supervisor)
        return Runner(supervisor, root, run_id)

    yield make
    for supervisor in made:
        supervisor.close()


@pytest.fixture
def runner(make_runner: Callable[..., Runner]) -> Runner:
    """A supervisor with the defaults."""
    return make_runner()


@pytest.fixture(autouse=True)
def nothing_is_left(run_id: str) -> Iterator[None]:
    """After each test: no descriptor, no process, no zombie more than before."""
    descriptors = _descriptors()
    processes = {process.pid for process in below_us()}
    yield
    left = [process for process in below_us() if process.pid not in processes]
    assert left == []
    assert marked(run_id) == []
    assert _descriptors() == descriptors


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}
