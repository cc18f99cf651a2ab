from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clawjob.domain.claiming import Drop
from clawjob.domain.definition import Overlap
from clawjob.domain.errors import NewerRecordError, UnavailableError
from clawjob.domain.ids import scheduled_run_id, shard_of
from clawjob.domain.run import Outcome, Reason, State
from clawjob.operations.apply_job import create_job, delete_job, replace_job, set_enabled
from clawjob.operations.context import Context
from clawjob.operations.insights import get_job, list_runs, why
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.tick import tick
from support.calls import wrap
from support.clock import ManualClock
from support.runs import a_job, claim, claimed, result_of, run_tick
from support.service import TABLE, Service

MINUTE = timedelta(minutes=1)


def spoil_state(service: Service, uid: str, attribute: str, value: dict[str, Any]) -> None:
    service.dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"JOB#{uid}"}, "sk": {"S": "STATE"}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": value},
    )


def spoil_run(service: Service, run_id: str, attribute: str, value: dict[str, Any]) -> None:
    service.dynamodb.update_item(
        TableName=TABLE,
        Key={"pk": {"S": f"RUN#{run_id}"}, "sk": {"S": "RUN"}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": value},
    )


def spoil_definition(service: Service, uid: str, text: str) -> None:
    key = {"pk": {"S": f"JOB#{uid}"}, "sk": {"S": "V#00000001"}}
    service.dynamodb.put_item(TableName=TABLE, Item={**key, "definition": {"S": text}})


POISON = [
    '{"v":1,"name":"bad","command":"/bin/true","schedule":{"cron":"*/0 * * * *"}}',
    '{"v":1,"name":"bad","command":"/bin/true","schedule":{"cron":"* * * * *","timezone":"Europe/Budapesst"}}',
    '{"v":1,"name":"bad","command":"/bin/true","schedule":{"cron":null}}',
    '{"v":0}',
    "not json",
    "[]",
]


@pytest.mark.parametrize("text", POISON)
def test_a_poison_job_never_stops_the_others_and_the_next_edit_heals_it(
    service: Service, clock: ManualClock, text: str
) -> None:
    """CRON-21."""
    context = service.context
    jobs = [create_job(context, a_job(name)) for name in ("first", "bad", "last")]
    fresh = service.fresh_context()
    spoil_definition(service, jobs[1].state.uid, text)
    clock.advance(5 * MINUTE)
    report = run_tick(fresh)
    assert report.dispatch.dispatched == 2
    assert report.dispatch.invalid == 1
    state = context.jobs.get("bad")
    assert state.invalid
    assert state.due_at is None
    assert any(line.label == "invalid" for line in why(fresh, "bad").lines)
    assert run_tick(fresh).dispatch.invalid == 0
    healed = replace_job(fresh, "bad", a_job("bad"))
    assert healed.state.invalid is None
    assert healed.state.due_at is not None


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("v", {"N": "0"}),
        ("v", {"S": "2"}),
        ("planned_until", {"S": "yesterday"}),
        ("version", {"S": "one"}),
        ("enabled", {"NULL": True}),
    ],
)
def test_a_damaged_state_row_leaves_the_index_and_the_others_go_on(
    service: Service, clock: ManualClock, attribute: str, value: dict[str, Any]
) -> None:
    """CRON-21."""
    bad = create_job(service.context, a_job("bad"))
    create_job(service.context, a_job("good"))
    spoil_state(service, bad.state.uid, attribute, value)
    clock.advance(5 * MINUTE)
    report = run_tick(service.context)
    assert report.dispatch.dispatched == 1
    assert report.dispatch.invalid == 1
    assert run_tick(service.context).items_read == 0


def test_a_damaged_run_leaves_the_index_and_the_others_go_on(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job())
    clock.advance(30 * MINUTE)
    run_tick(service.context)
    run = list_runs(service.context, "news", 1).items[0]
    spoil_run(service, run.run_id, "state", {"S": "DREAMING"})
    clock.advance(60 * MINUTE)
    assert run_tick(service.context).rescue.invalid == 1
    assert run_tick(service.context).rescue.invalid == 0


