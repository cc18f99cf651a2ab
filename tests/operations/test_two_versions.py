"""Two versions share the table: what a newer one added to a record outlives all that an older one does with it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from clawjob.domain.definition import Overlap
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import Outcome, State
from clawjob.operations.apply_job import create_job, delete_job, replace_job, set_enabled
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.insights import get_run, list_runs
from clawjob.operations.settle_attempt import settle_attempt
from support.clock import ManualClock
from support.runs import a_job, claimed, result_of, run_tick
from support.service import TABLE, Service

MINUTE = timedelta(minutes=1)
ADDED = {"S": "by a newer version"}


def records(service: Service) -> Iterator[dict[str, Any]]:
    """State rows and runs."""
    yield from (item for item in service.items() if item["sk"]["S"] in {"STATE", "RUN"})


def add_to_each(service: Service) -> None:
    for item in records(service):
        service.dynamodb.update_item(
            TableName=TABLE,
            Key={"pk": item["pk"], "sk": item["sk"]},
            UpdateExpression="SET added = :added",
            ExpressionAttributeValues={":added": ADDED},
        )


def test_an_attribute_that_an_older_version_does_not_know_stays(service: Service, clock: ManualClock) -> None:
    context = service.context
    for name in ("news", "gone", "edited"):
        create_job(context, a_job(name, overlap=Overlap.SKIP))
    clock.advance(2 * MINUTE)
    add_to_each(service)
    wanted = {(item["pk"]["S"], item["sk"]["S"]) for item in records(service)}
    assert len(wanted) == 6
    replace_job(context, "edited", a_job("edited", "*/7 * * * *"))
    set_enabled(context, "edited", False)
    delete_job(context, "gone")
    runs = {run.job: run for name in ("news", "edited") for run in list_runs(context, name, 1).items}
    messages = {get_run(context, RunMessage.from_body(one.body).run_id).run.job: one for one in service.receive()}
    claim = claimed(context, messages["news"])
    context.runs.extend_lease(claim.run.run_id, claim.run.token, clock() + 2 * MINUTE)
    settle_attempt(context, result_of(claim.run, Outcome.FAILED, clock() + MINUTE))
    cancel_run(context, runs["edited"].run_id, "anna", "not wanted")
    clock.advance(timedelta(hours=2))
    run_tick(context)
    found = {(item["pk"]["S"], item["sk"]["S"]): item for item in records(service)}
    assert get_run(context, runs["news"].run_id).run.state is State.RETRY_WAIT
    assert get_run(context, runs["edited"].run_id).run.is_final
    assert {key for key in wanted if found[key].get("added") != ADDED} == set()
