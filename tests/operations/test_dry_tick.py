"""The dry tick: it tells what ticks then do, writes nothing, and other rules tell something else."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.codec import decode_item
from clawjob.aws.run_item import run_of
from clawjob.domain.definition import CatchUp, CatchUpMode, Definition
from clawjob.domain.foresight import LEFT_TO_NEWER, foresee_job
from clawjob.domain.ids import shard_of, uid_of
from clawjob.domain.instants import to_text
from clawjob.domain.run import Outcome, Run, State
from clawjob.domain.schedule import Repeated, ScheduleSpec
from clawjob.operations.apply_job import create_job, set_enabled
from clawjob.operations.context import Context
from clawjob.operations.dispatch import schedule_of
from clawjob.operations.dry_tick import DECISIONS_OF_A_JOB, DryReport, dry_tick
from clawjob.operations.insights import get_run
from clawjob.operations.settle_attempt import settle_attempt
from support.calls import wrap
from support.clock import ManualClock
from support.mutants import Mutant
from support.runs import a_job, claim, claimed, result_of, run_tick
from support.service import TABLE, Service
from support.shortcut import shorten

MINUTE = timedelta(minutes=1)
READS = {"Query", "BatchGetItem"}


def dry(context: Context) -> DryReport:
    return dry_tick(context, context.clock(), lambda: timedelta(seconds=60))


def decisions(context: Context, uid: str) -> list[str]:
    (found,) = [list(one.decisions) for one in dry(context).subjects if one.id == f"JOB#{uid}"]
    return found


def some_of_everything(service: Service, clock: ManualClock) -> Context:
    """Jobs and runs in every state that a tick meets: due, missed, waiting, running, lost, spoiled."""
    context = service.context
    for number, cron in enumerate(("*/5 * * * *", "0 2 * * *", "30 2 * * sun", "*/7 * * * *")):
        create_job(context, a_job(f"job-{number}", cron))
    spoiled = create_job(context, a_job("spoiled"))
    clock.advance(2 * MINUTE)
    first, second, *_ = service.receive()
    claimed(context, first)
    run = claimed(context, second).run
    settle_attempt(context, result_of(run, Outcome.FAILED, clock() + MINUTE))
    service.dynamodb.put_item(
        TableName=TABLE, Item={"pk": {"S": f"JOB#{spoiled.state.uid}"}, "sk": {"S": "V#00000001"}}
    )
    clock.advance(timedelta(hours=3))
    return service.fresh_context()


def test_a_dry_tick_only_reads(service: Service, clock: ManualClock) -> None:
    context = some_of_everything(service, clock)
    before = service.items()
    calls: list[str] = []

    def note(name: str, parameters: dict[str, Any], call: Any) -> Any:
        calls.append(name)
        return call(name, parameters)

    for client in (service.dynamodb, service.sqs, service.logs):
        wrap(client, note)
    report = dry(context)
    assert {one.id[:4] for one in report.subjects} == {"JOB#", "RUN#"}
    assert set(calls) <= READS
    run_tick(context)
    assert {"PutItem", "UpdateItem", "SendMessageBatch"} <= set(calls), "the same state gives a tick much to write"
    assert before != service.items()


CRONS = ("* * * * *", "*/15 * * * *", "H * * * *", "30 2 * * *", "0 */6 * * mon-fri", "30 1,2,3 * * sun", "0 9 1 * *")
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe")
SECOND = timedelta(seconds=1)


def a_schedule(chance: random.Random, now: Any) -> ScheduleSpec:
    zone = chance.choice(ZONES)
    kind = chance.randrange(8)
    if kind == 0:
        return ScheduleSpec(at=now + chance.randrange(60, 9000) * SECOND, timezone=zone)
    jitter = timedelta(seconds=chance.choice((0, 0, 3, 20)))
    end_at = None if chance.randrange(4) else now + chance.randrange(1, 90_000) * SECOND
    if kind < 4:
        every = chance.choice((61, 90, 600, 3600, 86_400))
        return ScheduleSpec(every=every * SECOND, timezone=zone, jitter=jitter, end_at=end_at)
    repeated = chance.choice(list(Repeated))
    return ScheduleSpec(cron=chance.choice(CRONS), timezone=zone, jitter=jitter, end_at=end_at, repeated=repeated)


def a_random_job(chance: random.Random, now: Any) -> Definition:
    window = timedelta(hours=chance.choice((1, 24)))
    catch_up = CatchUp(chance.choice(list(CatchUpMode)), window, chance.choice((1, 3, 100)))
    return a_job(schedule=a_schedule(chance, now), cron=None, catch_up=catch_up, priority=chance.randrange(1, 6))


def line_of(run: Run) -> str:
    """What was written of an instant or a gap, in the words in which it is foreseen."""
    if run.state is State.MISSED:
        assert run.gap_until is not None
        assert run.reason is not None
        return f"miss {run.run_id} due {to_text(run.gap_until)} count {run.gap_count} {run.reason.value}"
    return f"run {run.run_id} due {to_text(run.not_before)} {run.pool}/{run.queue.value}"


def written(service: Service, uid: str) -> dict[str, Run]:
    items = [decode_item(raw) for raw in service.items() if raw["sk"]["S"] == "RUN"]
    runs = sorted((run_of(item) for item in items), key=lambda run: run.scheduled_at)
    return {run.run_id: run for run in runs if uid_of(run.run_id) == uid or run.uid == uid}


@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_is_what_ticks_then_do(service: Service, clock: ManualClock, seed: int) -> None:
    """Whatever the schedule and the policy, after any time without a tick, through the change of the clock."""
    shorten(service.dynamodb, service.sqs)
    chance = random.Random(seed)
    context = service.context
    uid = create_job(context, a_random_job(chance, clock())).state.uid
    clock.advance(chance.choice((0, 5, 200, 3000, 9000)) * MINUTE)
    told = decisions(context, uid) if context.jobs.get("news").due_at else []
    near = [line for line in told if line.startswith(("run ", "miss "))][:DECISIONS_OF_A_JOB]
    before = written(service, uid)

    def done() -> list[str]:
        return [line_of(run) for run_id, run in written(service, uid).items() if run_id not in before]

    while (due := context.jobs.get("news").due_at) is not None and len(done()) < DECISIONS_OF_A_JOB:
        # Ticks come on the minute, so a little later than they must.
        late = due.replace(second=0, microsecond=0) + MINUTE
        clock.move_to(max(clock(), late))
        run_tick(context)
    assert done()[: len(near)] == near
    assert ("end" in told) == (bool(told) and context.jobs.get("news").due_at is None and len(done()) < 10)


def test_at_a_calm_instant_the_next_runs_of_a_daily_job_and_of_its_year_are_told(context: Context) -> None:
    uid = create_job(context, a_job(cron="0 2 * * *", zone="Europe/Berlin")).state.uid
    lines = decisions(context, uid)
    assert lines[0] == f"run {uid}-20240310T010000Z due 2024-03-10T01:00:00.000Z default/low"
    assert len(lines) == DECISIONS_OF_A_JOB + 12
    assert lines[-1].startswith("later 2025-03-05T01:00:00.000Z ")
    assert lines[-8].startswith("later 2024-08-07T00:00:00.000Z "), "an hour earlier by UTC: summer time"


def test_a_job_that_rests_is_told_so(context: Context) -> None:
    uid = create_job(context, a_job()).state.uid
    set_enabled(context, "news", False)
    # The index lags: a tick may still meet it there.
    definition = context.jobs.definition(uid, 2)
    assert definition.schedule is not None
    state = replace(context.jobs.get("news"), due_at=context.clock())
    schedule = schedule_of(definition.schedule, "news")
    (one,) = foresee_job(state, definition, schedule, context.clock(), context.times, 10)
    assert one.line == "rest paused"


WRONG = {
    "catch-up drops the newest too": (
        "clawjob.domain.planning",
        "return schedule.latest(planned_until, newest.scheduled_at - _SECOND), Reason",
        "return newest, Reason",
    ),
    "priority 4 is no longer high": ("clawjob.domain.priority", "priority >= _HIGH_FROM", "priority > _HIGH_FROM"),
    "jitter is drawn otherwise": ("clawjob.domain.draw", "*words)", "*words[::-1])"),
    "the hour that is left out is not made up for": (
        "clawjob.domain.cron_timeline",
        "if self._missing is Missing.SKIP",
        "if self._missing is not Missing.SKIP",
    ),
    "a run has another id": ("clawjob.domain.ids", "{uid}-{_stamp(scheduled_at)}", "{uid}-s{_stamp(scheduled_at)}"),
    "checks come later": ("clawjob.domain.rescuing", "times.check * 2 **", "times.check * 3 **"),
    "a row is read otherwise": ("clawjob.aws.job_item", '_typed(item["enabled"], bool)', "False"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_changed_rule_is_told_otherwise(
    service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    jitter = ScheduleSpec(cron="30 2 * * *", timezone="America/New_York", jitter=20 * MINUTE)
    create_job(service.context, a_job("daily", cron=None, schedule=jitter, priority=4))
    create_job(service.context, a_job("often"))
    clock.advance(40 * MINUTE)
    right = dry(service.fresh_context()).subjects
    assert {one.id[:4] for one in right} == {"JOB#", "RUN#"}
    module, old, new = WRONG[name]
    schedule_of.cache_clear()
    Mutant(name, module, old, new, lambda _: []).put_in_place(monkeypatch)
    wrong = dry(service.fresh_context()).subjects
    assert [(one.id, one.seen) for one in wrong] == [(one.id, one.seen) for one in right]
    assert wrong != right


def test_an_open_run_is_told_for_an_empty_queue_and_for_one_that_waits(service: Service, clock: ManualClock) -> None:
    context = service.context
    create_job(context, a_job())
    clock.advance(2 * MINUTE)
    (message,) = service.receive()
    run = claim(context, message).run
    lost_at = clock() + context.times.lease + context.times.lost_after
    (told,) = [one.decisions for one in dry(context).subjects if one.id == f"RUN#{run.run_id}"]
    # A tick looks when its check has come; its lease is over by then.
    assert told[0].startswith("queue empty: Lose and send QUEUED checks 2 losses 1 look ")
    assert told[1] == told[0].replace("queue empty", "queue waits")
    clock.move_to(lost_at + timedelta(minutes=10))
    run_tick(context)
    assert get_run(context, run.run_id).run.losses == 1


def test_what_a_newer_version_wrote_is_left_and_what_is_spoiled_is_set_aside(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    newer, spoiled = (create_job(context, a_job(name)).state.uid for name in ("newer", "spoiled"))
    for uid, version in ((newer, "2"), (spoiled, "0")):
        service.dynamodb.update_item(
            TableName=TABLE,
            Key={"pk": {"S": f"JOB#{uid}"}, "sk": {"S": "STATE"}},
            UpdateExpression="SET v = :v",
            ExpressionAttributeValues={":v": {"N": version}},
        )
    assert decisions(context, newer) == [LEFT_TO_NEWER]
    assert decisions(context, spoiled) == ["set aside"]


def test_a_dry_tick_whose_time_is_up_says_so_and_tells_what_it_has(service: Service) -> None:
    context = service.context
    for number in range(40):
        create_job(context, a_job(f"job-{number}", "30 12 * * *"))
    left = iter([timedelta(seconds=60)] * 5)
    report = dry_tick(context, context.clock(), lambda: next(left, timedelta(seconds=5)))
    assert not report.finished
    assert 0 < len(report.subjects) < 40
    assert len(dry(context).subjects) == 40


def test_of_more_jobs_than_a_sample_holds_those_that_are_due_first_are_told(
    service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawjob.operations.dry_tick.JOBS_OF_A_SHARD", 1)
    monkeypatch.setattr("clawjob.operations.dry_tick._PAGE", 2)
    context = service.context
    due = {}
    for number in range(40):
        state = create_job(context, a_job(f"job-{number}", f"{number} 14 * * *")).state
        due[state.uid] = state.due_at
    told = {one.id.removeprefix("JOB#") for one in dry(context).subjects}
    first = {min((uid for uid in due if shard_of(uid) == shard), key=due.__getitem__) for shard in map(shard_of, due)}
    assert told == first
    assert len(told) > 8
