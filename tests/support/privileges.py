"""Notes every AWS call that a component makes in a test: who, which action, on what.

A component is known by where its code is entered: a handler, the API, a step of a worker. Real worker processes are
known to the emulator by the access key that they sign with. A call in a form that is not known here fails its test.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple

import pytest

from clawjob.dev.moto_server import MotoServer

WORKER_KEY = "worker"
"""Access key of real worker processes."""
_PARTS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_QUEUE = re.compile(r"[/-](?:runs-([a-z0-9-]+)-(high|low)|(results|ticks))(-dead)?$")
OTHER_POOL = "other"
"""Stands for each pool but `default`."""


class Call(NamedTuple):
    """One kind of call.

    `on` is `table`, `table/index/NAME`, `queue/NAME`, `run-logs`, `function/NAME` or `deployment`.
    """

    component: str
    action: str
    on: str


SEEN: set[Call] = set()
"""All kinds of calls in this process so far."""
_component: ContextVar[str] = ContextVar("component", default="")


@contextmanager
def acting(component: str) -> Iterator[None]:
    """Let calls be those of a component."""
    before = _component.set(component)
    try:
        yield
    finally:
        _component.reset(before)


def note(component: str, operation: str, parameters: Mapping[str, Any]) -> None:
    """Note a call of a component; no component is a test's own call."""
    if component:
        SEEN.update(Call(str(component), action, on) for action, on in actions_of(operation, parameters))


def actions_of(operation: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give what IAM is asked about a call: each part of a transaction is an action of its own, a batch is none."""
    if "TransactItems" in parameters:
        for entry in parameters["TransactItems"]:
            (kind,) = entry
            yield f"dynamodb:{_PARTS[kind]}", "table"
    elif "RequestItems" in parameters:
        yield f"dynamodb:{operation}", "table"
    elif "TableName" in parameters:
        index = parameters.get("IndexName")
        yield f"dynamodb:{operation}", f"table/index/{index}" if index else "table"
    elif "QueueUrl" in parameters:
        yield f"sqs:{operation.removesuffix('Batch')}", f"queue/{_queue_of(parameters['QueueUrl'])}"
    elif "logGroupName" in parameters:
        yield f"logs:{operation}", "run-logs"
    elif operation == "Invoke":
        yield "lambda:InvokeFunction", f"function/{parameters['FunctionName'].rpartition('-')[2]}"
    elif "deploymentId" in parameters:
        yield f"codedeploy:{operation}", "deployment"
    else:
        raise ValueError(f"tests/support/privileges.py does not know what IAM is asked about {operation}")


def _queue_of(url: str) -> str:
    found = _QUEUE.search(url)
    if found is None:
        raise ValueError(f"tests/support/privileges.py does not know the queue {url}")
    pool, label, name, dead = found.groups(default="")
    return (name or f"runs-{pool if pool == 'default' else OTHER_POOL}-{label}") + dead


@contextmanager
def noting() -> Iterator[None]:
    """Note the calls that components make in this process through botocore."""
    from botocore.client import BaseClient

    from clawjob.api.app import Api
    from clawjob.aws.log_streams import LogStreams
    from clawjob.handlers.api import ApiHandler
    from clawjob.handlers.authorizer import AuthorizerHandler
    from clawjob.handlers.compare import CompareHandler
    from clawjob.handlers.results import ResultsHandler
    from clawjob.handlers.scheduler import SchedulerHandler
    from clawjob.handlers.watch import WatchHandler
    from clawjob.runner.keeper import LeaseKeeper
    from clawjob.runner.slot import Slot

    # A function of a new kind gets a line here.
    entries: tuple[tuple[type, str, str], ...] = (
        (SchedulerHandler, "__call__", "scheduler"),
        (ResultsHandler, "__call__", "results"),
        (ApiHandler, "__call__", "api"),
        (Api, "answer", "api"),
        (AuthorizerHandler, "__call__", "authorizer"),
        (CompareHandler, "__call__", "compare"),
        (WatchHandler, "__call__", "watch"),
        (Slot, "handle", "worker"),
        (LeaseKeeper, "renew_all", "worker"),
        (LogStreams, "put_events", "worker"),
    )
    make_call = BaseClient._make_api_call

    def noted(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        note(_component.get(), operation, parameters)
        return make_call(self, operation, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", noted)
        for owner, method, component in entries:
            patch.setattr(owner, method, _as(component, getattr(owner, method)))
        yield


def _as(component: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def entered(*arguments: Any, **more: Any) -> Any:
        with acting(component):
            return function(*arguments, **more)

    return entered


class NotingServer(MotoServer):
    """The emulator, which notes the calls of worker processes."""

    def _call(self, service: str, request: Any, body: bytes) -> Any:
        key = request.header("authorization").partition("Credential=")[2].partition("/")[0]
        if key == WORKER_KEY:
            note("worker", request.header("x-amz-target").rpartition(".")[2], json.loads(body))
        return super()._call(service, request, body)
