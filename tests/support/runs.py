"""Shortcuts for tests that take runs through their life with the real operations."""

from datetime import datetime, timedelta
from typing import Any

from clawjob.aws.queues import Received
from clawjob.domain.definition import Definition, Overlap
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import AttemptResult, Outcome, Run
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.context import Context
from clawjob.operations.tick import TickReport, tick


def a_job(name: str = "news", cron: str | None = "*/5 * * * *", **more: Any) -> Definition:
    """A definition; overlap is allowed unless the test says otherwise."""
    more.setdefault("overlap", Overlap.ALLOW)
    if cron is not None:
        more.setdefault("schedule", ScheduleSpec(cron=cron, timezone=more.pop("zone", "UTC")))
    return Definition(name=name, command="/bin/true", **more)


def run_tick(context: Context) -> TickReport:
    """One tick with a minute to go."""
    return tick(context, lambda: timedelta(seconds=60))


def claim(context: Context, message: Received, worker: str = "w1") -> Any:
    """Claim what a message names."""
    return claim_run(context, RunMessage.from_body(message.body), message.message_id, worker)


def claimed(context: Context, message: Received, worker: str = "w1") -> Claimed:
    """Claim and insist on it."""
    answer = claim(context, message, worker)
    assert isinstance(answer, Claimed), answer
    return answer


def result_of(run: Run, outcome: Outcome, at: datetime, **more: Any) -> AttemptResult:
    """What the worker of a claimed run reports."""
    assert run.attempt is not None
    return AttemptResult(
        run_id=run.run_id,
        token=run.token,
        worker=run.attempt.worker,
        outcome=outcome,
        started_at=run.attempt.started_at,
        ended_at=at,
        duration_seconds=(at - run.attempt.started_at).total_seconds(),
        **more,
    )
