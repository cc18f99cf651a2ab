"""Tools of the one-machine mode's tests."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import boto3
import pytest
from botocore.config import Config

from clawjob.dev.moto_server import REGION, MotoServer

MakeClient = Callable[[str, str], Any]
RunMoto = Callable[..., AbstractContextManager[MotoServer]]


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """Make a client of a service for an endpoint; it never tries a call twice."""
    made: list[Any] = []

    def make(service: str, url: str) -> Any:
        client = boto3.client(
            service,
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(read_timeout=30, retries={"total_max_attempts": 1}, max_pool_connections=40),
        )
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@contextmanager
def _running(**options: Any) -> Iterator[MotoServer]:
    from moto.backends import get_backend

    for service in ("dynamodb", "sqs", "logs"):
        get_backend(service).reset()
    server = MotoServer(**options)
    server.start()
    try:
        yield server
    finally:
        server.close()
        for service in ("dynamodb", "sqs", "logs"):
            get_backend(service).reset()


@pytest.fixture
def run_moto() -> RunMoto:
    """Run an empty emulator; the arguments are those of `MotoServer`."""
    return _running


@pytest.fixture
def moto_server() -> Iterator[MotoServer]:
    with _running() as server:
        yield server


Ask = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def ask() -> Ask:
    """Send one HTTP request exactly as it is given and return status, headers and body."""

    def send(
        url: str,
        method: str,
        target: str,
        headers: list[tuple[str, str]] | None = None,
        body: bytes = b"",
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
        try:
            names = {name.lower() for name, _ in headers or ()}
            connection.putrequest(method, target, skip_host="host" in names, skip_accept_encoding=True)
            for name, value in headers or ():
                connection.putheader(name, value)
            if body and "content-length" not in names:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

    return send
