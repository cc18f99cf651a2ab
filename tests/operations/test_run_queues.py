"""Which queue carries a run, from its first message to its last."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from clawjob.aws.run_item import item_of, run_of
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import Outcome, State
from clawjob.operations.apply_job import create_job, replace_job
from clawjob.operations.hand_back import hand_back
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.calls import wrap
from support.clock import ManualClock
from support.runs import a_job, claimed, result_of, run_tick
from support.service import Service

HIGH, LOW = QueueClass.HIGH, QueueClass.LOW
HOUR = timedelta(hours=1)


def counts(service: Service) -> tuple[int, int]:
    """Messages that can be taken from the high and the low queue."""
    waiting = service.context.queues.waiting
    return waiting("default", HIGH), waiting("default", LOW)


@pytest.mark.parametrize(("priority", "expected"), [(5, (1, 0)), (4, (1, 0)), (3, (0, 1)), (1, (0, 1))])
def test_a_run_waits_in_the_queue_of_its_jobs_priority(
    service: Service, priority: int, expected: tuple[int, int]
) -> None:
    create_job(service.context, a_job(cron=None, priority=priority))
    trigger_run(service.context, "news", {}, None)
    assert counts(service) == expected


def test_a_scheduled_run_waits_in_the_queue_of_its_jobs_priority(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job(priority=5))
    clock.advance(HOUR)
    run_tick(service.context)
    high, low = counts(service)
    assert high > 0
    assert low == 0


def test_a_retry_and_a_run_that_is_handed_back_stay_in_their_queue(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job(cron=None, priority=4))
    trigger_run(context, "news", {}, None)
    (message,) = service.receive(queue=HIGH)
    first = claimed(context, message)
    hand_back(context, result_of(first.run, Outcome.INTERRUPTED, clock()))
    context.queues.delete(message)
    (message,) = service.receive(queue=HIGH)
    second = claimed(context, message)
    settle_attempt(context, result_of(second.run, Outcome.FAILED, clock()))
    context.queues.delete(message)
    clock.advance(10 * timedelta(minutes=1))
    (message,) = service.receive(queue=HIGH)
    assert claimed(context, message).run.retry == 1
    assert counts(service) == (0, 0)


def test_a_lost_message_is_sent_again_to_its_own_queue_whatever_waits_in_the_other(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron=None, priority=5))
    create_job(context, a_job(cron=None, name="other"))
    trigger_run(context, "news", {}, None)
    (message,) = service.receive(queue=HIGH)
    context.queues.delete(message)
    clock.advance(HOUR)
    trigger_run(context, "other", {}, None)
    run_tick(context)
    assert counts(service) == (1, 1)


def test_a_run_keeps_its_queue_when_the_jobs_priority_changes_before_it_is_taken(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron=None, priority=5))
    trigger_run(context, "news", {}, None)
    replace_job(context, "news", a_job(cron=None, priority=1))
    (message,) = service.receive(queue=HIGH)
    taken = claimed(context, message)
    assert (taken.run.state, taken.run.queue) == (State.RUNNING, HIGH)
    trigger_run(context, "news", {}, None)
    assert counts(service) == (0, 1)


def test_a_run_of_the_low_queue_says_nothing_of_it_so_that_older_records_read_the_same(service: Service) -> None:
    create_job(service.context, a_job(cron=None))
    run = trigger_run(service.context, "news", {}, None).run
    assert "queue" not in item_of(run)
    assert run_of(item_of(run)).queue is LOW


def test_each_message_is_of_the_group_of_its_job_so_that_one_jobs_backlog_delays_no_other(service: Service) -> None:
    sent: list[dict[str, Any]] = []

    def note(name: str, parameters: dict[str, Any], make: Any) -> Any:
        if name == "SendMessageBatch":
            sent.extend(parameters["Entries"])
        return make(name, parameters)

    wrap(service.sqs, note)
    uids = []
    for name in ("news", "other"):
        create_job(service.context, a_job(cron=None, name=name))
        uids.append(trigger_run(service.context, name, {}, None).run.uid)
    assert [entry["MessageGroupId"] for entry in sent] == uids


@pytest.mark.parametrize("answer", ["denied", "failed"])
def test_why_a_queue_took_nothing_is_logged_because_the_callers_go_on(
    answer: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    create_job(service.context, a_job(cron=None))

    def refuse(name: str, parameters: dict[str, Any], make: Any) -> Any:
        if name != "SendMessageBatch":
            return make(name, parameters)
        if answer == "denied":
            raise ClientError({"Error": {"Code": "AccessDenied"}}, name)
        return {"Failed": [{"Id": one["Id"], "SenderFault": True, "Code": "Odd"} for one in parameters["Entries"]]}

    wrap(service.sqs, refuse)
    trigger_run(service.context, "news", {}, None)
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.__dict__["why"] == {"denied": "AccessDenied", "failed": "Odd"}[answer]
    assert record.__dict__["runs"] == 1
    assert record.__dict__["queue"].startswith("https://")
