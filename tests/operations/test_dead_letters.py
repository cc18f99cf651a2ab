"""Dead letters: seen without harm, sent back without a second execution, dropped without a lost run."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.dead_letters import DeadLetters, DeadQueueNotFoundError
from clawjob.aws.table import DEAD_LETTER_RECEIVES
from clawjob.domain.claiming import Drop
from clawjob.domain.definition import RetryPolicy
from clawjob.domain.messages import RunMessage, result_to_body
from clawjob.domain.run import Outcome, State
from clawjob.operations import dead_letters as letters
from clawjob.operations.apply_job import create_job
from clawjob.operations.dead_letters import LetterNotFoundError, NoWayBackError, drop, list_dead_letters, redrive
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.calls import wrap
from support.clock import ManualClock
from support.faults import refused
from support.letters import LOW, bodies_in, dead_in, dead_letters, low_queue, put_dead
from support.runs import a_job, claim, claimed, result_of, run_tick
from support.service import TABLE, Service

ID = "0123456789ab-m{:08d}"


@pytest.fixture
def dead(service: Service) -> DeadLetters:
    return dead_letters(service)


MOMENT = timedelta(milliseconds=10)
"""moto calls a message visible when its instant is over."""


def run_body(number: int = 1) -> str:
    return RunMessage(ID.format(number), 0).to_body()


def triggered(service: Service, **more: Any) -> str:
    create_job(service.context, a_job(cron=None, **more))
    return trigger_run(service.context, "news", {}, None).run.run_id


def whys(service: Service, dead: DeadLetters, clock: ManualClock, queue: str = LOW) -> list[str]:
    (view,) = list_dead_letters(service.context, dead, queue, 10)
    clock.advance(MOMENT)
    return [one.why for one in view.letters]


def test_a_message_that_is_taken_ten_times_is_seen_among_the_dead_letters(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    run_id = triggered(service)
    for _ in range(DEAD_LETTER_RECEIVES):
        assert len(service.receive()) == 1
        clock.advance(service.context.times.lease + timedelta(seconds=1))
    assert service.receive() == []
    views = {view.name: view for view in list_dead_letters(service.context, dead, None, 10)}
    assert set(views) == {"runs-default-high", LOW, "results", "ticks"}
    (view,) = views[LOW].letters
    assert (view.letter.what, view.job) == (f"run {run_id}, retry 0", "news")
    assert view.why.startswith("Its run is QUEUED. No worker could handle")
    assert view.message.receives > DEAD_LETTER_RECEIVES
    assert {name: one.counts.waiting for name, one in views.items() if name != LOW} == {
        "runs-default-high": 0,
        "results": 0,
        "ticks": 0,
    }


def test_looking_leaves_the_messages_for_the_next_who_asks(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    put_dead(service, *map(run_body, range(25)))
    for most in (0, 1, 25, 100):
        clock.advance(MOMENT)
        (view,) = list_dead_letters(service.context, dead, LOW, most)
        assert view.counts.waiting == 25
        ids = {one.message.message_id for one in view.letters}
        assert len(ids) == len(view.letters) == min(most, 25)
    clock.advance(MOMENT)
    assert len(dead_in(service)) == 25


def test_looking_that_is_cut_off_hides_the_messages_for_seconds_only(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    put_dead(service, run_body())
    taken = dead.take(LOW, letters._LOOK)
    assert len(next(taken)) == 1
    assert whys(service, dead, clock) == []
    clock.advance(timedelta(seconds=20))
    assert len(whys(service, dead, clock)) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("no JSON", "nobody can read it"),
        ("[" * 50_000, "nobody can read it"),
        ('{"v": 1, "run_id": "x", "retry": true}', "nobody can read it"),
        ('{"v": 99, "run_id": "x", "retry": 0}', "newer version"),
        (RunMessage("x" * 3000, 0).to_body(), "names a run that cannot be"),
        (run_body(), "not kept any more"),
    ],
)
def test_a_body_that_nobody_can_read_is_told_and_never_shown(
    service: Service, dead: DeadLetters, body: str, why: str
) -> None:
    put_dead(service, body)
    (view,) = list_dead_letters(service.context, dead, LOW, 10)
    (one,) = view.letters
    assert why in one.why
    assert len(one.letter.what) < 100
    assert "JSON" not in one.letter.what


def test_two_messages_of_one_run_are_both_told(service: Service, dead: DeadLetters, clock: ManualClock) -> None:
    body = RunMessage(triggered(service), 0).to_body()
    put_dead(service, body, body)
    assert len(whys(service, dead, clock)) == 2


def test_a_report_is_told_by_run_and_attempt_and_never_by_what_a_crawler_wrote(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    triggered(service, max_retry=0)
    run = claimed(service.context, *service.receive()).run
    secret = {"outputs": {"key": "s3cret"}, "log_tail": "s3cret", "detail": "s3cret", "exit_code": 1}
    body = result_to_body(result_of(run, Outcome.FAILED, clock(), **secret))
    put_dead(service, body, queue="results")
    (view,) = list_dead_letters(service.context, dead, "results", 10)
    (one,) = view.letters
    assert one.letter.what == f"report of run {run.run_id}, attempt 1: failed"
    assert "RUNNING, at this attempt" in one.why
    assert "s3cret" not in f"{one.letter}{one.why}"
    settle_attempt(service.context, result_of(run, Outcome.FAILED, clock()))
    clock.advance(MOMENT)
    assert whys(service, dead, clock, "results") == ["Its run is FAILED, attempt 1: sent back, it changes nothing."]


def test_a_message_of_a_run_that_cannot_be_read_says_so(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    run_id = triggered(service)
    put_dead(service, RunMessage(run_id, 0).to_body())
    key = next({name: item[name] for name in ("pk", "sk")} for item in service.items() if run_id in str(item["pk"]))
    service.dynamodb.update_item(
        TableName=TABLE,
        Key=key,
        UpdateExpression="SET #state = :bad",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":bad": {"S": "NONSENSE"}},
    )
    assert whys(service, dead, clock) == [
        "The record of its run cannot be read: mend the record, then send the message back."
    ]


def test_a_tick_is_told_with_what_the_rule_noted_and_can_only_be_dropped(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    notes = {
        "ERROR_CODE": {"DataType": "String", "StringValue": "NO_PERMISSIONS"},
        "ERROR_MESSAGE": {"DataType": "String", "StringValue": "not authorized"},
    }
    put_dead(service, json.dumps({"time": "2024-03-09T12:00:00Z"}), queue="ticks", MessageAttributes=notes)
    put_dead(service, "{", queue="ticks")
    (view,) = list_dead_letters(service.context, dead, "ticks", 10)
    told = {(one.letter.what, one.why) for one in view.letters}
    assert told == {
        ("tick of 2024-03-09T12:00:00Z", "NO_PERMISSIONS: not authorized"),
        ("tick of an unknown instant", "It could not be delivered."),
    }
    clock.advance(MOMENT)
    with pytest.raises(NoWayBackError, match="drop it"):
        redrive(service.context, dead, "ticks", None)
    assert drop(service.context, dead, "ticks", None).done == 2


def test_all_are_sent_back_whole_with_their_group_however_many(service: Service, dead: DeadLetters) -> None:
    bodies = [*map(run_body, range(23)), "no JSON"]
    put_dead(service, *bodies, MessageGroupId="0123456789ab")
    handled = redrive(service.context, dead, LOW, None)
    assert (handled.done, handled.refused, handled.has_more) == (24, 0, False)
    assert dead_in(service) == []
    found = service.sqs.receive_message(QueueUrl=low_queue(service), AttributeNames=["All"])["Messages"]
    assert found[0]["Attributes"]["MessageGroupId"] == "0123456789ab"
    assert sorted([found[0]["Body"], *bodies_in(service, low_queue(service))]) == sorted(bodies)


def test_one_is_sent_back_or_dropped_and_the_others_stay(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    ids = put_dead(service, *map(run_body, range(25)))
    assert redrive(service.context, dead, LOW, ids[20]).done == 1
    assert bodies_in(service, low_queue(service)) == [run_body(20)]
    clock.advance(MOMENT)
    assert drop(service.context, dead, LOW, ids[3]).done == 1
    for work in (redrive, drop):
        clock.advance(MOMENT)
        with pytest.raises(LetterNotFoundError, match=ids[20]):
            work(service.context, dead, LOW, ids[20])
    clock.advance(MOMENT)
    assert sorted(dead_in(service)) == sorted(run_body(number) for number in range(25) if number not in (3, 20))


def test_one_call_ends_after_some_hundreds_and_says_that_there_are_more(
    service: Service, dead: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "MOST_AT_ONCE", 20)
    put_dead(service, *map(run_body, range(25)))
    handled = [drop(service.context, dead, LOW, None) for _ in range(2)]
    assert [(one.done, one.has_more) for one in handled] == [(20, True), (5, False)]


def test_a_call_ends_before_the_gateway_gives_up(service: Service, dead: DeadLetters, clock: ManualClock) -> None:
    put_dead(service, *map(run_body, range(25)))
    wrap(service.sqs, lambda name, parameters, call: (clock.advance(timedelta(seconds=4)), call(name, parameters))[1])
    handled = redrive(service.context, dead, LOW, None)
    assert handled.has_more
    assert 0 < handled.done < 25


def test_looking_at_many_queues_ends_in_time_and_counts_the_last_ones(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    for queue in dead.names:
        put_dead(service, "{}", queue=queue)
    wrap(service.sqs, lambda name, parameters, call: (clock.advance(timedelta(seconds=4)), call(name, parameters))[1])
    views = list_dead_letters(service.context, dead, None, 10)
    assert [view.counts.waiting for view in views] == [1] * len(dead.names)
    assert [len(view.letters) for view in views] == [1, 0, 0, 0]


def test_a_queue_that_takes_nothing_leaves_every_message_where_it_is(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    put_dead(service, *map(run_body, range(12)))
    working: list[bool] = []

    def send(name: str, parameters: dict[str, Any], call: Callable[..., Any]) -> Any:
        if name == "SendMessageBatch" and not working:
            raise refused(name)
        return call(name, parameters)

    wrap(service.sqs, send)
    handled = redrive(service.context, dead, LOW, None)
    assert (handled.done, handled.refused) == (0, 12)
    working.append(True)
    clock.advance(MOMENT)
    assert redrive(service.context, dead, LOW, None).done == 12


def test_messages_too_big_for_one_batch_are_sent_one_by_one(service: Service, dead: DeadLetters) -> None:
    put_dead(service, *(str(number) * 150_000 for number in range(3)))
    assert redrive(service.context, dead, LOW, None).done == 3
    assert len(bodies_in(service, low_queue(service))) == 3


def test_a_name_of_no_queue_is_told_with_those_that_there_are(service: Service, dead: DeadLetters) -> None:
    for work in (redrive, drop):
        with pytest.raises(DeadQueueNotFoundError, match="results, ticks"):
            work(service.context, dead, "runs-default-mid", None)


def test_a_message_of_a_settled_run_does_nothing_when_it_is_sent_back(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    triggered(service)
    (message,) = service.receive()
    run = claimed(service.context, message).run
    settle_attempt(service.context, result_of(run, Outcome.SUCCEEDED, clock()))
    service.context.queues.delete(message)
    put_dead(service, message.body)
    before = service.items()
    assert whys(service, dead, clock) == ["Its run is SUCCEEDED: sent back, it does nothing."]
    redrive(service.context, dead, LOW, None)
    (again,) = service.receive()
    assert claim(service.context, again) == Drop("the run is SUCCEEDED")
    assert service.items() == before


def test_a_message_of_an_earlier_try_does_nothing_when_it_is_sent_back(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    retry = RetryPolicy(delays=(timedelta(minutes=1),))
    triggered(service, retry=retry)
    (message,) = service.receive()
    run = claimed(service.context, message).run
    settle_attempt(service.context, result_of(run, Outcome.FAILED, clock(), exit_code=1))
    service.context.queues.delete(message)
    put_dead(service, message.body)
    assert whys(service, dead, clock) == ["Its run is RETRY_WAIT, at a later try: sent back, it does nothing."]
    redrive(service.context, dead, LOW, None)
    (again,) = service.receive()
    assert claim(service.context, again) == Drop("the message is of an earlier try")


def test_a_report_that_was_settled_before_changes_nothing_when_it_is_sent_back(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    triggered(service)
    run = claimed(service.context, *service.receive()).run
    result = result_of(run, Outcome.SUCCEEDED, clock())
    settle_attempt(service.context, result)
    put_dead(service, result_to_body(result), queue="results")
    before = service.items()
    assert redrive(service.context, dead, "results", None).done == 1
    assert bodies_in(service, service.urls.results) == [result_to_body(result)]
    assert not settle_attempt(service.context, result).changed
    assert service.items() == before


def test_a_run_whose_message_was_dropped_is_sent_again_by_the_scheduler(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    run_id = triggered(service)
    (message,) = service.receive()
    service.context.queues.delete(message)
    put_dead(service, message.body)
    assert drop(service.context, dead, LOW, None).done == 1
    clock.advance(service.context.times.check + timedelta(minutes=1))
    run_tick(service.context)
    assert claimed(service.context, *service.receive()).run.run_id == run_id


@pytest.mark.parametrize("second", [redrive, drop])
@pytest.mark.parametrize("first", [redrive, drop])
def test_of_two_who_ask_at_once_each_message_is_for_one(
    service: Service, clock: ManualClock, first: Callable[..., Any], second: Callable[..., Any]
) -> None:
    """The second does all of its work before each call of the first in turn."""
    del clock
    bodies = list(map(run_body, range(12)))
    number, reached = 0, True
    dead = dead_letters(service)
    inside: list[Any] = []
    left = [0]

    def intrude(name: str, parameters: dict[str, Any], call: Callable[..., Any]) -> Any:
        left[0] -= 1
        if left[0] == 0:
            inside.append(second(service.context, dead, LOW, None))
        return call(name, parameters)

    wrap(service.sqs, intrude)
    while reached:
        number += 1
        left[0] = 0
        put_dead(service, *bodies)
        inside.clear()
        left[0] = number
        one = first(service.context, dead, LOW, None)
        left[0] = 0
        reached = bool(inside)
        counts = {first: 0, second: 0}
        counts[first] += one.done
        counts[second] += inside[0].done if inside else 0
        assert sum(counts.values()) == 12
        sent = bodies_in(service, low_queue(service))
        assert len(sent) == len(set(sent)) == counts.get(redrive, 0)
        assert dead_in(service) == []
    assert number > 5


def test_a_crash_between_sending_and_deleting_leaves_a_copy_and_loses_nothing(
    service: Service, dead: DeadLetters, clock: ManualClock
) -> None:
    triggered(service)
    (message,) = service.receive()
    service.context.queues.delete(message)
    put_dead(service, message.body)

    def die(name: str, parameters: dict[str, Any], call: Callable[..., Any]) -> Any:
        if name == "DeleteMessageBatch" and not died:
            died.append(True)
            raise KeyboardInterrupt
        return call(name, parameters)

    died: list[bool] = []
    wrap(service.sqs, die)
    with pytest.raises(KeyboardInterrupt):
        redrive(service.context, dead, LOW, None)
    clock.advance(timedelta(minutes=1))
    assert redrive(service.context, dead, LOW, None).done == 1
    taken = [claim(service.context, one) for one in service.receive()]
    assert len(taken) == 2
    assert [one.run.state for one in taken if not isinstance(one, Drop)] == [State.RUNNING]