def test_what_a_newer_version_wrote_of_a_job_is_left_to_it_and_the_others_go_on(
    service: Service, clock: ManualClock
) -> None:
    """Two versions share the table while a deployment is under way."""
    context = service.context
    state_row, definition = (create_job(context, a_job(name)).state for name in ("row", "definition"))
    create_job(context, a_job("good"))
    spoil_state(service, state_row.uid, "v", {"N": "2"})
    spoil_definition(service, definition.uid, '{"v":2,"name":"definition","command":"/bin/true","new":[]}')
    clock.advance(5 * MINUTE)
    before = context.jobs.get_items([state_row.uid, definition.uid])
    report = run_tick(service.fresh_context())
    assert (report.dispatch.dispatched, report.dispatch.invalid, report.dispatch.failed) == (1, 0, 2)
    assert context.jobs.get_items([state_row.uid, definition.uid]) == before
    assert run_tick(service.fresh_context()).items_read >= 2


def test_what_a_newer_version_wrote_of_a_run_is_left_to_it(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job())
    clock.advance(2 * MINUTE)
    run = list_runs(context, "news", 1).items[0]
    spoil_run(service, run.run_id, "v", {"N": "2"})
    clock.advance(30 * MINUTE)
    before = context.runs.get_items([run.run_id])
    report = run_tick(context)
    assert (report.rescue.invalid, report.rescue.failed) == (0, 1)
    assert context.runs.get_items([run.run_id]) == before


def test_a_job_does_not_go_past_a_run_that_a_newer_version_put(service: Service, clock: ManualClock) -> None:
    """It may have died before it sent the run's message; it will send it, or the rescue of its version."""
    context = service.context
    job = create_job(context, a_job(cron="0 * * * *")).state
    clock.advance(timedelta(hours=1, minutes=-1))
    instant = clock().replace(minute=0) + timedelta(hours=1)
    run_id = scheduled_run_id(job.uid, instant)
    key = {"pk": {"S": f"RUN#{run_id}"}, "sk": {"S": "RUN"}}
    service.dynamodb.put_item(TableName=TABLE, Item={**key, "v": {"N": "2"}})
    clock.move_to(instant - MINUTE)
    report = run_tick(context)
    assert (report.dispatch.dispatched, report.dispatch.invalid, report.dispatch.failed) == (0, 0, 1)
    assert context.jobs.get("news").planned_until < instant


def test_an_edit_by_an_older_version_is_refused_and_changes_nothing(service: Service, clock: ManualClock) -> None:
    context = service.context
    state_row, definition = (create_job(context, a_job(name)).state for name in ("row", "definition"))
    spoil_state(service, state_row.uid, "v", {"N": "2"})
    spoil_definition(service, definition.uid, '{"v":2,"name":"definition","command":"/bin/true","new":[]}')
    before = service.items()
    fresh = service.fresh_context()
    for change in (
        lambda: replace_job(fresh, "row", a_job("row")),
        lambda: delete_job(fresh, "row"),
        lambda: replace_job(fresh, "definition", a_job("definition")),
        lambda: set_enabled(fresh, "definition", False),
    ):
        with pytest.raises(NewerRecordError):
            change()
    assert service.items() == before


def test_one_missed_record_tells_of_the_whole_gap(service: Service, clock: ManualClock) -> None:
    """SCH-01."""
    context = service.context
    create_job(context, a_job())
    clock.advance(timedelta(hours=12, minutes=4))
    report = run_tick(context)
    assert report.dispatch.missed == 143
    runs = list_runs(context, "news", 10).items
    assert [(run.state, run.gap_count) for run in runs] == [
        (State.QUEUED, 0),
        (State.MISSED, 143),
        (State.QUEUED, 0),
    ]
    assert get_job(context, "news").state.due_at == clock() + 3 * MINUTE - context.times.look_ahead


