from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from clawjob.domain.rescuing import (
    SEND_AT_FIRST_CHECK,
    AskToStop,
    CloseOverdue,
    LeaveAlone,
    Lose,
    MoveCheck,
    SendThenMove,
    decide_rescue,
    delay_until,
)
from clawjob.domain.run import Attempt, CancelRequest, Outcome, Reason, Run, RunKind, State
from clawjob.domain.times import Times

TIMES = Times()
NOW = datetime(2024, 6, 5, 12, 15, tzinfo=UTC)
DUE = NOW - timedelta(minutes=15)
QUEUED = Run(
    run_id="000000000001-20240605T120000Z",
    uid="000000000001",
    job="news",
    kind=RunKind.SCHEDULED,
    state=State.QUEUED,
    version=1,
    pool="default",
    scheduled_at=DUE,
    not_before=DUE,
    queued_at=DUE,
    due_at=NOW,
)
RUNNING = replace(
    QUEUED,
    state=State.RUNNING,
    token=1,
    lease_until=NOW + timedelta(seconds=60),
    deadline_at=NOW + timedelta(hours=1),
    attempt=Attempt(number=1, worker="w1", started_at=DUE),
)


def rescue(run: Run, waiting: int = 0, now: datetime = NOW) -> object:
    return decide_rescue(run, waiting, now, TIMES)


def test_a_run_whose_check_has_not_come_is_left_alone() -> None:
    """DB-09: the index lags."""
    assert rescue(replace(QUEUED, due_at=NOW + timedelta(seconds=1))) == LeaveAlone()
    assert rescue(replace(QUEUED, state=State.SUCCEEDED, due_at=None)) == LeaveAlone()


def test_a_queued_run_is_only_looked_at_later_while_its_queue_has_messages() -> None:
    decision = rescue(QUEUED, waiting=1)
    assert isinstance(decision, MoveCheck)
    assert decision.run.due_at == NOW + timedelta(minutes=30)


def test_a_queued_run_is_sent_again_when_its_queue_is_empty() -> None:
    decision = rescue(QUEUED)
    assert isinstance(decision, SendThenMove)
    assert decision.delay_seconds == 0


def test_workers_down_for_a_day_cost_at_most_two_more_copies_of_a_message() -> None:
    run, now, copies, waits = QUEUED, NOW, 0, []
    while now < DUE + timedelta(hours=24):
        decision = rescue(run, waiting=5000, now=now)
        assert isinstance(decision, MoveCheck | SendThenMove)
        copies += isinstance(decision, SendThenMove)
        assert decision.run.due_at is not None
        waits.append(decision.run.due_at - now)
        run, now = decision.run, decision.run.due_at
    assert copies == 2
    assert waits == sorted(waits)
    assert max(waits) == timedelta(hours=6)


def test_a_long_retry_is_sent_when_its_instant_is_near_and_then_checked_like_a_queued_run() -> None:
    """Q-07."""
    not_before = NOW + TIMES.look_ahead
    waiting = replace(QUEUED, state=State.RETRY_WAIT, token=1, retry=1, not_before=not_before, due_at=NOW)
    decision = rescue(waiting, waiting=9)
    assert isinstance(decision, SendThenMove)
    assert decision.delay_seconds == 149
    assert decision.run.due_at == not_before + TIMES.check
    again = rescue(decision.run, waiting=9, now=decision.run.due_at)
    assert isinstance(again, MoveCheck)


def test_a_run_whose_message_may_never_have_been_sent_is_sent_at_its_first_check() -> None:
    decision = rescue(replace(QUEUED, checks=SEND_AT_FIRST_CHECK), waiting=9)
    assert isinstance(decision, SendThenMove)


def test_a_final_run_that_is_still_in_the_index_leaves_it() -> None:
    decision = rescue(replace(QUEUED, state=State.SUCCEEDED))
    assert isinstance(decision, MoveCheck)
    assert decision.run.due_at is None


def test_a_live_worker_is_only_looked_at_later() -> None:
    decision = rescue(RUNNING)
    assert isinstance(decision, MoveCheck)
    assert decision.run.due_at == NOW + TIMES.check


def test_a_lease_that_is_just_over_may_still_have_its_result_on_the_way() -> None:
    over = replace(RUNNING, lease_until=NOW - timedelta(minutes=9))
    decision = rescue(over)
    assert isinstance(decision, MoveCheck)
    assert decision.run.due_at == NOW + timedelta(minutes=1)


def test_a_worker_gone_for_ten_minutes_is_lost_and_its_result_is_still_taken() -> None:
    decision = rescue(replace(RUNNING, lease_until=NOW - timedelta(minutes=10)))
    assert isinstance(decision, Lose)
    assert decision.send
    assert decision.run.state is State.QUEUED
    assert decision.run.lost_token == 1
    assert decision.run.losses == 1
    assert decision.run.retry == 0


def test_the_third_loss_ends_the_run() -> None:
    decision = rescue(replace(RUNNING, losses=2, lease_until=NOW - timedelta(hours=1)))
    assert isinstance(decision, Lose)
    assert not decision.send
    assert decision.run.state is State.LOST
    assert decision.run.attempt is not None
    assert decision.run.attempt.outcome is Outcome.LOST


def test_a_lost_run_whose_cancel_was_asked_for_is_cancelled() -> None:
    asked = replace(RUNNING, lease_until=NOW - timedelta(hours=1), cancel=CancelRequest(NOW, "anna", ""))
    decision = rescue(asked)
    assert isinstance(decision, Lose)
    assert decision.run.state is State.CANCELLED


def test_an_overdue_run_is_asked_to_stop_and_closed_when_it_does_not() -> None:
    overdue = replace(RUNNING, deadline_at=NOW - TIMES.overdue)
    asked = rescue(overdue)
    assert isinstance(asked, AskToStop)
    assert asked.request.is_overdue
    told = replace(overdue, cancel=asked.request)
    assert isinstance(rescue(told), MoveCheck)
    later = NOW + TIMES.overdue
    closed = rescue(replace(told, lease_until=later + timedelta(seconds=60)), now=later)
    assert isinstance(closed, CloseOverdue)
    assert (closed.run.state, closed.run.reason) == (State.TIMED_OUT, Reason.OVERDUE)


@pytest.mark.parametrize(
    ("ahead", "delay"), [(10.4, 9), (10.0, 9), (1.9, 0), (1.0, 0), (0.5, 0), (0.0, 0), (-5.0, 0), (150.0, 149)]
)
def test_a_message_is_delayed_to_a_second_before_its_instant(ahead: float, delay: int) -> None:
    assert delay_until(NOW + timedelta(seconds=ahead), NOW) == delay
