"""The API on the service that moto backs."""

import pytest

from clawjob.api.app import Api
from clawjob.aws.log_streams import LogStreams
from support.api import Client
from support.letters import dead_letters
from support.service import Service

GROUP = "/clawjob/test/runs"


@pytest.fixture
def logs(service: Service) -> LogStreams:
    service.logs.create_log_group(logGroupName=GROUP)
    return LogStreams(service.logs, GROUP)


@pytest.fixture
def api(service: Service, logs: LogStreams) -> Client:
    return Client(Api(service.context, frozenset({"default"}), logs, dead_letters(service)).answer)
