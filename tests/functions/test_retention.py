"""Whoever ends a run keeps it as long as the stage says, by the environment that the stack gives."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clawjob.domain.messages import result_to_body
from clawjob.domain.run import Outcome, Run
from clawjob.handlers.api import ApiHandler
from clawjob.handlers.results import ResultsHandler
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.operations.apply_job import create_job
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.trigger_run import trigger_run
from clawjob.services import Services, services_from
from clawjob.settings import ApiSettings, CoreSettings, ResultsSettings, SchedulerSettings, WorkerSettings
from infra.config import stage_config
from support.api import event_of
from support.clock import ManualClock
from support.lambda_context import LambdaContext
from support.runs import a_job, claim, claimed, result_of
from support.service import TABLE, Service

DAYS = 7


def environment(service: Service) -> dict[str, str]:
    return {
        "CLAWJOB_TABLE": TABLE,
        "CLAWJOB_RUN_QUEUES": json.dumps(service.urls.run),
        "CLAWJOB_RESULTS_QUEUE": service.urls.results,
        **stage_config({"stage": "prod", "run_retention_days": DAYS}).times_variables,
    }


def parts(service: Service, settings: type[CoreSettings]) -> tuple[Any, Services]:
    read = settings.from_environment(environment(service))
    return read, services_from(read)


def settled(service: Service, run: Run, clock: ManualClock) -> None:
    body = result_to_body(result_of(run, Outcome.FAILED, clock(), exit_code=1, log_tail="x", outputs={"a": 1}))
    records = {"Records": [{"messageId": "m", "body": body}]}
    assert ResultsHandler(*parts(service, ResultsSettings))(records, LambdaContext()) == {"batchItemFailures": []}


def closed_by_the_scheduler(service: Service, run: Run, clock: ManualClock) -> None:
    cancel_run(service.context, run.run_id, "anna", "")
    clock.advance(timedelta(hours=1))
    SchedulerHandler(*parts(service, SchedulerSettings))({}, LambdaContext())


def closed_by_a_worker(service: Service, run: Run, clock: ManualClock) -> None:
    cancel_run(service.context, run.run_id, "anna", "")
    clock.advance(service.context.times.lease + timedelta(seconds=1))
    claim(parts(service, WorkerSettings)[1].context, *service.receive())


@pytest.mark.parametrize("end", [settled, closed_by_the_scheduler, closed_by_a_worker])
def test_a_run_is_kept_for_the_days_of_the_stage_whoever_ends_it(
    service: Service, clock: ManualClock, end: Callable[..., None]
) -> None:
    create_job(service.context, a_job(cron=None, max_retry=0))
    trigger_run(service.context, "news", {}, None)
    run = claimed(service.context, *service.receive()).run
    end(service, run, clock)
    ended = service.context.runs.get(run.run_id)
    assert ended is not None
    assert ended.final_at is not None
    last = int((ended.final_at + timedelta(days=DAYS)).timestamp())
    kept_until = {int(item["expires_at"]["N"]) for item in service.items() if run.run_id in item["pk"]["S"]}
    assert kept_until == {last}


def test_a_run_cancelled_through_the_api_is_kept_for_the_days_of_the_stage(service: Service) -> None:
    create_job(service.context, a_job(cron=None))
    run_id = trigger_run(service.context, "news", {}, None).run.run_id
    api = ApiHandler(*parts(service, ApiSettings))
    assert api(event_of("POST", f"/api/v1/runs/{run_id}/cancel"), LambdaContext())["statusCode"] == 200
    ended = service.context.runs.get(run_id)
    assert ended is not None
    assert ended.final_at is not None
    assert ended.expires_at == int((ended.final_at + timedelta(days=DAYS)).timestamp())
