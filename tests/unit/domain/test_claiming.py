from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clawjob.domain.claiming import (
    AskHolder,
    Claimant,
    Drop,
    End,
    GiveBack,
    Holder,
    Start,
    Wait,
    decide_claim,
)
from clawjob.domain.definition import Definition, Overlap
from clawjob.domain.job_state import JobState
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import FINAL, Attempt, CancelRequest, Outcome, Reason, Run, RunKind, State
from clawjob.domain.times import Times

TIMES = Times()
NOW = datetime(2024, 6, 5, 12, tzinfo=UTC)
DEFINITION = Definition(name="news", command="/bin/true", overlap=Overlap.ALLOW)
JOB = JobState(
    uid="000000000001", name="news", version=1, enabled=True, planned_until=NOW, created_at=NOW, changed_at=NOW
)
RUN = Run(
    run_id="000000000001-20240605T120000Z",
    uid="000000000001",
    job="news",
    kind=RunKind.SCHEDULED,
    state=State.QUEUED,
    version=1,
    pool="default",
    scheduled_at=NOW,
    not_before=NOW,
    queued_at=NOW,
)
RUNNING = replace(
    RUN,
    state=State.RUNNING,
    token=1,
    message_id="m1",
    lease_until=NOW + timedelta(seconds=60),
    attempt=Attempt(number=1, worker="w1", started_at=NOW),
)
VANISHED = replace(RUNNING, lease_until=NOW)


def claim(run: Run, *, retry: int = 0, message_id: str = "m1", **more: Any) -> Any:
    job, definition = more.pop("job", JOB), more.pop("definition", DEFINITION)
    claimant = Claimant("w2", RunMessage(run.run_id, retry), message_id, more.pop("now", NOW))
    more.setdefault("superseded", False)
    return decide_claim(run, job, definition, claimant, TIMES, **more)


def ended(decision: Any) -> tuple[State, Reason | None]:
    assert isinstance(decision, End), decision
    assert decision.run.due_at is None
    assert decision.run.expires_at is not None
    return decision.run.state, decision.run.reason


def test_a_due_run_starts_with_the_next_token_and_a_lease() -> None:
    decision = claim(RUN)
    assert isinstance(decision, Start)
    assert decision.run.state is State.RUNNING
    assert decision.run.token == 1
    assert decision.run.lease_until == NOW + TIMES.lease
    assert decision.lost is None


def test_a_run_that_comes_a_little_early_is_waited_for() -> None:
    assert claim(RUN, now=NOW - timedelta(seconds=3)) == Wait(NOW)


def test_a_run_that_comes_too_early_goes_back() -> None:
    decision = claim(RUN, now=NOW - timedelta(seconds=10))
    assert isinstance(decision, GiveBack)
    assert timedelta(seconds=7) <= decision.delay < timedelta(seconds=10)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_the_message_of_a_final_run_is_deleted(state: State) -> None:
    assert isinstance(claim(replace(RUN, state=state)), Drop)


def test_the_message_of_an_earlier_try_is_deleted() -> None:
    assert isinstance(claim(replace(RUN, retry=1), retry=0), Drop)
    assert isinstance(claim(replace(RUN, retry=1), retry=1), Start)


def test_a_copy_of_the_message_is_deleted_while_the_lease_lives() -> None:
    assert isinstance(claim(RUNNING, message_id="copy"), Drop)


def test_the_holders_own_message_comes_back_after_the_lease_would_end() -> None:
    assert claim(RUNNING) == GiveBack(timedelta(seconds=62), "its worker holds the lease")


def test_a_lease_that_ran_out_is_taken_over_and_the_lost_attempt_closed() -> None:
    decision = claim(VANISHED)
    assert isinstance(decision, Start)
    assert decision.run.token == 2
    assert decision.run.losses == 1
    assert decision.lost is not None
    assert (decision.lost.number, decision.lost.outcome) == (1, Outcome.LOST)


def test_the_third_lost_worker_ends_the_run_whatever_retries_are_left() -> None:
    assert ended(claim(replace(VANISHED, losses=2))) == (State.LOST, Reason.WORKER_LOST)


def test_a_vanished_run_whose_cancel_was_asked_for_is_cancelled_and_not_taken_over() -> None:
    asked = replace(VANISHED, cancel=CancelRequest(NOW, "anna", "wrong page"))
    assert ended(claim(asked)) == (State.CANCELLED, Reason.CANCEL_REQUESTED)


def test_a_paused_job_skips_its_scheduled_run() -> None:
    assert ended(claim(RUN, job=replace(JOB, enabled=False))) == (State.SKIPPED, Reason.PAUSED)


