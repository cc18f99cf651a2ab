"""What a tick does with a run whose check has come: move the check, send it again, count its worker as lost, end it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from clawjob.domain.claiming import cancelled, end_of_lost
from clawjob.domain.instants import floor_seconds
from clawjob.domain.run import Actor, CancelRequest, Outcome, Run, State
from clawjob.domain.times import Times

_EVERY_THIRD: Final = 3
"""A waiting run's message is sent again at every third check, whatever the queue says of itself."""
SEND_AT_FIRST_CHECK: Final = 2
"""Checks that a run starts with whose message was sent after it was written: if that crashed, nobody knows it."""


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Nothing is due: the index lagged."""


@dataclass(frozen=True, slots=True)
class MoveCheck:
    """Look again later; the queue holds the run's message, or its worker lives."""

    run: Run


@dataclass(frozen=True, slots=True)
class SendThenMove:
    """Send the run's message (again), then look again later."""

    run: Run
    delay_seconds: int


@dataclass(frozen=True, slots=True)
class Lose:
    """Count the worker as lost; `send` where the run goes on."""

    run: Run
    send: bool


@dataclass(frozen=True, slots=True)
class AskToStop:
    """Ask the worker of an overdue run to end it, and look again soon."""

    request: CancelRequest
    look_at: datetime


@dataclass(frozen=True, slots=True)
class CloseOverdue:
    """End an overdue run over its worker's head."""

    run: Run


Rescue = LeaveAlone | MoveCheck | SendThenMove | Lose | AskToStop | CloseOverdue


def decide_rescue(run: Run, waiting: int, now: datetime, times: Times) -> Rescue:
    """Decide what to do with a run that the due index names.

    Args:
        run: as it is now.
        waiting: about how many messages its queue has for workers to take.
        now: the present instant.
        times: the checks.
    """
    if run.is_final and run.due_at is not None:
        return MoveCheck(replace(run, due_at=None))
    if run.due_at is None or run.due_at > now:
        return LeaveAlone()
    if run.state is State.RUNNING:
        return _rescue_running(run, now, times)
    never_sent = run.state is State.RETRY_WAIT and run.due_at <= run.not_before
    moved = _later(run, max(now, run.not_before), times)
    if never_sent:
        return SendThenMove(
            replace(moved, checks=0, due_at=run.not_before + times.check), delay_until(run.not_before, now)
        )
    if waiting > 0 and moved.checks % _EVERY_THIRD:
        return MoveCheck(moved)
    return SendThenMove(moved, delay_until(run.not_before, now))


def delay_until(instant: datetime, now: datetime) -> int:
    """Delay of a message whose run may start at an instant: a second less, so that a worker is there in time.

    `max(0, floor(instant - now) - 1)` seconds: 10.4 s ahead gives 9, 0.5 s ahead or past gives 0.
    """
    return max(0, floor_seconds(instant - now) - 1)


def _rescue_running(run: Run, now: datetime, times: Times) -> Rescue:
    lease_until = run.lease_until or now
    if lease_until > now:
        return _rescue_live(run, now, times)
    lost_at = lease_until + times.lost_after
    if now < lost_at:
        return MoveCheck(replace(run, due_at=lost_at, checks=run.checks + 1))
    losses = run.losses + 1
    ended = end_of_lost(run, losses, now, times)
    if ended is not None:
        return Lose(ended, send=False)
    queued = replace(
        run,
        state=State.QUEUED,
        losses=losses,
        lost_token=run.token,
        checks=SEND_AT_FIRST_CHECK,
        due_at=now + times.send_check,
    )
    return Lose(queued, send=True)


def _rescue_live(run: Run, now: datetime, times: Times) -> Rescue:
    if run.deadline_at is None or now < run.deadline_at + times.overdue:
        return MoveCheck(replace(run, due_at=now + times.check, checks=run.checks + 1))
    if run.cancel is None:
        request = CancelRequest(at=now, by=Actor.SCHEDULER.value, why="long past its deadline", is_overdue=True)
        return AskToStop(request, now + times.overdue)
    if now < run.cancel.at + times.overdue:
        return MoveCheck(replace(run, due_at=run.cancel.at + times.overdue, checks=run.checks + 1))
    attempt = run.attempt
    closed = replace(attempt, ended_at=now, outcome=Outcome.TIMED_OUT, detail="did not stop") if attempt else None
    return CloseOverdue(cancelled(replace(run, attempt=closed), now, times))


def _later(run: Run, since: datetime, times: Times) -> Run:
    checks = run.checks + 1
    wait: timedelta = min(times.check * 2 ** min(checks, 16), times.longest_check)
    return replace(run, checks=checks, due_at=since + wait)
