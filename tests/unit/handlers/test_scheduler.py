"""The scheduler's handler: one tick for each event, told to logs and metrics."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import make_session_clients
from clawjob.domain.ids import SHARDS
from clawjob.domain.job import parse_document
from clawjob.domain.run import Run, State
from clawjob.handlers.measures import Measure
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.operations.apply_job import create_job
from clawjob.operations.dry_tick import JOBS_OF_A_SHARD, RUNS_OF_A_SHARD
from clawjob.operations.trigger_run import trigger_run
from clawjob.services import Services
from clawjob.settings import SchedulerSettings
from support.api import job
from support.clock import ManualClock
from support.lambda_context import LambdaContext
from support.runs import claimed
from support.service import Service

EVENT: dict[str, Any] = {"source": "aws.events", "detail-type": "Scheduled Event", "time": "2024-03-09T11:58:00Z"}


class Published(list[Measure]):
    def __call__(self, measures: Any) -> None:
        self.extend(measures)

    def of(self, name: str) -> list[float]:
        return [measure.value for measure in self if measure.name == name]


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
def handler(service: Service, clock: ManualClock, published: Published) -> SchedulerHandler:
    settings = SchedulerSettings(table="clawjob-test", run_queues=service.urls.run)
    guard = ClockGuard(clock)
    guard.watch(service.dynamodb)
    return SchedulerHandler(settings, Services(service.context, make_session_clients(), guard), published)


def add_job(service: Service, name: str, **changes: Any) -> None:
    create_job(service.context, parse_document(job(name, **changes), service.context.clock(), ["default"]))


def test_a_tick_dispatches_what_is_due_and_says_so(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published
) -> None:
    add_job(service, "news", schedule={"every": "10m", "offset": "5m"})
    clock.advance(timedelta(minutes=5))
    summary = handler(EVENT, LambdaContext())
    assert summary["dispatched"] == 1
    assert summary["finished"] is True
    assert published.of("Dispatched") == [1]
    assert published.of("Lateness") == [0]
    assert published.of("Unfinished") == [0]
    assert published.of("TickDuration")[0] >= 0
    assert len(published.of("ClockOffset")) == 1


def test_the_same_event_twice_or_of_any_form_does_no_harm(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published
) -> None:
    """SCH-08."""
    add_job(service, "news", schedule={"every": "10m", "offset": "5m"})
    clock.advance(timedelta(minutes=5))
    for event in (EVENT, EVENT, {}, {"time": "nonsense"}):
        handler(event, LambdaContext())
    assert sum(published.of("Dispatched")) == 1
    assert len(service.receive()) == 0
    clock.advance(timedelta(minutes=2))
    assert len(service.receive()) == 1


def test_a_tick_without_time_left_says_that_it_is_unfinished(handler: SchedulerHandler, published: Published) -> None:
    assert handler(EVENT, LambdaContext(milliseconds=0))["finished"] is False
    assert published.of("Unfinished") == [1]


def test_poison_jobs_are_counted_and_the_others_run(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published, caplog: Any
) -> None:
    """CRON-21."""
    for name in ("one", "poison", "two"):
        add_job(service, name, schedule={"every": "10m", "offset": "5m"})
    poison = service.context.jobs.get("poison")
    service.dynamodb.put_item(
        TableName="clawjob-test",
        Item={
            "pk": {"S": f"JOB#{poison.uid}"},
            "sk": {"S": "V#00000001"},
            "definition": {"S": '{"v": 1, "name": "poison", "command": "x", "schedule": {"cron": "*/0 * * * *"}}'},
        },
    )
    service.context.jobs._definitions.clear()
    clock.advance(timedelta(minutes=5))
    with caplog.at_level(logging.INFO, logger="clawjob"):
        handler(EVENT, LambdaContext())
    assert published.of("Dispatched") == [2]
    assert published.of("Invalid") == [1]
    assert any(getattr(record, "uid", None) == poison.uid for record in caplog.records)


def test_active_jobs_are_counted_without_a_tick_and_paused_ones_are_none(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published
) -> None:
    for number in range(5):
        add_job(service, f"job-{number}", schedule={"cron": "@daily"}, enabled=number > 0)
    assert handler({"count": True}, LambdaContext()) == {"active_jobs": 4}
    assert published.of("ActiveJobs") == [4]
    assert published.of("TickDuration") == []


ENDS = ("RunsSucceeded", "RunsFailed", "RunsCancelled")


def taken(service: Service, **changes: Any) -> Run:
    """A run by hand in the hands of a worker."""
    add_job(service, "hand", overlap="allow", **changes)
    trigger_run(service.context, "hand", {}, None)
    return claimed(service.context, *service.receive()).run


def test_a_run_whose_worker_dies_and_whose_retries_are_over_counts_as_failed(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published
) -> None:
    times = service.context.times
    run = taken(service, max_retry=0)
    for losses in range(1, times.max_losses + 1):
        assert published.of("RunsFailed") == []
        clock.advance(times.lease + times.lost_after + times.check)
        handler(EVENT, LambdaContext())
        assert sum(published.of("Lost")) == losses
        if losses < times.max_losses:
            again, *copies = service.receive()
            for copy in copies:
                service.context.queues.delete(copy)
            run = claimed(service.context, again).run
    ended = service.context.runs.get(run.run_id)
    assert ended is not None
    assert ended.state is State.LOST
    assert [published.of(name) for name in ENDS] == [[0], [1], [0]]
    assert {measure.pool for measure in published if measure.name in ENDS} == {"default"}


def test_a_run_that_does_not_stop_counts_as_failed_when_it_is_closed(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published
) -> None:
    run = taken(service, timeout="10m")
    for _ in range(60):
        clock.advance(timedelta(minutes=1))
        now = service.context.runs.get(run.run_id)
        assert now is not None
        if now.is_final:
            break
        service.context.runs.extend_lease(run.run_id, run.token, clock() + service.context.times.lease)
        handler(EVENT, LambdaContext())
    assert now.state is State.TIMED_OUT
    assert [published.of(name) for name in ENDS] == [[0], [1], [0]]


def test_a_dry_tick_tells_decisions_as_of_an_instant_and_does_nothing(
    service: Service, clock: ManualClock, handler: SchedulerHandler, published: Published
) -> None:
    add_job(service, "news", schedule={"every": "10m", "offset": "5m"})
    before = service.items()
    answer = handler({"dry": True, "at": "2024-03-09T13:00:00.000Z"}, LambdaContext())
    (job_told,) = [one for one in answer["subjects"] if one["id"].startswith("JOB#")]
    assert (answer["dry"], answer["at"], answer["finished"]) == (1, "2024-03-09T13:00:00.000Z", True)
    assert job_told["name"] == "news"
    assert "catch_up_last" in job_told["decisions"][0]
    assert json.loads(json.dumps(answer)) == answer
    assert service.items() == before
    assert not published


def test_the_answer_of_a_dry_tick_fits_into_what_lambda_can_give(
    service: Service, clock: ManualClock, handler: SchedulerHandler
) -> None:
    """6 MB, with as many jobs and runs as it looks at, and the longest names."""
    add_job(service, "n" * 100, schedule={"cron": "* * * * *", "jitter": "20s"}, priority=5)
    clock.advance(timedelta(minutes=2))
    answer = handler({"dry": True}, LambdaContext())
    of_job = max(len(json.dumps(one)) for one in answer["subjects"])
    assert of_job * SHARDS * (JOBS_OF_A_SHARD + RUNS_OF_A_SHARD) < 6_000_000 * 0.6


def test_a_tick_leaves_its_version_where_a_deployment_looks_for_it(service: Service, handler: SchedulerHandler) -> None:
    handler(EVENT, LambdaContext(function_version="12"))
    record = service.context.jobs.last_tick()
    assert (record["function_version"], record["left"], record["invalid"]) == ("12", 0, 0)
