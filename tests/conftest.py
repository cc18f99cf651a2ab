"""Fixtures for all tests: no test reaches the real AWS; `service` and `context` give the service on an empty moto."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.clock import ManualClock

if TYPE_CHECKING:
    from clawjob.operations.context import Context
    from support.service import Service

_TOGETHER = ("tests/deployed/", "tests/infra/")
"""Folders whose tests share something that takes long to make: the deployed stack, the started CDK."""

# Before any client is made: no test may reach a real account.
os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_SESSION_TOKEN="testing",
    AWS_DEFAULT_REGION="eu-west-1",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
)
os.environ["XDG_CONFIG_HOME"] = os.devnull  # of this user no login counts
for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_LAMBDA_FUNCTION_NAME"):
    os.environ.pop(name, None)
for name in ("CLAWJOB_URL", "CLAWJOB_TOKEN", "CLAWJOB_PROFILE"):
    os.environ.pop(name, None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run all tests of a folder in `_TOGETHER` in one process.

    By folder: with pytest 9.2 the marker `xdist_group` of pytest-xdist 3.8 has no effect.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), nodeid)

    return ByFolder(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session", autouse=True)
def no_real_aws() -> Iterator[None]:
    """Calls that would leave this machine fail; moto answers before this."""
    from botocore.httpsession import URLLib3Session

    send = URLLib3Session.send

    def guarded(self: Any, request: Any) -> Any:
        host = urlsplit(request.url).hostname
        if host not in {"127.0.0.1", "localhost", "::1"}:
            raise AssertionError(f"a test called {host}: use the fixture `aws`")
        return send(self, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(URLLib3Session, "send", guarded)
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Judge at the end what components did; see docs/testing.md."""
    from support.suite_privileges import SuitePrivileges

    config.pluginmanager.register(SuitePrivileges(), "privileges")


@pytest.fixture(scope="session", autouse=True)
def calls_of_components_are_noted() -> Iterator[None]:
    """Every call of a component, for the comparison with what its role allows."""
    from support.privileges import noting

    with noting():
        yield


@pytest.fixture
def aws() -> Iterator[Any]:
    """moto in this process, empty."""
    from moto import mock_aws  # here, because it takes a while, and tests of the domain do without

    with mock_aws():
        yield


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    """A clock that stands still; moto's queues follow it."""
    manual = ManualClock()
    yield manual
    manual.stop()


@pytest.fixture
def service(aws: Any, clock: ManualClock) -> "Service":
    """The service with production times on a clock that the test moves."""
    from support.service import make_service

    return make_service(clock)


@pytest.fixture
def context(service: "Service") -> "Context":
    """The parts of `service` that operations take."""
    return service.context
