"""The API over HTTP on the service that moto backs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from clawjob.api.app import Api
from clawjob.aws.log_streams import LogStreams
from clawjob.dev.http_edge import HttpEdge
from clawjob.domain.access import Role
from clawjob.operations.access import keep_token
from support.api import TOKEN
from support.authorizer import authorizer_of
from support.clock import ManualClock
from support.letters import dead_letters
from support.service import Service

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


@contextmanager
def serving(
    service: Service, logs: LogStreams, clock: ManualClock, around: Callable[[Answer], Answer] = lambda answer: answer
) -> Iterator[str]:
    """Serve it, with a token of an admin.

    Args:
        service: what it works on.
        logs: output of runs.
        clock: of service and gateway.
        around: stands between the gateway and the API.
    """
    api = Api(service.context, frozenset({"default"}), logs, dead_letters(service))
    keep_token(service.context, TOKEN, "tests", Role.ADMIN, "tests")
    answer = around(lambda event: api.answer(event).response)
    edge = HttpEdge(clock, lambda: "request-1")
    edge.start(lambda event, _context: answer(event), authorizer_of(service))
    try:
        yield edge.url
    finally:
        edge.close()
