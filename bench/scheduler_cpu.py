"""CPU of the scheduler for each dispatched run, with a thousand due at one instant and AWS's answers canned.

The tick is first made on moto, and every answer recorded; then the same handler makes it again, with its logs and
metrics written to nowhere, while botocore gets the recorded answers in place of a connection.
"""

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from aws_lambda_powertools.logging import Logger

from bench.canned import Replay
from bench.recording import all_sent, nothing, recording
from bench.report import Result, Row
from bench.stage import START, make_clients, make_context, stage
from bench.stored import create_due_jobs
from clawjob.aws.authority import ClockGuard
from clawjob.aws.table import QueueUrls
from clawjob.domain.times import Times
from clawjob.handlers.measures import embedded_metrics
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.operations.dispatch import schedule_of
from clawjob.operations.tick import tick
from clawjob.services import Services
from clawjob.settings import SchedulerSettings

RUNS: Final = 1_000
GOAL: Final = 2.0
_ROUNDS: Final = 7
_DUE: Final = START + timedelta(seconds=90)

_INSTEAD: Final = {"PutItem": nothing, "UpdateItem": nothing, "SendMessageBatch": all_sent}

PEERS: Final = (
    ("APScheduler, memory / SQLite", "0.04 / 0.81 ms"),
    ("Celery beat, interval / crontab", "1.35 / 5.35 ms (and 0.90 ms in the worker)"),
    ("Airflow, a due one-task run", "112 ms"),
)
"""Measured once on a machine of two cores with the same question; all of them keep their state in one process."""

Answers = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Recorded:
    """A tick of a process that has just begun, and the same once its definitions are in memory."""

    cold: Answers
    warm: Answers
    urls: QueueUrls


def record(runs: int = RUNS) -> Recorded:
    """Make both ticks on moto. Writes change nothing there, so that the second does the same as the first."""
    with stage(metered=False) as on:
        create_due_jobs(on, runs, _DUE)
        context = make_context(on.dynamodb, on.sqs, on.urls, on.context.clock, on.context.times)
        ticks = []
        for _ in range(2):
            with recording(_INSTEAD) as answers:
                if tick(context, lambda: timedelta(minutes=5)).dispatch.dispatched != runs:
                    raise RuntimeError("the tick did not dispatch every run")
            ticks.append(answers)
        return Recorded(ticks[0], ticks[1], on.urls)


class _LambdaContext:
    """What Lambda tells a function about itself."""

    function_version = "1"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 300_000


def replayed(recorded: Recorded) -> tuple[float, float]:
    """Make both ticks again; returns the CPU seconds of the cold and of the warm one."""
    dynamodb, sqs = make_clients()
    guard = ClockGuard(lambda: START)
    for client in (dynamodb, sqs):
        # As in the function, but its correction is not used: the answers are of another day.
        guard.watch(client)
    context = make_context(dynamodb, sqs, recorded.urls, lambda: START, Times())
    services: Any = Services(context, None, guard)  # type: ignore[arg-type]  # the scheduler uses no other client
    settings = SchedulerSettings(table="clawjob", run_queues=recorded.urls.run)
    handler = SchedulerHandler(settings, services, embedded_metrics("clawjob"))
    schedule_of.cache_clear()
    spent = []
    for answers in (recorded.cold, recorded.warm):
        replay = Replay(answers).to(dynamodb, sqs)
        gc.collect()
        begun = time.process_time()
        summary = handler({}, _LambdaContext())
        spent.append(time.process_time() - begun)
        if not replay.is_used_up or summary["dispatched"] != RUNS:
            raise RuntimeError("the replayed tick was another one")
        for client in (dynamodb, sqs):
            client.meta.events.unregister("before-send.*", replay._before_send)  # noqa: SLF001 - ours
    return spent[0], spent[1]


@contextlib.contextmanager
def logs_to_nowhere() -> Iterator[None]:
    """Let the function's own logger format every line as under Lambda, and throw it away."""
    with Path(os.devnull).open("w") as nowhere:
        Logger(service="clawjob", utc=True, use_rfc3339=True, stream=nowhere, level="INFO")
        with contextlib.redirect_stdout(nowhere):
            yield


def measure() -> Result:
    """Replay the ticks several times."""
    recorded = record()
    with logs_to_nowhere():
        spent = [replayed(recorded) for _ in range(_ROUNDS)]
    cold, warm = (min(each) * 1000 / RUNS for each in zip(*spent, strict=True))
    calls = len(recorded.warm)
    rows = [
        Row(
            "per dispatched run, warm",
            f"{warm:.2f} ms",
            f"<= {GOAL:g} ms",
            warm <= GOAL,
            f"{calls:,} calls a tick",
        ),
        Row(
            "per dispatched run, first tick of a process",
            f"{cold:.2f} ms",
            note="reads all definitions too",
        ),
        Row("handed over by one process", f"{1000 / warm:,.0f} runs/s", note="of CPU; AWS takes its own time"),
        *(Row(f"  {name}", figure, note="peer") for name, figure in PEERS),
    ]
    data = {"warm_ms": warm, "cold_ms": cold, "calls": calls, "rounds": spent}
    return Result(f"Scheduler CPU, {RUNS:,} due at one instant, answers canned, least of {_ROUNDS} rounds", rows, data)
