"""The service on moto: real table, queues, stores and operations; time, ids and chance in the test's hands."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any

import boto3

from clawjob.aws.job_store import JobStore
from clawjob.aws.queues import Queues, Received
from clawjob.aws.run_store import RunStore
from clawjob.aws.table import QueueUrls, create_queues, create_table
from clawjob.aws.token_store import TokenStore
from clawjob.domain.instants import Clock
from clawjob.domain.priority import QueueClass
from clawjob.domain.times import Times
from clawjob.operations.context import Context

TABLE = "clawjob-test"


@dataclass
class Service:
    """The parts of one service and the clients below them."""

    context: Context
    dynamodb: Any
    sqs: Any
    logs: Any
    urls: QueueUrls

    def receive(self, most: int = 10, pool: str = "default", queue: QueueClass = QueueClass.LOW) -> list[Received]:
        """Take messages from a pool's queue without waiting."""
        return self.context.queues.receive(pool, queue, most, timedelta(0))

    def fresh_context(self) -> Context:
        """The same service as another process sees it: nothing remembered."""
        old = self.context
        made = make_context(self.dynamodb, self.sqs, self.urls, old.clock, old.times)
        return replace(made, new_uid=old.new_uid, new_unique=old.new_unique, new_secret=old.new_secret)

    def items(self) -> list[dict[str, Any]]:
        """All items of the table, as stored."""
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=TABLE)
        return [item for page in pages for item in page["Items"]]


def make_clients() -> tuple[Any, Any, Any]:
    """Clients that moto answers, for DynamoDB, SQS and Logs."""
    session = _session()
    return session.client("dynamodb"), session.client("sqs"), session.client("logs")


@cache
def _session() -> boto3.session.Session:
    """One for the process: to read the services' models is most of what making a client costs."""
    return boto3.session.Session()


def make_service(clock: Clock, times: Times | None = None, pools: tuple[str, ...] = ("default",)) -> Service:
    """Make table and queues and wire the service; must run inside of `mock_aws`."""
    dynamodb, sqs, logs = make_clients()
    create_table(dynamodb, TABLE)
    used = times or Times()
    urls = create_queues(sqs, "clawjob-test", pools, used.lease)
    return Service(make_context(dynamodb, sqs, urls, clock, used), dynamodb, sqs, logs, urls)


def make_context(dynamodb: Any, sqs: Any, urls: QueueUrls, clock: Clock, times: Times) -> Context:
    """Wire stores and queues to clients; ids count up, chance is always in the middle."""
    return Context(
        jobs=JobStore(dynamodb, TABLE, times.retention),
        runs=RunStore(dynamodb, TABLE, times.retention),
        tokens=TokenStore(dynamodb, TABLE),
        queues=Queues(sqs, urls.run, urls.results),
        clock=clock,
        times=times,
        new_uid=_counter("{:012d}"),
        new_unique=_counter("{:08d}"),
        new_secret=_counter("{:040d}"),
        chance=lambda: 0.5,
    )


def _counter(form: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: form.format(next(numbers))
