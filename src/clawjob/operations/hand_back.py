"""Gives a running attempt back in good order: its run is queued again at once and the user's retries stay untouched."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from clawjob.domain.claiming import cancelled
from clawjob.domain.errors import LeaseLostError
from clawjob.domain.rescuing import SEND_AT_FIRST_CHECK
from clawjob.domain.run import AttemptResult, Outcome, Reason, Run, State
from clawjob.operations.context import Context

log = logging.getLogger(__name__)

_TRIES = 5


def hand_back(ctx: Context, result: AttemptResult) -> Run:
    """Queue the run of an interrupted attempt again, with a fresh message; the caller deletes its old one.

    The queue counts receives, so that the old message must not live on through many drains.

    Raises:
        LeaseLostError: the attempt is no longer the caller's.
    """
    for _ in range(_TRIES):
        seen = ctx.runs.get(result.run_id)
        if seen is None or seen.token != result.token or seen.attempt is None:
            raise LeaseLostError(result.run_id, result.token)
        if seen.state is State.QUEUED:
            # The answer to our own first try was lost.
            return _sent(ctx, seen)
        if seen.state is not State.RUNNING:
            raise LeaseLostError(result.run_id, result.token)
        now = ctx.clock()
        interrupted = replace(
            seen.attempt,
            started_at=result.started_at,
            ended_at=result.ended_at,
            outcome=Outcome.INTERRUPTED,
            detail=result.detail,
            duration_seconds=result.duration_seconds,
            log_bytes=result.log_bytes,
            log_dropped_bytes=result.log_dropped_bytes,
        )
        after = _after(ctx, replace(seen, attempt=interrupted), now, ctx.times.send_check)
        moved = ctx.runs.hand_back(seen, after, interrupted)
        if moved.made:
            log.info("run handed back", extra={"run_id": seen.run_id, "job": seen.job, "attempt": seen.token})
            return _sent(ctx, after) if after.state is State.QUEUED else after
    raise LeaseLostError(result.run_id, result.token)


def _after(ctx: Context, seen: Run, now: datetime, check: timedelta) -> Run:
    if seen.cancel is not None:
        return cancelled(seen, now, ctx.times)
    return replace(
        seen,
        state=State.QUEUED,
        reason=Reason.HANDED_BACK,
        lease_until=None,
        message_id=None,
        checks=SEND_AT_FIRST_CHECK,
        due_at=now + check,
    )


def _sent(ctx: Context, run: Run) -> Run:
    ctx.queues.send_run(run)
    return run
