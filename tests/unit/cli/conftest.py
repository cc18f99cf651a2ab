"""The command line against the API over HTTP, on the service that moto backs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clawjob.aws.log_streams import LogStreams
from clawjob.cli.main import cli
from support.api import TOKEN
from support.clock import ManualClock
from support.service import Service
from support.serving import serving

GROUP = "/clawjob/test/runs"

Run = Callable[..., Result]


@pytest.fixture
def logs(service: Service) -> LogStreams:
    service.logs.create_log_group(logGroupName=GROUP)
    return LogStreams(service.logs, GROUP)


@pytest.fixture
def url(service: Service, logs: LogStreams, clock: ManualClock) -> Iterator[str]:
    """Where the API is served."""
    with serving(service, logs, clock) as found:
        yield found


@pytest.fixture
def run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program in an empty folder, in the zone UTC, in a terminal of 160 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clawjob.cli.run._POLL", 0.01)
    environment = {"CLAWJOB_URL": url, "CLAWJOB_TOKEN": TOKEN, "COLUMNS": "160", "TZ": "UTC"}
    environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")

    def call(*arguments: str, stdin: str | None = None, **more: Any) -> Result:
        env = {**environment, **more.pop("env", {})}
        return CliRunner().invoke(cli, arguments, input=stdin, env=env, **more)

    return call
