"""One emulator, and the stack deployed into it once; all tests of this folder share them, so they run in one process.

A test that fails shows whether it was the emulator.
"""

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from support.deployed import Stack
from support.emulator import Emulator

_HERE = Path(__file__).parent
_EMULATOR = pytest.StashKey[Emulator]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder time, and put the one that destroys the stack to the end."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            # Whichever comes first deploys.
            item.add_marker(pytest.mark.timeout(300))
    items.sort(key=lambda item: item.path == _HERE / "test_destroy.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say whose fault a failure is."""
    report = yield
    emulator = item.config.stash.get(_EMULATOR, None)
    if report.failed and emulator is not None and item.path.is_relative_to(_HERE):
        report.sections.append(("the emulator", emulator.account()))
    return report


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="clawjob-deployed-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def emulator(folder: Path, pytestconfig: pytest.Config) -> Iterator[Emulator]:
    """The emulator, empty."""
    started = Emulator(folder)
    pytestconfig.stash[_EMULATOR] = started
    try:
        started.wait()
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def deployed(emulator: Emulator, folder: Path) -> Stack:
    """The stack, as `make deploy STAGE=emulator` leaves it; `deploy_said` is what that said."""
    stack = Stack(emulator, folder)
    (folder / "said").write_text(stack.deploy(), "utf-8")
    return stack


@pytest.fixture(scope="session")
def deploy_said(deployed: Stack, folder: Path) -> str:
    """What the first deploy said."""
    return (folder / "said").read_text("utf-8")


@pytest.fixture(scope="session")
def admin(deployed: Stack) -> str:
    """The first token, made as the deploy says."""
    return deployed.clawjob("token", "create", "first", "--stack", "clawjob-emulator", "--role", "admin").strip()
