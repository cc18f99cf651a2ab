import os
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws
from support.clock import ManualClock
from support.service import Service, make_service

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
for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)


@pytest.fixture
def aws() -> Iterator[Any]:
    """moto in this process, empty."""
    with mock_aws():
        yield


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    """A clock that stands still; moto's queues follow it."""
    manual = ManualClock()
    yield manual
    manual.stop()


@pytest.fixture
def service(aws: Any, clock: ManualClock) -> Service:
    """The service with production times on a clock that the test moves."""
    return make_service(clock)