def test_a_paused_job_can_be_run_by_hand_and_goes_on_with_its_retries() -> None:
    paused = replace(JOB, enabled=False)
    assert isinstance(claim(replace(RUN, kind=RunKind.MANUAL), job=paused), Start)
    retry = replace(RUN, state=State.RETRY_WAIT, token=1, retry=1)
    assert isinstance(claim(retry, retry=1, job=paused), Start)


@pytest.mark.parametrize("gone", [None, replace(JOB, deleted_at=NOW)])
def test_a_deleted_jobs_run_is_skipped_or_cancelled_when_it_had_begun(gone: JobState | None) -> None:
    assert ended(claim(RUN, job=gone, definition=None)) == (State.SKIPPED, Reason.DELETED)
    begun = replace(RUN, state=State.RETRY_WAIT, token=1)
    assert ended(claim(begun, job=gone, definition=None)) == (State.CANCELLED, Reason.DELETED)


def test_an_instant_that_an_edit_removed_is_skipped() -> None:
    assert ended(claim(RUN, superseded=True)) == (State.SKIPPED, Reason.SUPERSEDED)


def test_a_run_that_waited_longer_than_it_is_worth_expires() -> None:
    definition = replace(DEFINITION, queue_deadline=timedelta(minutes=10))
    assert isinstance(claim(RUN, definition=definition, now=NOW + timedelta(minutes=10)), Start)
    late = claim(RUN, definition=definition, now=NOW + timedelta(minutes=10, seconds=1))
    assert ended(late) == (State.EXPIRED, Reason.QUEUE_DEADLINE)


SKIP = replace(DEFINITION, overlap=Overlap.SKIP)
OTHER = replace(RUN, run_id="000000000001-20240605T115500Z", not_before=NOW - timedelta(minutes=5))


def test_the_slot_that_the_advance_gave_needs_no_further_read() -> None:
    decision = claim(RUN, definition=SKIP, job=replace(JOB, active=RUN.run_id))
    assert isinstance(decision, Start)
    assert not decision.takes_slot


def test_a_slot_that_nobody_had_is_taken() -> None:
    decision = claim(RUN, definition=SKIP)
    assert isinstance(decision, Start)
    assert decision.takes_slot


def test_the_holder_of_the_slot_is_asked_for_and_keeps_others_out_until_it_is_final() -> None:
    """SCH-13: a queued run counts as active."""
    job = replace(JOB, active=OTHER.run_id)
    assert claim(RUN, definition=SKIP, job=job) == AskHolder(OTHER.run_id)
    waiting = claim(RUN, definition=SKIP, job=job, holder=Holder(OTHER, False))
    assert ended(waiting) == (State.SKIPPED, Reason.OVERLAP)
    assert isinstance(waiting, End)
    assert waiting.run.why == OTHER.run_id
    final = claim(RUN, definition=SKIP, job=job, holder=Holder(replace(OTHER, state=State.FAILED), False))
    assert isinstance(final, Start)
    assert final.takes_slot
    removed = claim(RUN, definition=SKIP, job=job, holder=Holder(None, False))
    assert isinstance(removed, Start)


def test_a_run_by_hand_is_not_kept_out_by_one_whose_instant_has_not_come() -> None:
    job = replace(JOB, active=OTHER.run_id)
    later = replace(OTHER, not_before=NOW + timedelta(minutes=2))
    decision = claim(RUN, definition=SKIP, job=job, holder=Holder(later, False))
    assert isinstance(decision, Start)
    assert decision.from_holder == later
    begun = replace(later, token=1, state=State.RETRY_WAIT)
    assert isinstance(claim(RUN, definition=SKIP, job=job, holder=Holder(begun, False)), End)


def test_a_holder_that_will_never_start_keeps_nobody_out() -> None:
    job = replace(JOB, active=OTHER.run_id)
    assert isinstance(claim(RUN, definition=SKIP, job=job, holder=Holder(OTHER, True)), Start)
    short = replace(SKIP, queue_deadline=timedelta(minutes=4))
    assert isinstance(claim(RUN, definition=short, job=job, holder=Holder(OTHER, False)), Start)


def test_a_copy_does_not_take_over_while_the_result_may_be_on_its_way() -> None:
    assert isinstance(claim(VANISHED, message_id="copy"), Drop)
    late = claim(VANISHED, message_id="copy", now=NOW + TIMES.lost_after)
    assert isinstance(late, Start)


def test_a_take_over_is_not_kept_out_by_its_own_job() -> None:
    decision = claim(VANISHED, definition=SKIP, job=replace(JOB, active=OTHER.run_id))
    assert isinstance(decision, Start)
    assert not decision.takes_slot


def test_a_retry_waits_for_its_instant() -> None:
    waiting = replace(RUN, state=State.RETRY_WAIT, token=1, retry=1, not_before=NOW + timedelta(minutes=5))
    assert isinstance(claim(waiting, retry=1), GiveBack)
    assert isinstance(claim(waiting, retry=1, now=NOW + timedelta(minutes=5)), Start)
