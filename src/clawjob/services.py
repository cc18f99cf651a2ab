"""The composition root: the only place where clients, clock, ids and chance of the real world are wired together."""

import random
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import Clients, make_session_clients
from clawjob.aws.job_store import JobStore
from clawjob.aws.queues import Queues
from clawjob.aws.run_store import RunStore
from clawjob.aws.token_store import TokenStore
from clawjob.domain.ids import uid_from
from clawjob.domain.instants import Clock
from clawjob.operations.context import Context
from clawjob.settings import ClockSetting, CoreSettings

_UID_BITS = 60
_SECRET_BYTES = 20


@dataclass(frozen=True, slots=True)
class Services:
    """A process's parts."""

    context: Context
    clients: Clients
    guard: ClockGuard
    """Measures the context's clock with every answer of table and queues."""


def services_from(settings: CoreSettings, clients: Clients | None = None) -> Services:
    """Wire the parts.

    Args:
        settings: of the deployable.
        clients: those to use; None makes them from the environment's credentials, region and endpoint.
    """
    used = clients or make_session_clients()
    guard = ClockGuard(clock_of(settings.clock))
    for client in (used.dynamodb, used.sqs):
        guard.watch(client)
    retention = settings.times.retention
    context = Context(
        jobs=JobStore(used.dynamodb, settings.table, retention),
        runs=RunStore(used.dynamodb, settings.table, retention),
        tokens=TokenStore(used.dynamodb, settings.table),
        queues=Queues(used.sqs, settings.run_queues, settings.results_queue),
        clock=guard.now,
        times=settings.times,
        new_uid=_new_id,
        new_unique=_new_id,
        new_secret=new_secret,
        chance=random.random,
    )
    return Services(context, used, guard)


def clock_of(setting: ClockSetting) -> Clock:
    """Make the clock that a setting describes."""
    if setting == ClockSetting():
        return _now
    return lambda: datetime.fromtimestamp(setting.at(time.time()), UTC)


def new_secret() -> str:
    """Make the secret of an access token: 160 random bits."""
    return secrets.token_hex(_SECRET_BYTES)


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uid_from(secrets.randbits(_UID_BITS))