def test_what_a_refused_message_left_is_sent_by_the_next_tick_once(service: Service, clock: ManualClock) -> None:
    """SCH-09."""
    context = service.context
    create_job(context, a_job())
    clock.advance(5 * MINUTE)

    def refuse(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "SendMessageBatch":
            failed = [{"Id": entry["Id"], "SenderFault": False, "Code": "Busy"} for entry in parameters["Entries"]]
            return {"Failed": failed}
        return call(name, parameters)

    restore = wrap(service.sqs, refuse)
    assert run_tick(context).dispatch.dispatched == 0
    restore()
    clock.advance(MINUTE)
    assert run_tick(context).dispatch.dispatched == 1
    assert run_tick(context).dispatch.dispatched == 0


def test_what_was_sent_but_not_advanced_is_sent_again_and_run_once(service: Service, clock: ManualClock) -> None:
    """SCH-10."""
    context = service.context
    create_job(context, a_job())
    clock.advance(5 * MINUTE)

    def refuse(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "UpdateItem":
            raise UnavailableError(name, "throttled")
        return call(name, parameters)

    restore = wrap(service.dynamodb, refuse)
    assert run_tick(context).dispatch.failed == 1
    restore()
    run_tick(context)
    clock.advance(2 * MINUTE)
    messages = [m for m in service.receive() if "120500" in m.body or "120000" in m.body]
    answers = [claim(context, message) for message in messages]
    assert sum(type(answer).__name__ == "Claimed" for answer in answers) == 2
    assert sum(isinstance(answer, Drop) for answer in answers) == len(answers) - 2
    assert len(answers) == 3


def test_a_tick_whose_time_is_up_stops_and_the_next_one_goes_on(service: Service, clock: ManualClock) -> None:
    """DB-10."""
    context = service.context
    for number in range(40):
        create_job(context, a_job(f"job-{number}", cron="30 12 * * *"))
    clock.advance(30 * MINUTE)
    left = iter([timedelta(seconds=60)] * 5)
    first = tick(context, lambda: next(left, timedelta(seconds=5)))
    assert not first.finished
    second = run_tick(context)
    assert second.finished
    assert first.dispatch.dispatched + second.dispatch.dispatched == 40
    assert 0 < first.dispatch.dispatched < 40


def test_a_shard_that_is_throttled_is_left_for_the_next_tick(service: Service, clock: ManualClock) -> None:
    """DB-10."""
    context = service.context
    for number in range(20):
        create_job(context, a_job(f"job-{number}", cron="30 12 * * *"))
    clock.advance(30 * MINUTE)
    seen = iter(range(1000))

    def throttle(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "Query" and next(seen) % 2:
            raise UnavailableError(name, "ProvisionedThroughputExceededException")
        return call(name, parameters)

    restore = wrap(service.dynamodb, throttle)
    first = run_tick(context)
    restore()
    second = run_tick(context)
    assert first.failed_shards == 8
    assert first.dispatch.dispatched + second.dispatch.dispatched == 20


def test_more_than_a_page_of_jobs_in_one_shard_is_dispatched_in_one_tick(
    service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DB-05."""
    monkeypatch.setattr("clawjob.operations.tick.PAGE", 5)
    context = service.context
    numbers = iter(range(100_000))

    def uid_in_shard_0() -> str:
        return next(uid for n in numbers if shard_of(uid := f"{n:012d}") == 0)

    context = replace(context, new_uid=uid_in_shard_0)
    for number in range(12):
        create_job(context, a_job(f"job-{number}", cron="30 12 * * *"))
    clock.advance(30 * MINUTE)
    report = run_tick(context)
    assert report.dispatch.dispatched == 12
    assert report.pages == 18


def test_overlap_skip_skips_while_a_run_goes_on_and_starts_after_it(service: Service, clock: ManualClock) -> None:
    """SCH-13: the five-minute job that takes ten."""
    context = service.context
    create_job(context, a_job(overlap=Overlap.SKIP))
    clock.advance(2 * MINUTE)
    (first,) = service.receive()
    long_one = claimed(context, first)
    context.queues.set_visibility(first, 3600)
    clock.advance(3 * MINUTE)
    run_tick(context)
    clock.advance(2 * MINUTE)
    context.runs.extend_lease(long_one.run.run_id, 1, clock() + 10 * MINUTE)
    (second,) = service.receive()
    assert isinstance(claim(context, second), Drop)
    context.queues.delete(second)
    clock.advance(3 * MINUTE)
    run_tick(context)
    clock.advance(2 * MINUTE)
    settle_attempt(context, result_of(long_one.run, Outcome.SUCCEEDED, clock()))
    claimed(context, *service.receive())
    newest_first = [(run.state, run.reason) for run in list_runs(context, "news", 10).items]
    assert newest_first == [
        (State.RUNNING, None),
        (State.SKIPPED, Reason.OVERLAP),
        (State.SUCCEEDED, Reason.COMPLETED),
    ]


def test_every_run_says_why_its_job_did_not_fire(context: Context) -> None:
    create_job(context, a_job(enabled=False))
    lines = {line.label: line.text for line in why(context, "news").lines}
    assert lines["enabled"] == "no: the job is paused"
    assert lines["next due"] == "none while the job is paused"
    assert lines["last tick"] == "none yet: is the scheduler running?"
    assert "paused" in lines["last decision"]
    assert lines["last run"] == "none yet"
