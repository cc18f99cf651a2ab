from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clawjob.domain.definition import Definition, RetryPolicy
from clawjob.domain.run import (
    FINAL,
    Attempt,
    AttemptResult,
    CancelRequest,
    Outcome,
    Reason,
    Run,
    RunKind,
    State,
)
from clawjob.domain.settling import Ignore, SendAgain, Settle, decide_settlement
from clawjob.domain.times import Times

TIMES = Times()
NOW = datetime(2024, 6, 5, 12, tzinfo=UTC)
DEFINITION = Definition(name="news", command="/bin/true", retry=RetryPolicy(jitter=0.0), max_retry=2)
RUNNING = Run(
    run_id="000000000001-20240605T120000Z",
    uid="000000000001",
    job="news",
    kind=RunKind.SCHEDULED,
    state=State.RUNNING,
    version=1,
    pool="default",
    scheduled_at=NOW,
    not_before=NOW,
    queued_at=NOW,
    due_at=NOW + TIMES.check,
    token=2,
    attempt=Attempt(number=2, worker="w1", started_at=NOW),
)
LOST = replace(RUNNING, state=State.QUEUED, lost_token=2, losses=1)


def settle(run: Run | None, outcome: Outcome, *, token: int = 2, definition: Definition | None = DEFINITION) -> Any:
    result = AttemptResult(
        run_id=RUNNING.run_id,
        token=token,
        worker="w1",
        outcome=outcome,
        started_at=NOW,
        ended_at=NOW + timedelta(seconds=3),
        duration_seconds=3.0,
        exit_code=2 if outcome is Outcome.FAILED else None,
    )
    return decide_settlement(run, result, definition, 0.5, NOW, TIMES)


def settled(decision: Any) -> tuple[State, Reason | None]:
    assert isinstance(decision, Settle), decision
    return decision.run.state, decision.run.reason


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.EMPTY])
def test_a_good_end_is_final_and_nothing_is_due_any_more(outcome: Outcome) -> None:
    decision = settle(RUNNING, outcome)
    assert settled(decision) == (State.SUCCEEDED, Reason.COMPLETED)
    assert decision.run.due_at is None
    assert decision.run.expires_at == int((NOW + TIMES.retention).timestamp())
    assert decision.run.attempt.outcome is outcome


@pytest.mark.parametrize(
    "outcome", [Outcome.FAILED, Outcome.SIGNALLED, Outcome.OUT_OF_MEMORY, Outcome.TIMED_OUT, Outcome.STALLED]
)
def test_a_bad_end_is_retried_and_its_attempt_kept(outcome: Outcome) -> None:
    decision = settle(RUNNING, outcome)
    assert settled(decision) == (State.RETRY_WAIT, Reason.RETRY_PLANNED)
    assert decision.send
    assert decision.closed.outcome is outcome
    assert decision.run.retry == 1
    assert decision.run.not_before == NOW + timedelta(minutes=5)
    assert decision.run.due_at > decision.run.not_before


def test_a_retry_beyond_the_queues_longest_delay_is_left_to_the_tick() -> None:
    """Q-07."""
    far = replace(DEFINITION, retry=RetryPolicy(delays=(timedelta(hours=2),), jitter=0.0))
    decision = settle(RUNNING, Outcome.FAILED, definition=far)
    assert not decision.send
    assert decision.run.not_before == NOW + timedelta(hours=2)
    assert decision.run.due_at == decision.run.not_before - TIMES.look_ahead


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.FAILED, State.FAILED),
        (Outcome.SIGNALLED, State.FAILED),
        (Outcome.OUT_OF_MEMORY, State.FAILED),
        (Outcome.TIMED_OUT, State.TIMED_OUT),
        (Outcome.STALLED, State.TIMED_OUT),
    ],
)
def test_with_no_retry_left_a_bad_end_is_final(outcome: Outcome, state: State) -> None:
    decision = settle(replace(RUNNING, retry=2), outcome)
    assert settled(decision) == (state, Reason.RETRIES_USED_UP)
    assert decision.closed is None


def test_an_end_that_the_policy_never_retries_says_so() -> None:
    assert settled(settle(RUNNING, Outcome.CANNOT_START)) == (State.FAILED, Reason.NOT_RETRIED)


def test_a_definition_that_cannot_be_read_grants_no_retry_but_loses_no_result() -> None:
    assert settled(settle(RUNNING, Outcome.FAILED, definition=None)) == (State.FAILED, Reason.NOT_RETRIED)


def test_with_a_cancel_request_every_end_but_success_is_cancelled() -> None:
    asked = replace(RUNNING, cancel=CancelRequest(NOW, "anna", "wrong page"))
    for outcome in Outcome:
        state, _ = settled(settle(asked, outcome))
        assert state is (State.SUCCEEDED if outcome in {Outcome.SUCCEEDED, Outcome.EMPTY} else State.CANCELLED)


def test_an_empty_end_is_not_retried_when_a_cancel_was_asked_for() -> None:
    again = replace(DEFINITION, retry=RetryPolicy(retry_on=("empty",)))
    assert settled(settle(RUNNING, Outcome.EMPTY, definition=again))[0] is State.RETRY_WAIT
    asked = replace(RUNNING, cancel=CancelRequest(NOW, "anna", ""))
    assert settled(settle(asked, Outcome.EMPTY, definition=again))[0] is State.SUCCEEDED


def test_nobody_is_taken_for_the_scheduler_by_name() -> None:
    asked = replace(RUNNING, cancel=CancelRequest(NOW, "scheduler", "enough"))
    assert settled(settle(asked, Outcome.CANCELLED)) == (State.CANCELLED, Reason.CANCEL_REQUESTED)


def test_a_run_that_the_scheduler_asked_to_stop_is_timed_out_and_not_retried() -> None:
    asked = replace(RUNNING, cancel=CancelRequest(NOW, "scheduler", "long past its deadline", is_overdue=True))
    assert settled(settle(asked, Outcome.CANCELLED)) == (State.TIMED_OUT, Reason.OVERDUE)


@pytest.mark.parametrize("token", [1, 3])
def test_the_result_of_another_attempt_is_ignored(token: int) -> None:
    assert isinstance(settle(RUNNING, Outcome.SUCCEEDED, token=token), Ignore)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_run_takes_no_result(state: State) -> None:
    assert isinstance(settle(replace(RUNNING, state=state), Outcome.SUCCEEDED), Ignore)


def test_a_result_that_comes_again_only_sends_the_retry_again() -> None:
    waiting = settle(RUNNING, Outcome.FAILED).run
    assert settle(waiting, Outcome.FAILED) == SendAgain(waiting)


def test_a_late_result_is_taken_while_the_lost_run_waits_and_its_loss_is_forgotten() -> None:
    decision = settle(LOST, Outcome.SUCCEEDED)
    assert settled(decision) == (State.SUCCEEDED, Reason.COMPLETED)
    assert decision.run.losses == 0


def test_a_run_that_was_handed_back_takes_no_result_of_the_attempt_that_gave_it_back() -> None:
    assert isinstance(settle(replace(LOST, lost_token=None), Outcome.SUCCEEDED), Ignore)


def test_a_result_of_a_run_that_is_gone_is_ignored() -> None:
    """Q-14."""
    assert isinstance(settle(None, Outcome.SUCCEEDED), Ignore)
