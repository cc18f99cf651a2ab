"""The results handler: Q-10, Q-11, Q-14."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import make_session_clients
from clawjob.domain.errors import UnavailableError
from clawjob.domain.job import parse_document
from clawjob.domain.messages import RunMessage, result_to_body
from clawjob.domain.run import AttemptResult, Outcome, State
from clawjob.handlers.measures import Measure
from clawjob.handlers.results import ResultsHandler
from clawjob.operations.apply_job import create_job, delete_job
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.trigger_run import trigger_run
from clawjob.services import Services
from clawjob.settings import ResultsSettings
from support.api import job
from support.calls import wrap
from support.clock import ManualClock
from support.lambda_context import LambdaContext
from support.service import Service


@pytest.fixture
def published() -> list[Measure]:
    return []


@pytest.fixture
def handler(service: Service, clock: ManualClock, published: list[Measure]) -> ResultsHandler:
    settings = ResultsSettings(table="clawjob-test", run_queues=service.urls.run)
    services = Services(service.context, make_session_clients(), ClockGuard(clock))
    return ResultsHandler(settings, services, published.extend)


def count(published: Sequence[Measure], name: str) -> float:
    values = [measure.value for measure in published if measure.name == name]
    assert values, name
    return sum(values)


def batch(*bodies: str) -> dict[str, Any]:
    """An SQS event; messages are named m1, m2, ..."""
    return {
        "Records": [
            {"messageId": f"m{number}", "receiptHandle": "r", "body": body, "attributes": {}, "eventSource": "aws:sqs"}
            for number, body in enumerate(bodies, 1)
        ]
    }


def failed(*identifiers: str) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


@pytest.fixture
def ended(service: Service, clock: ManualClock) -> list[AttemptResult]:
    """Results of ten running runs of one job."""
    ctx = service.context
    create_job(ctx, parse_document(job(overlap="allow"), clock(), ["default"]))
    results = []
    for _ in range(10):
        run = trigger_run(ctx, "news", {}, None).run
        (message,) = service.receive()
        claimed = claim_run(ctx, RunMessage.from_body(message.body), message.message_id, "worker-1")
        assert isinstance(claimed, Claimed)
        began = clock()
        clock.advance(timedelta(seconds=1))
        results.append(
            AttemptResult(
                run_id=run.run_id,
                token=1,
                worker="worker-1",
                outcome=Outcome.SUCCEEDED,
                exit_code=0,
                started_at=began,
                ended_at=clock(),
                duration_seconds=1.0,
            )
        )
    return results


def states(service: Service, results: Sequence[AttemptResult]) -> list[str]:
    found = [service.context.runs.get(result.run_id) for result in results]
    return [run.state.value if run else "" for run in found]


def test_a_good_batch_is_settled_and_answered_with_an_empty_list(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult], published: list[Measure]
) -> None:
    """Q-11."""
    assert handler(batch(*map(result_to_body, ended)), LambdaContext()) == {"batchItemFailures": []}
    assert states(service, ended) == [State.SUCCEEDED] * 10
    assert count(published, "Settled") == 10
    assert count(published, "RunsSucceeded") == 10
    assert [measure.value for measure in published if measure.name == "AttemptDuration"] == [1.0] * 10


def test_of_a_batch_with_a_malformed_and_a_throttled_message_only_the_throttled_comes_again(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult], published: list[Measure]
) -> None:
    """Q-10."""
    bodies = [result_to_body(result) for result in ended]
    bodies[3] = '{"v": 1, "run_id": '
    throttled = ended[6].run_id

    def throttle(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if throttled in str(parameters):
            raise UnavailableError(name, "ThrottlingException")
        return call(name, parameters)

    undo = wrap(service.dynamodb, throttle)
    assert handler(batch(*bodies), LambdaContext()) == failed("m7")
    undo()
    expected = [State.SUCCEEDED.value] * 10
    expected[3] = expected[6] = State.RUNNING.value
    assert states(service, ended) == expected
    assert count(published, "Malformed") == 1
    assert count(published, "Retried") == 1
    assert handler(batch(bodies[6]), LambdaContext()) == failed()
    assert states(service, ended)[6] == State.SUCCEEDED


BAD_BODIES = (
    *("", "{}", "null", "[]", "not json", '{"v": 0}', '{"v": 1}', '{"schema": 99}', "[" * 100_000, '"x"'),
    '{"v": 1, "run_id": 5, "token": 1}',
    '{"v": 1, "run_id": "x", "token": true, "worker": "w", "outcome": "succeeded"}',
)


def test_messages_that_are_no_reports_are_dropped_counted_and_logged(
    handler: ResultsHandler, published: list[Measure], caplog: pytest.LogCaptureFixture
) -> None:
    """Q-14."""
    with caplog.at_level(logging.WARNING, logger="clawjob"):
        assert handler(batch(*BAD_BODIES), LambdaContext()) == failed()
    assert count(published, "Malformed") == len(BAD_BODIES)
    dropped = [record for record in caplog.records if record.message == "message dropped"]
    assert [record.__dict__["message_id"] for record in dropped] == [f"m{n}" for n in range(1, len(BAD_BODIES) + 1)]


def test_a_report_of_a_newer_version_comes_again_for_the_newer_function(
    handler: ResultsHandler, published: list[Measure]
) -> None:
    """Q-14: in a deployment that is under way, old and new functions read one queue."""
    assert handler(batch('{"v": 2, "run_id": "x"}'), LambdaContext()) == failed("m1")
    assert count(published, "Malformed") == 0
    assert count(published, "Retried") == 1


def test_a_report_whose_outcome_nobody_knows_is_dropped(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult]
) -> None:
    """Q-14."""
    body = json.loads(result_to_body(ended[0]))
    assert handler(batch(json.dumps({**body, "outcome": "vaporised"})), LambdaContext()) == failed()
    assert states(service, ended[:1]) == ["RUNNING"]


def test_reports_of_runs_that_are_gone_are_ignored(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult], published: list[Measure]
) -> None:
    """Q-14."""
    gone = replace(ended[0], run_id="000000000000-mgone")
    strange = replace(ended[0], run_id="x" * 3000)
    delete_job(service.context, "news")
    assert handler(batch(result_to_body(gone), result_to_body(ended[1])), LambdaContext()) == failed()
    assert count(published, "Ignored") == 1
    assert states(service, ended[1:2]) == ["SUCCEEDED"]
    assert handler(batch(result_to_body(strange), result_to_body(ended[2])), LambdaContext()) in (
        failed(),
        failed("m1"),
    )
    assert states(service, ended[2:3]) == ["SUCCEEDED"]


def test_a_report_that_comes_again_changes_nothing(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult], published: list[Measure]
) -> None:
    body = result_to_body(ended[0])
    assert handler(batch(body, body), LambdaContext()) == failed()
    assert (count(published, "Settled"), count(published, "Ignored")) == (1, 1)


def test_a_run_that_cannot_be_read_is_left_to_the_dead_letters_and_stops_nobody(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult]
) -> None:
    key = {"pk": {"S": f"RUN#{ended[0].run_id}"}, "sk": {"S": "RUN"}}
    service.dynamodb.put_item(TableName="clawjob-test", Item={**key, "v": {"N": "99"}})
    assert handler(batch(*map(result_to_body, ended[:2])), LambdaContext()) == failed("m1")
    assert states(service, ended[1:2]) == ["SUCCEEDED"]


def test_a_fault_of_ours_in_one_message_leaves_the_others_settled(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult], caplog: pytest.LogCaptureFixture
) -> None:
    """Q-11."""

    def fail(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if ended[1].run_id in str(parameters):
            raise RuntimeError("fault")
        return call(name, parameters)

    undo = wrap(service.dynamodb, fail)
    with caplog.at_level(logging.ERROR, logger="clawjob"):
        assert handler(batch(*map(result_to_body, ended[:3])), LambdaContext()) == failed("m2")
    undo()
    assert "fault" in caplog.text
    assert states(service, ended[:3]) == ["SUCCEEDED", "RUNNING", "SUCCEEDED"]


@pytest.mark.parametrize("event", [{}, {"Records": [{}]}, {"Records": None}])
def test_an_event_of_another_shape_raises_so_that_all_of_it_comes_again(
    handler: ResultsHandler, event: dict[str, Any]
) -> None:
    """Q-11."""
    with pytest.raises((KeyError, TypeError)):
        handler(event, LambdaContext())


def test_with_no_time_left_messages_come_again(
    service: Service, handler: ResultsHandler, ended: list[AttemptResult]
) -> None:
    bodies = [result_to_body(result) for result in ended[:2]]
    assert handler(batch(*bodies), LambdaContext(milliseconds=100)) == failed("m1", "m2")
    assert states(service, ended[:2]) == ["RUNNING"] * 2
