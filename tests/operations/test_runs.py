from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clawjob.domain.claiming import Drop, GiveBack
from clawjob.domain.definition import Overlap, RetryPolicy
from clawjob.domain.errors import (
    IdempotencyKeyReusedError,
    InvalidInputError,
    JobNotFoundError,
    LeaseLostError,
    RunNotFoundError,
    UnreadableRecordError,
)
from clawjob.domain.messages import RunMessage, result_from_body, result_to_body
from clawjob.domain.run import Outcome, Reason, State
from clawjob.operations.apply_job import create_job, delete_job, replace_job
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.claim_run import claim_run
from clawjob.operations.context import Context
from clawjob.operations.hand_back import hand_back
from clawjob.operations.insights import get_run, list_runs
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.calls import wrap
from support.clock import ManualClock
from support.runs import a_job, claim, claimed, result_of, run_tick
from support.service import TABLE, Service

MINUTE = timedelta(minutes=1)


def manual(context: Context, **more: Any) -> None:
    create_job(context, a_job(cron=None, **more))


def test_a_key_gives_one_run_however_often_it_comes(context: Context) -> None:
    """A-08."""
    manual(context, params={"page": 1})
    first = trigger_run(context, "news", {"page": 2}, "order-7")
    again = trigger_run(context, "news", {"page": 2}, "order-7")
    assert (first.created, again.created) == (True, False)
    assert first.run.run_id == again.run.run_id
    with pytest.raises(IdempotencyKeyReusedError):
        trigger_run(context, "news", {"page": 3}, "order-7")


def test_without_a_key_each_request_is_a_run(context: Context) -> None:
    """A-08."""
    manual(context)
    assert trigger_run(context, "news", {}, None).run.run_id != trigger_run(context, "news", {}, None).run.run_id


@pytest.mark.parametrize(
    ("params", "field"),
    [({"pge": 1}, "params.pge"), ({"page": "1"}, "params.page"), ({"page": True}, "params.page")],
)
def test_a_param_that_does_not_fit_is_refused_and_nothing_is_stored(
    service: Service, params: dict[str, Any], field: str
) -> None:
    manual(service.context, params={"page": 1})
    before = service.items()
    with pytest.raises(InvalidInputError) as refused:
        trigger_run(service.context, "news", params, None)
    assert [problem.field for problem in refused.value.problems] == [field]
    assert service.items() == before


def test_the_params_of_a_manual_run_reach_its_claim(service: Service) -> None:
    manual(service.context, params={"page": 1, "site": "a"})
    trigger_run(service.context, "news", {"page": 2}, None)
    assert claimed(service.context, *service.receive()).params == {"page": 2, "site": "a"}


def test_a_job_that_is_not_there_cannot_be_triggered(context: Context) -> None:
    with pytest.raises(JobNotFoundError):
        trigger_run(context, "ghost", {}, None)


def test_three_copies_of_a_message_start_one_attempt(service: Service) -> None:
    """Q-05."""
    manual(service.context)
    run = trigger_run(service.context, "news", {}, None).run
    message = RunMessage(run.run_id, 0)
    answers = [claim_run(service.context, message, f"copy-{number}", "w1") for number in range(3)]
    assert [isinstance(answer, Drop) for answer in answers] == [False, True, True]


