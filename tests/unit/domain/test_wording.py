from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from clawjob.domain.job_state import JobDecision
from clawjob.domain.run import Reason, Run, RunKind, State
from clawjob.domain.wording import sentence_of_decision, sentence_of_run

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2024, 6, 5, 12, tzinfo=UTC)
RUN = Run(
    run_id="000000000001-20240605T120000Z",
    uid="000000000001",
    job="news",
    kind=RunKind.SCHEDULED,
    state=State.QUEUED,
    version=1,
    pool="default",
    scheduled_at=NOON,
    not_before=NOON,
    queued_at=NOON,
)

DECISIONS = {
    Reason.CREATED: "The job was created; nothing was due yet.",
    Reason.CHANGED: "The job was changed; nothing was due yet.",
    Reason.DISPATCHED: "The run of 2024-06-05 14:00:00 CEST was put on the queue.",
    Reason.CAUGHT_UP: "The run of 2024-06-05 14:00:00 CEST was put on the queue late, because the scheduler had not "
    "been running.",
    Reason.MISSED: "The instant 2024-06-05 14:00:00 CEST was missed and not made up, "
    "as the job's catch-up policy says.",
    Reason.SCHEDULE_ENDED: "The schedule has no more instants.",
    Reason.NO_SCHEDULE: "The job has no schedule; it runs only when it is triggered.",
    Reason.PAUSED: "The job is paused; it runs again after it is resumed.",
    Reason.INVALID: "The job's record cannot be read; save the job again to heal it.",
}

GAP = (
    "3 instants from 2024-06-05 14:00:00 CEST to 2024-06-05 14:00:00 CEST were missed while the scheduler was not "
    "running, and not made up: "
)

RUNS = {
    Reason.PAUSED: "It did not run: the job was paused at its instant.",
    Reason.DELETED: "It did not go on: the job was deleted.",
    Reason.SUPERSEDED: "It did not run: the schedule was changed, and this instant is none of the new one.",
    Reason.OVERLAP: "It did not run: another run of the job had not ended (other-run).",
    Reason.QUEUE_DEADLINE: "It did not run: it waited in the queue longer than the job's queue_deadline.",
    Reason.CATCH_UP_NONE: GAP + "its catch-up policy is none.",
    Reason.CATCH_UP_LAST: GAP + "its catch-up policy runs only the last one.",
    Reason.CATCH_UP_WINDOW: GAP + "they lay before its catch-up window.",
    Reason.CATCH_UP_MAX: GAP + "its catch-up policy allows no more at once.",
    Reason.COMPLETED: "It ended well.",
    Reason.NOT_RETRIED: "It ended badly after 2 attempts, and the job's retry rules give this end no further one.",
    Reason.RETRIES_USED_UP: "It ended badly after 2 attempts; no retry is left.",
    Reason.RETRY_PLANNED: "Attempt 2 ended badly; the next starts at 2024-06-05 14:00:00 CEST.",
    Reason.CANCEL_REQUESTED: "It was cancelled (other-run).",
    Reason.OVERDUE: "It was ended by the scheduler: its worker kept it long past its deadline.",
    Reason.WORKER_LOST: "Its workers vanished 3 times; it is not tried again.",
    Reason.HANDED_BACK: "Its worker was told to stop and handed it back; another worker takes it.",
}


@pytest.mark.parametrize("reason", sorted(DECISIONS))
def test_each_decision_about_a_job_has_its_sentence(reason: Reason) -> None:
    decision = JobDecision(reason=reason, at=NOON, scheduled_at=NOON, count=1)
    assert sentence_of_decision(decision, BERLIN) == DECISIONS[reason]


@pytest.mark.parametrize("reason", sorted(RUNS))
def test_each_reason_of_a_run_has_its_sentence(reason: Reason) -> None:
    run = replace(RUN, reason=reason, why="other-run", token=2, losses=3, gap_until=NOON, gap_count=3)
    assert sentence_of_run(run, BERLIN) == RUNS[reason]


def test_no_reason_is_without_a_sentence() -> None:
    assert DECISIONS.keys() | RUNS.keys() == set(Reason)


def test_many_instants_are_counted_in_the_sentence() -> None:
    many = JobDecision(reason=Reason.DISPATCHED, at=NOON, scheduled_at=NOON, count=3)
    assert sentence_of_decision(many, BERLIN) == "3 runs up to 2024-06-05 14:00:00 CEST were put on the queue."


def test_a_run_without_a_reason_needs_no_sentence() -> None:
    assert sentence_of_run(RUN, BERLIN) == ""
