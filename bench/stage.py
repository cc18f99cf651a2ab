"""The service on moto in this process, under a meter, on a clock that is moved: for counts, never for times."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

import boto3
import time_machine
from moto import mock_aws

from bench.account import POOLS, TABLE
from bench.meter import Layout, Meter
from clawjob.aws.clients import client_config
from clawjob.aws.job_store import JobStore
from clawjob.aws.queues import Queues, Received
from clawjob.aws.run_store import RunStore
from clawjob.aws.table import QueueUrls, create_queues, create_table, table_definition
from clawjob.aws.token_store import TokenStore
from clawjob.domain.ids import uid_from
from clawjob.domain.instants import Clock
from clawjob.domain.priority import QueueClass
from clawjob.domain.times import Times
from clawjob.operations.context import Context

START: Final = datetime(2026, 12, 1, 11, 58, 30, tzinfo=UTC)


def make_clients() -> tuple[Any, Any]:
    """Make clients of DynamoDB and SQS, set up as the service's own."""
    session = boto3.session.Session()
    return session.client("dynamodb", config=client_config()), session.client("sqs", config=client_config())


def make_context(dynamodb: Any, sqs: Any, urls: QueueUrls, clock: Clock, times: Times) -> Context:
    """Wire the service; uids look like real ones, but the same in every measure."""
    uids = count(1)
    uniques = count(1)
    return Context(
        jobs=JobStore(dynamodb, TABLE, times.retention),
        runs=RunStore(dynamodb, TABLE, times.retention),
        tokens=TokenStore(dynamodb, TABLE),
        queues=Queues(sqs, urls.run, urls.results),
        clock=clock,
        times=times,
        # Spread like random ones, so that the shards of the due index fill evenly.
        new_uid=lambda: uid_from(next(uids) * 0x9E3779B97F4A7C15 & ((1 << 60) - 1)),
        new_unique=lambda: f"{next(uniques):016x}",
        new_secret=lambda: f"{next(uniques):040x}",
        chance=lambda: 0.5,
    )


@dataclass
class Stage:
    """One service, its meter and its clock."""

    context: Context
    meter: Meter
    dynamodb: Any
    sqs: Any
    urls: QueueUrls
    now: datetime
    _travel: time_machine.Traveller

    def move_to(self, instant: datetime) -> None:
        """Set the clock, and moto's."""
        self.now = instant
        self._travel.move_to(instant)

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self.move_to(self.now + duration)

    def receive(self) -> list[Received]:
        """Take what is visible on the run queue."""
        return self.context.queues.receive(POOLS[0], QueueClass.LOW, 10, timedelta(0))


@contextmanager
def stage(start: datetime = START, times: Times | None = None, *, metered: bool = True) -> Iterator[Stage]:
    """Give an empty service with production times."""
    with mock_aws(), time_machine.travel(start, tick=False) as travel:
        dynamodb, sqs = make_clients()
        create_table(dynamodb, TABLE)
        used = times or Times()
        urls = create_queues(sqs, "clawjob", POOLS, used.lease)
        meter = Meter(Layout.of(table_definition(TABLE)))
        made: list[Stage] = []
        context = make_context(dynamodb, sqs, urls, lambda: made[0].now, used)
        made.append(Stage(context, meter, dynamodb, sqs, urls, start, travel))
        if metered:
            meter.watch(dynamodb, sqs)
        yield made[0]