def test_a_claim_whose_answer_was_lost_is_ours(service: Service) -> None:
    manual(service.context)
    trigger_run(service.context, "news", {}, None)

    def twice(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "UpdateItem":
            call(name, parameters)
        return call(name, parameters)

    (message,) = service.receive()
    restore = wrap(service.dynamodb, twice)
    assert claimed(service.context, message).run.token == 1
    restore()


def test_a_message_of_a_run_that_is_gone_is_deleted(context: Context) -> None:
    """Q-14."""
    assert isinstance(claim_run(context, RunMessage("000000000009-m1", 0), "m", "w"), Drop)
    assert isinstance(claim_run(context, RunMessage("nonsense", 0), "m", "w"), Drop)


@pytest.mark.parametrize(
    "body", ["{}", "[]", "", "null", '{"v":99,"run_id":"x","retry":0}', '{"v":1,"run_id":7,"retry":0}']
)
def test_a_body_that_is_none_of_ours_is_refused_by_name(body: str) -> None:
    """Q-14."""
    with pytest.raises(UnreadableRecordError):
        RunMessage.from_body(body)
    with pytest.raises(UnreadableRecordError):
        result_from_body(body)


def test_a_long_retry_starts_not_before_its_instant_and_at_most_a_tick_after(
    service: Service, clock: ManualClock
) -> None:
    """Q-07: 2,400 s, beyond the queue's longest delay."""
    context = service.context
    manual(context, retry=RetryPolicy(delays=(timedelta(seconds=2400),), jitter=0.0))
    run = trigger_run(context, "news", {}, None).run
    settle_attempt(context, result_of(claimed(context, *service.receive()).run, Outcome.FAILED, clock()))
    begin = clock()
    started = None
    while started is None and clock() < begin + timedelta(hours=2):
        clock.advance(MINUTE)
        run_tick(context)
        for message in service.receive():
            if not isinstance(claim(context, message), Drop | GiveBack):
                started = clock()
    assert started is not None
    assert timedelta(seconds=2400) <= started - begin <= timedelta(seconds=2460)
    assert get_run(context, run.run_id).run.retry == 1


def test_a_result_that_comes_twice_counts_once(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context)
    trigger_run(context, "news", {}, None)
    result = result_of(claimed(context, *service.receive()).run, Outcome.SUCCEEDED, clock(), items=7)
    assert settle_attempt(context, result).changed
    again = settle_attempt(context, replace(result, outcome=Outcome.FAILED))
    assert not again.changed
    assert again.run is not None
    assert again.run.state is State.SUCCEEDED


def test_a_stale_workers_result_is_refused(service: Service, clock: ManualClock) -> None:
    """B3: fencing."""
    context = service.context
    manual(context)
    trigger_run(context, "news", {}, None)
    (message,) = service.receive()
    stale = claimed(context, message, "w1")
    clock.advance(context.times.lease)
    fresh = claimed(context, message, "w2")
    assert fresh.run.token == 2
    with pytest.raises(LeaseLostError):
        context.runs.extend_lease(stale.run.run_id, 1, clock() + MINUTE)
    assert not settle_attempt(context, result_of(stale.run, Outcome.SUCCEEDED, clock())).changed
    with pytest.raises(LeaseLostError):
        hand_back(context, result_of(stale.run, Outcome.INTERRUPTED, clock()))
    assert settle_attempt(context, result_of(fresh.run, Outcome.SUCCEEDED, clock())).changed
    outcomes = [attempt.outcome for attempt in get_run(context, fresh.run.run_id).attempts]
    assert outcomes == [Outcome.LOST, Outcome.SUCCEEDED]


def test_a_worker_that_comes_back_in_time_is_not_counted_as_the_third_loss(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    manual(context)
    run = trigger_run(context, "news", {}, None).run
    (message,) = service.receive()
    for _ in range(3):
        taken = claimed(context, message)
        clock.advance(context.times.lease)
    renewed = []

    def renew_first(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "UpdateItem" and not renewed:
            renewed.append(True)
            context.runs.extend_lease(run.run_id, taken.run.token, clock() + context.times.lease)
        return call(name, parameters)

    restore = wrap(service.dynamodb, renew_first)
    assert not isinstance(claim(context, message, "w2"), Drop)
    restore()
    assert context.runs.get(run.run_id).state is State.RUNNING  # type: ignore[union-attr]  # it is there


def test_a_late_result_is_taken_while_the_run_waits_again(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context)
    run = trigger_run(context, "news", {}, None).run
    (message,) = service.receive()
    taken = claimed(context, message)
    context.queues.delete(message)
    clock.advance(timedelta(minutes=30))
    assert run_tick(context).rescue.lost == 1
    assert context.runs.get(run.run_id).state is State.QUEUED  # type: ignore[union-attr]  # it is there
    assert settle_attempt(context, result_of(taken.run, Outcome.SUCCEEDED, clock())).changed
    detail = get_run(context, run.run_id)
    assert (detail.run.state, detail.run.losses) == (State.SUCCEEDED, 0)
    assert [attempt.outcome for attempt in detail.attempts] == [Outcome.SUCCEEDED]
    assert isinstance(claim(context, *service.receive()), Drop)


def test_a_cancel_that_comes_while_a_bad_end_is_settled_wins(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context)
    run = trigger_run(context, "news", {}, None).run
    taken = claimed(context, *service.receive())
    asked = []

    def cancel_first(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "TransactWriteItems" and not asked:
            asked.append(True)
            cancel_run(context, run.run_id, "anna", "wrong page")
        return call(name, parameters)

    restore = wrap(service.dynamodb, cancel_first)
    settled = settle_attempt(context, result_of(taken.run, Outcome.FAILED, clock(), exit_code=1))
    restore()
    assert settled.run is not None
    assert (settled.run.state, settled.run.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)


@pytest.mark.parametrize("waiting", ["queued", "retry"])
def test_a_run_that_waits_is_cancelled_at_once(service: Service, clock: ManualClock, waiting: str) -> None:
    context = service.context
    manual(context)
    run = trigger_run(context, "news", {}, None).run
    if waiting == "retry":
        settle_attempt(context, result_of(claimed(context, *service.receive()).run, Outcome.FAILED, clock()))
    assert cancel_run(context, run.run_id, "anna", "enough").state is State.CANCELLED
    clock.advance(timedelta(minutes=10))
    assert all(isinstance(claim(context, message), Drop) for message in service.receive())
    assert run_tick(context).items_read == 0
    assert cancel_run(context, run.run_id, "bert", "again").why == "enough"


def test_cancelling_what_is_not_there_says_so(context: Context) -> None:
    with pytest.raises(RunNotFoundError):
        cancel_run(context, "000000000001-m1", "anna", "")


def test_a_retry_of_a_deleted_jobs_run_ends_cancelled(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context)
    run = trigger_run(context, "news", {}, None).run
    settle_attempt(context, result_of(claimed(context, *service.receive()).run, Outcome.FAILED, clock()))
    delete_job(context, "news")
    clock.advance(timedelta(minutes=6))
    assert all(isinstance(claim(context, message), Drop) for message in service.receive())
    final = context.runs.get(run.run_id)
    assert final is not None
    assert (final.state, final.reason) == (State.CANCELLED, Reason.DELETED)


def test_an_expired_run_that_the_store_still_has_is_gone_for_readers(service: Service, clock: ManualClock) -> None:
    """DB-08."""
    context = service.context
    manual(context)
    run = trigger_run(context, "news", {}, None).run
    cancel_run(context, run.run_id, "anna", "")
    assert len(list_runs(context, "news", 10).items) == 1
    clock.advance(context.times.retention)
    assert list_runs(context, "news", 10).items == ()
    with pytest.raises(RunNotFoundError):
        get_run(context, run.run_id)


def test_everything_of_a_run_is_removed_in_the_end(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context, params={"page": 1})
    trigger_run(context, "news", {"page": 2}, None)
    for _ in range(2):
        for message in service.receive():
            run = claimed(context, message).run
            context.queues.delete(message)
            bad = result_of(run, Outcome.FAILED, clock(), log_tail="boom", outputs={"a": 1}, exit_code=1)
            settle_attempt(context, bad)
        clock.advance(timedelta(minutes=6))
    cancel_run(context, run.run_id, "anna", "")
    items = [item for item in service.items() if item["pk"]["S"].startswith("RUN#")]
    assert len(items) >= 5
    assert all("expires_at" in item for item in items)


def test_two_runs_by_hand_of_a_job_that_skips_overlaps(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context, overlap=Overlap.SKIP)
    for _ in range(2):
        trigger_run(context, "news", {}, None)
        clock.advance(timedelta(seconds=1))
    answers = [claim(context, message) for message in service.receive()]
    assert sorted(type(answer).__name__ for answer in answers) == ["Claimed", "Drop"]


def test_a_run_by_hand_just_before_a_scheduled_one_is_not_skipped_but_skips_it(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(overlap=Overlap.SKIP))
    trigger_run(context, "news", {}, None)
    first = claimed(context, *service.receive())
    clock.advance(2 * MINUTE)
    context.runs.extend_lease(first.run.run_id, 1, clock() + 10 * MINUTE)
    answers = [claim(context, message, "w2") for message in service.receive()]
    assert not [answer for answer in answers if type(answer).__name__ == "Claimed"]
    states = {run.reason for run in list_runs(context, "news", 10).items}
    assert Reason.OVERLAP in states


def test_a_long_error_text_is_cut_and_the_result_not_lost(service: Service, clock: ManualClock) -> None:
    """DB-01: a 500 KB error text."""
    context = service.context
    manual(context, max_retry=0)
    trigger_run(context, "news", {}, None)
    run = claimed(context, *service.receive()).run
    huge = result_of(run, Outcome.FAILED, clock(), detail="x" * 500_000, log_tail="é" * 500_000, exit_code=1)
    settle_attempt(context, result_from_body(result_to_body(huge)))
    detail = get_run(context, run.run_id)
    assert detail.run.state is State.FAILED
    assert detail.run.attempt is not None
    assert len(detail.run.attempt.detail) == 300
    assert 0 < len(detail.log_tail.encode()) <= 4096


def test_outputs_over_their_bound_are_left_out_and_said(service: Service, clock: ManualClock) -> None:
    manual(service.context)
    trigger_run(service.context, "news", {}, None)
    run = claimed(service.context, *service.receive()).run
    big = result_of(run, Outcome.SUCCEEDED, clock(), outputs={"a": "x" * 5000})
    read = result_from_body(result_to_body(big))
    assert read.outputs == {}
    assert "left out" in read.detail


def test_a_throttled_batch_of_reads_is_asked_for_again(service: Service, clock: ManualClock) -> None:
    """DB-10."""
    context = service.context
    manual(context)
    ids = [trigger_run(context, "news", {}, None).run.run_id for _ in range(5)]
    asked = []

    def half(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name != "BatchGetItem":
            return call(name, parameters)
        keys = parameters["RequestItems"][TABLE]["Keys"]
        asked.append(len(keys))
        answer = call(name, {"RequestItems": {TABLE: {"Keys": keys[:2], "ConsistentRead": True}}})
        if keys[2:]:
            answer["UnprocessedKeys"] = {TABLE: {"Keys": keys[2:]}}
        return answer

    restore = wrap(service.dynamodb, half)
    assert sorted(context.runs.get_items(ids)) == sorted(ids)
    restore()
    assert asked == [5, 3, 1]


def test_an_edit_while_a_run_is_queued_does_not_lose_it(service: Service, clock: ManualClock) -> None:
    context = service.context
    manual(context)
    trigger_run(context, "news", {}, None)
    replace_job(context, "news", a_job(cron=None, args=("x",)))
    assert claimed(context, *service.receive()).definition.args == ("x",)
