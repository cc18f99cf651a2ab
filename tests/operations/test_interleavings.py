"""Two actors whose calls fall between each other's, one story each."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clawjob.domain.claiming import Drop
from clawjob.domain.definition import Overlap
from clawjob.domain.errors import UnavailableError
from clawjob.domain.run import FINAL, Outcome, Reason, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job, delete_job, replace_job, set_enabled
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.claim_run import Claimed
from clawjob.operations.context import Context
from clawjob.operations.hand_back import hand_back
from clawjob.operations.insights import get_run, list_jobs, list_runs, why
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.calls import wrap
from support.clock import ManualClock
from support.runs import a_job, claim, claimed, result_of, run_tick
from support.service import TABLE, Service

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
Here = Callable[[str, dict[str, Any]], bool]


def before_first(client: Any, here: Here, act: Callable[[], object]) -> Callable[[], None]:
    """Let somebody act just before the first call that is the one."""
    done: list[bool] = []

    def around(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if not done and here(name, parameters):
            done.append(True)
            act()
        return call(name, parameters)

    undo = wrap(client, around)

    def finish() -> None:
        undo()
        assert done, "the call was never made"

    return finish


def running(context: Context) -> list[str]:
    return [run.run_id for run in list_runs(context, "news", 50).items if run.state is State.RUNNING]


def change(service: Service, pk: str, sk: str, attribute: str, value: dict[str, Any]) -> None:
    service.dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": pk}, "sk": {"S": sk}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": value},
    )


def test_a_run_by_hand_and_the_scheduled_one_that_it_overtakes_never_both_run(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron="0 12 * * *", overlap=Overlap.SKIP))
    clock.advance(2 * MINUTE - timedelta(milliseconds=5))
    trigger_run(context, "news", {}, None)
    messages = service.receive()
    manual = next(message for message in messages if "-m" in message.body)
    scheduled = next(message for message in messages if "-m" not in message.body)

    def the_other_starts() -> None:
        clock.advance(timedelta(milliseconds=10))
        claimed(context, scheduled, "w2")

    finish = before_first(service.dynamodb, lambda name, _: name == "TransactWriteItems", the_other_starts)
    assert isinstance(claim(context, manual), Drop)
    finish()
    assert len(running(context)) == 1


def test_the_run_that_was_overtaken_waits_for_nobody_when_the_other_has_ended(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron="0 12 * * *", overlap=Overlap.SKIP))
    trigger_run(context, "news", {}, None)
    first = claimed(context, *service.receive())
    settle_attempt(context, result_of(first.run, Outcome.SUCCEEDED, clock()))
    clock.advance(2 * MINUTE)
    assert [type(claim(context, message)).__name__ for message in service.receive()].count("Claimed") == 1


def test_an_advance_never_takes_the_slot_from_a_run_that_starts_meanwhile(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron="* * * * *", overlap=Overlap.SKIP))
    clock.advance(MINUTE - timedelta(milliseconds=5))
    (first,) = service.receive()

    def it_starts() -> None:
        clock.advance(timedelta(milliseconds=10))
        claimed(context, first)

    finish = before_first(service.dynamodb, lambda name, p: "planned_until" in p.get("UpdateExpression", ""), it_starts)
    run_tick(context)
    finish()
    clock.advance(MINUTE)
    context.runs.extend_lease(running(context)[0], 1, clock() + 2 * MINUTE)
    for message in service.receive():
        claim(context, message, "w2")
    assert len(running(context)) == 1


def test_a_waiting_run_that_is_too_old_to_start_keeps_no_newer_one_out(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron="*/10 * * * *", overlap=Overlap.SKIP, queue_deadline=5 * MINUTE))
    clock.advance(10 * MINUTE)
    run_tick(context)
    clock.advance(2 * MINUTE + SECOND)
    messages = sorted(service.receive(), key=lambda message: message.body, reverse=True)
    assert isinstance(claim(context, messages[0]), Claimed)
    assert isinstance(claim(context, messages[1]), Drop)
    assert {run.state for run in list_runs(context, "news", 9).items} == {State.RUNNING, State.EXPIRED}


def test_a_late_copy_does_not_execute_again_what_has_ended_well(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron=None))
    run = trigger_run(context, "news", {}, None).run
    (message,) = service.receive()
    context.queues.send_run(run, 150)
    taken = claimed(context, message)
    done = result_of(taken.run, Outcome.SUCCEEDED, clock())
    context.queues.delete(message)
    clock.advance(3 * MINUTE)
    (copy,) = service.receive()
    assert isinstance(claim(context, copy, "w2"), Drop)
    assert settle_attempt(context, done).changed


def test_a_cancel_that_crosses_a_hand_back_ends_the_run(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron=None))
    run_id = trigger_run(context, "news", {}, None).run.run_id
    (message,) = service.receive()
    taken = claimed(context, message)
    finish = before_first(
        service.dynamodb,
        lambda name, p: "#cancel" in p.get("UpdateExpression", ""),
        lambda: hand_back(context, result_of(taken.run, Outcome.INTERRUPTED, clock())),
    )
    assert cancel_run(context, run_id, "anna", "enough").state is State.CANCELLED
    finish()
    assert all(isinstance(claim(context, one), Drop) for one in service.receive())


def test_the_request_to_stop_an_overdue_run_that_has_just_ended_leaves_no_trace(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron=None, timeout=MINUTE, grace=SECOND))
    trigger_run(context, "news", {}, None)
    taken = claimed(context, *service.receive())
    clock.advance(20 * MINUTE)
    context.runs.extend_lease(taken.run.run_id, 1, clock() + 2 * MINUTE)
    finish = before_first(
        service.dynamodb,
        lambda name, p: "#cancel" in p.get("UpdateExpression", ""),
        lambda: settle_attempt(context, result_of(taken.run, Outcome.SUCCEEDED, clock())),
    )
    run_tick(context)
    finish()
    run = get_run(context, taken.run.run_id).run
    assert (run.state, run.cancel, run.due_at) == (State.SUCCEEDED, None, None)


def test_a_hand_back_whose_message_is_refused_is_tried_again(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron=None))
    trigger_run(context, "news", {}, None)
    (message,) = service.receive()
    taken = claimed(context, message)
    interrupted = result_of(taken.run, Outcome.INTERRUPTED, clock())

    def refuse(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "SendMessageBatch":
            raise UnavailableError(name, "busy")
        return call(name, parameters)

    restore = wrap(service.sqs, refuse)
    with pytest.raises(UnavailableError):
        hand_back(context, interrupted)
    restore()
    assert hand_back(context, interrupted).state is State.QUEUED
    assert isinstance(claim(context, *service.receive()), Claimed)


def test_of_two_passes_none_records_as_missed_what_the_other_starts(service: Service, clock: ManualClock) -> None:
    context, other = service.context, service.fresh_context()
    create_job(context, a_job(cron=None, schedule=ScheduleSpec(every=10 * SECOND)))
    clock.advance(10 * MINUTE + timedelta(seconds=9.9))

    def second_pass() -> None:
        clock.advance(timedelta(milliseconds=200))
        run_tick(other)

    finish = before_first(
        service.dynamodb,
        lambda name, p: name == "PutItem" and "gap_count" not in p["Item"] and "kind" in p["Item"],
        second_pass,
    )
    run_tick(context)
    finish()
    runs = list_runs(context, "news", 100).items
    missed = [(run.scheduled_at, run.gap_until) for run in runs if run.state is State.MISSED]
    started = [run.scheduled_at for run in runs if run.state is not State.MISSED]
    assert missed
    assert not [at for at in started if any(low <= at <= (high or low) for low, high in missed)]


def test_setting_aside_a_poison_job_does_not_undo_the_edit_that_healed_it(service: Service, clock: ManualClock) -> None:
    job = create_job(service.context, a_job())
    change(service, f"JOB#{job.state.uid}", "V#00000001", "definition", {"S": "not json"})
    context = service.fresh_context()
    clock.advance(5 * MINUTE)
    finish = before_first(
        service.dynamodb,
        lambda name, p: "#invalid" in p.get("UpdateExpression", ""),
        lambda: replace_job(context, "news", a_job(args=("x",))),
    )
    run_tick(context)
    finish()
    state = context.jobs.get("news")
    assert state.invalid is None
    assert state.due_at is not None


def test_a_state_row_that_cannot_be_read_is_said_listed_around_saved_and_deleted(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    for name in ("news", "other"):
        create_job(context, a_job(name))
    uid = context.jobs.uid_of("news")
    change(service, f"JOB#{uid}", "STATE", "planned_until", {"S": "yesterday"})
    assert [view.state.name for view in list_jobs(context, 10).items] == ["other"]
    assert "heal" in why(context, "news").lines[0].text
    healed = replace_job(context, "news", a_job())
    assert (healed.state.version, healed.state.enabled) == (2, True)
    change(service, f"JOB#{uid}", "STATE", "v", {"N": "0"})
    delete_job(context, "news")
    assert create_job(context, a_job()).state.uid != uid


@pytest.mark.parametrize(
    ("attribute", "value"), [("tags", {"SS": ["x"]}), ("checks", {"S": "many"}), ("v", {"B": b"x"})]
)
def test_no_attribute_of_a_run_can_stop_a_tick(
    service: Service, clock: ManualClock, attribute: str, value: dict[str, Any]
) -> None:
    """CRON-21."""
    context = service.context
    create_job(context, a_job(cron=None))
    run_id = trigger_run(context, "news", {}, None).run.run_id
    create_job(context, a_job("good"))
    change(service, f"RUN#{run_id}", "RUN", attribute, value)
    clock.advance(30 * MINUTE)
    report = run_tick(context)
    assert report.finished
    assert report.dispatch.dispatched == 2
    assert run_tick(context).rescue.failed == 0


def test_a_run_that_cannot_be_read_does_not_stop_its_job(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron="0 12 * * *"))
    run_id = list_runs(context, "news", 1).items[0].run_id
    change(service, f"RUN#{run_id}", "RUN", "v", {"N": "2"})
    set_enabled(context, "news", False)
    set_enabled(context, "news", True)
    state = context.jobs.get("news")
    assert state.invalid is None
    assert state.due_at is not None


def test_an_at_that_passed_while_its_job_was_paused_does_not_run_at_the_resume(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron=None, schedule=ScheduleSpec(at=clock() + 10 * MINUTE)))
    set_enabled(context, "news", False)
    clock.advance(timedelta(hours=3))
    set_enabled(context, "news", True)
    assert list_runs(context, "news", 9).items == ()


def test_a_job_is_created_although_its_first_dispatch_is_refused(service: Service, clock: ManualClock) -> None:
    context = service.fresh_context()

    def refuse(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "BatchGetItem":
            raise UnavailableError(name, "throttled")
        return call(name, parameters)

    restore = wrap(service.dynamodb, refuse)
    assert create_job(context, a_job()).state.version == 1
    restore()
    assert run_tick(context).dispatch.dispatched == 1


@pytest.mark.parametrize("how", ["deleted", "cancelled"])
def test_no_attempt_of_a_final_run_stays_open(service: Service, clock: ManualClock, how: str) -> None:
    context = service.context
    create_job(context, a_job(cron=None))
    run_id = trigger_run(context, "news", {}, None).run.run_id
    (message,) = service.receive()
    claimed(context, message)
    if how == "deleted":
        delete_job(context, "news")
        clock.advance(3 * MINUTE)
        assert isinstance(claim(context, *service.receive()), Drop)
    else:
        context.queues.delete(message)
        clock.advance(30 * MINUTE)
        run_tick(context)
        cancel_run(context, run_id, "anna", "")
    detail = get_run(context, run_id)
    assert detail.run.state in FINAL
    assert [attempt.outcome for attempt in detail.attempts] == [Outcome.LOST]
    assert detail.run.reason in {Reason.DELETED, Reason.CANCEL_REQUESTED}
