"""What an attempt's result makes of its run. A result counts once, and only with its attempt's token."""

from dataclasses import dataclass, replace
from datetime import datetime

from clawjob.domain.claiming import cancelled
from clawjob.domain.definition import Definition
from clawjob.domain.rescuing import SEND_AT_FIRST_CHECK
from clawjob.domain.retry import next_delay, wants_retry
from clawjob.domain.run import Attempt, AttemptResult, Outcome, Reason, Run, State, close_run
from clawjob.domain.times import Times

_WELL = frozenset({Outcome.SUCCEEDED, Outcome.EMPTY})
_STATE_OF = {
    Outcome.SUCCEEDED: State.SUCCEEDED,
    Outcome.EMPTY: State.SUCCEEDED,
    Outcome.TIMED_OUT: State.TIMED_OUT,
    Outcome.STALLED: State.TIMED_OUT,
    Outcome.CANCELLED: State.CANCELLED,
}
"""Every other outcome makes a run FAILED."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """The result changes nothing."""

    why: str


@dataclass(frozen=True, slots=True)
class SendAgain:
    """The result was taken before; its retry may not have been sent."""

    run: Run


@dataclass(frozen=True, slots=True)
class Settle:
    """Close the attempt."""

    run: Run
    closed: Attempt | None
    """The attempt as an item of its own, where the run goes on."""
    send: bool
    """The retry is near enough to be sent at once."""


def decide_settlement(
    run: Run | None, result: AttemptResult, definition: Definition | None, chance: float, now: datetime, times: Times
) -> Ignore | SendAgain | Settle:
    """Decide what a result does.

    Args:
        run: as it is now; None when it is gone.
        result: the worker's report.
        definition: the version that ran; None when it cannot be read any more, which grants no retry.
        chance: from 0 to below 1, spreads the retry's delay.
        now: the present instant; a retry's delay begins here.
        times: the queue's longest delay, checks, retention.
    """
    if run is None:
        return Ignore("there is no such run")
    if run.token != result.token:
        return Ignore("the result is of an attempt that was taken over")
    if run.state is State.RETRY_WAIT:
        return SendAgain(run)
    was_lost = run.state is State.QUEUED and run.lost_token == result.token
    if run.state is not State.RUNNING and not was_lost:
        return Ignore(f"the run is {run.state.value}")
    attempt = _attempt(result)
    ended = replace(run, attempt=attempt, losses=run.losses - 1 if was_lost else run.losses)
    if run.cancel is not None and result.outcome not in _WELL:
        return Settle(cancelled(ended, now, times), None, send=False)
    wanted = run.cancel is None and definition is not None
    if definition is not None and wanted and wants_retry(definition, result.outcome, result.exit_code, run.retry):
        return _retried(ended, definition, chance, now, times)
    state = _STATE_OF.get(result.outcome, State.FAILED)
    return Settle(
        close_run(ended, state, _reason(ended, state, result.outcome, definition), now, times.retention),
        None,
        send=False,
    )


def _retried(run: Run, definition: Definition, chance: float, now: datetime, times: Times) -> Settle:
    retry = run.retry + 1
    delay = next_delay(definition.retry, retry, chance)
    not_before = now + delay
    near = delay <= times.longest_delay
    waiting = replace(
        run,
        state=State.RETRY_WAIT,
        reason=Reason.RETRY_PLANNED,
        why="",
        retry=retry,
        not_before=not_before,
        # A due instant after not_before says that the retry was sent.
        due_at=not_before + times.send_check if near else not_before - times.look_ahead,
        checks=SEND_AT_FIRST_CHECK if near else 0,
        lost_token=None,
    )
    return Settle(waiting, run.attempt, send=near)


def _attempt(result: AttemptResult) -> Attempt:
    return Attempt(
        number=result.token,
        worker=result.worker,
        started_at=result.started_at,
        ended_at=result.ended_at,
        outcome=result.outcome,
        exit_code=result.exit_code,
        signal=result.signal,
        detail=result.detail,
        duration_seconds=result.duration_seconds,
        items=result.items,
        log_bytes=result.log_bytes,
        log_dropped_bytes=result.log_dropped_bytes,
    )


def _reason(run: Run, state: State, outcome: Outcome, definition: Definition | None) -> Reason:
    if state is State.SUCCEEDED:
        return Reason.COMPLETED
    if state is State.CANCELLED:
        return Reason.CANCEL_REQUESTED
    exit_code = run.attempt.exit_code if run.attempt else None
    granted = definition is not None and wants_retry(definition, outcome, exit_code, 0)
    return Reason.RETRIES_USED_UP if granted else Reason.NOT_RETRIED
