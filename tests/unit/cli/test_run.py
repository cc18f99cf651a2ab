"""`clawjob run` against the API."""

import json
from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.log_streams import LogStreams, stream_name
from clawjob.domain.job import parse_document
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import AttemptResult, Outcome
from clawjob.operations.apply_job import create_job
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.api import job
from support.calls import wrap
from support.clock import ManualClock
from support.privileges import acting
from support.service import Service


@pytest.fixture
def run_id(service: Service, clock: ManualClock) -> str:
    """A run that waits in its queue."""
    create_job(service.context, parse_document(job(retry="1m", max_retry=1), clock(), ["default"]))
    return trigger_run(service.context, "news", {}, None).run.run_id


def start(service: Service) -> Claimed:
    # What a worker does, also in the middle of a call of the API.
    with acting("worker"):
        (message,) = service.receive()
        claimed = claim_run(service.context, RunMessage.from_body(message.body), message.message_id, "worker-1")
        service.context.queues.delete(message)
    assert isinstance(claimed, Claimed)
    return claimed


def end(service: Service, clock: ManualClock, claimed: Claimed, outcome: Outcome, **more: Any) -> None:
    began = clock()
    clock.advance(timedelta(seconds=75))
    with acting("results"):
        settle_attempt(
            service.context,
            AttemptResult(
                run_id=claimed.run.run_id,
                token=claimed.run.token,
                worker="worker-1",
                outcome=outcome,
                started_at=began,
                ended_at=clock(),
                duration_seconds=75.0,
                **more,
            ),
        )


def test_a_run_is_listed_and_shown_with_its_attempts(
    run: Any, service: Service, clock: ManualClock, run_id: str
) -> None:
    assert "has had no runs yet" not in run("run", "list", "news").stdout
    end(service, clock, start(service), Outcome.FAILED, exit_code=2, detail="exit code 2", log_tail="no\x1b[1m site")
    clock.advance(timedelta(seconds=80))
    end(service, clock, start(service), Outcome.SUCCEEDED, exit_code=0, items=12)
    listed = run("run", "list", "news")
    assert listed.exit_code == 0
    row = next(line for line in listed.stdout.splitlines() if run_id in line)
    assert row.split()[:5] == [run_id, "2024-03-09", "11:58:00", "SUCCEEDED", "2"]
    assert row.split()[-7:] == ["1", "min", "15", "s", "succeeded", "0", "12"]
    shown = run("run", "show", run_id).stdout
    assert "Exit       0: success" in shown
    assert "failed" in shown
    assert "no\\x1b[1m site" in shown
    assert json.loads(run("run", "show", run_id, "--output", "json").stdout)["attempts"][0]["exit_code"] == 2


@pytest.mark.parametrize("columns", ["80", "160"])
def test_a_list_of_runs_fits_the_terminal(
    run: Any, service: Service, clock: ManualClock, run_id: str, columns: str
) -> None:
    end(service, clock, start(service), Outcome.FAILED, exit_code=2, detail="word " * 50)
    lines = run("run", "list", "news", env={"COLUMNS": columns}).stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert any(run_id in line and "RETRY_WAIT" in line for line in lines)


def test_wait_ends_with_0_for_a_success_and_1_for_another_end(
    run: Any, service: Service, clock: ManualClock, run_id: str
) -> None:
    end(service, clock, start(service), Outcome.SUCCEEDED, exit_code=0)
    done = run("run", "wait", run_id)
    assert done.exit_code == 0
    assert "SUCCEEDED" in done.stdout
    other = trigger_run(service.context, "news", {}, None).run.run_id
    assert "is CANCELLED" in run("run", "cancel", other, "--why", "wrong day").stdout
    failed = run("run", "wait", other)
    assert failed.exit_code == 1
    assert "wrong day" in failed.stdout


def test_wait_asks_until_the_run_has_ended(run: Any, service: Service, clock: ManualClock, run_id: str) -> None:
    """The run ends between two questions, in the thread that answers them."""
    claimed = start(service)
    asked = []

    def count(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "GetItem" and run_id in str(parameters):
            asked.append(name)
            if len(asked) == 3:
                undo()
                end(service, clock, claimed, Outcome.SUCCEEDED, exit_code=0)
        return call(name, parameters)

    undo = wrap(service.dynamodb, count)
    assert run("run", "wait", run_id).exit_code == 0
    assert len(asked) == 3


def test_wait_gives_up_when_its_time_is_up(run: Any, run_id: str) -> None:
    result = run("run", "wait", run_id, "--timeout", "0.05")
    assert result.exit_code == 5
    assert "is still QUEUED" in result.stderr


def test_a_trigger_that_waits_tells_how_it_ended(
    run: Any, service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_job(service.context, parse_document(job(max_retry=0), clock(), ["default"]))
    tries = []

    def work(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "Query":
            tries.append(name)
            if len(tries) == 2:
                undo()
                end(service, clock, start(service), Outcome.TIMED_OUT, detail="took longer than 1h")
        return call(name, parameters)

    undo = wrap(service.dynamodb, work)
    result = run("job", "trigger", "news", "--wait")
    assert result.exit_code == 1
    assert "TIMED_OUT" in result.stdout
    assert "took longer than 1h" in result.stdout


def test_logs_are_printed_line_by_line(
    run: Any, service: Service, clock: ManualClock, logs: LogStreams, run_id: str
) -> None:
    assert run("run", "logs", run_id).stdout == ""
    start(service)
    at = int(clock().timestamp() * 1000)
    logs.put_events(stream_name(run_id, 1), [(at + number, f"line {number}") for number in range(1500)])
    lines = run("run", "logs", run_id).stdout.splitlines()
    assert lines == [f"line {number}" for number in range(1500)]
    first = run("run", "logs", run_id, "--timestamps", "--utc").stdout.splitlines()[0]
    assert first == "2024-03-09 11:58:00  line 0"
    assert run("run", "logs", run_id, "--attempt", "2").exit_code == 4
    assert run("run", "logs", "000000000000-mnothing").exit_code == 3


def test_following_goes_on_through_retries_to_the_end(
    run: Any, service: Service, clock: ManualClock, logs: LogStreams, run_id: str
) -> None:
    """Each few pages of the log something happens, in the thread that answers."""
    asked = []
    claimed = []

    def happen(name: str, parameters: dict[str, Any], call: Any) -> Any:
        asked.append(name)
        now = int(clock().timestamp() * 1000)
        match len(asked):
            case 1:
                claimed.append(start(service))
                logs.put_events(stream_name(run_id, 1), [(now, "first try")])
            case 3:
                logs.put_events(stream_name(run_id, 1), [(now + 1, "it fails")])
                end(service, clock, claimed[0], Outcome.FAILED, exit_code=1)
            case 9:
                clock.advance(timedelta(seconds=70))
                claimed.append(start(service))
                logs.put_events(stream_name(run_id, 2), [(now + 2, "second try")])
            case 12:
                end(service, clock, claimed[1], Outcome.SUCCEEDED, exit_code=0)
        return call(name, parameters)

    def on_read(name: str, parameters: dict[str, Any], call: Any) -> Any:
        return happen(name, parameters, call) if name == "GetLogEvents" else call(name, parameters)

    wrap(service.logs, on_read)
    start_log = run("run", "logs", run_id, "-f")
    assert start_log.exit_code == 0
    assert start_log.stdout.splitlines() == ["first try", "it fails", "second try"]


def test_a_running_run_is_asked_to_end(run: Any, service: Service, run_id: str) -> None:
    start(service)
    assert "is asked to end" in run("run", "cancel", run_id).stdout
    assert run("run", "cancel", "nothing").exit_code == 3


def test_a_missed_record_tells_how_many(run: Any, service: Service, clock: ManualClock) -> None:
    from clawjob.operations.tick import tick

    create_job(service.context, parse_document(job("hourly", schedule="0 * * * *"), clock(), ["default"]))
    clock.advance(timedelta(days=2))
    tick(service.context, lambda: timedelta(minutes=1))
    listed = json.loads(run("run", "list", "hourly", "--output", "json").stdout)
    missed = next(one for one in listed if one["state"] == "MISSED")
    assert missed["missed"]["count"] > 40
    shown = run("run", "show", missed["run_id"]).stdout
    assert f"{missed['missed']['count']} instants until" in shown
    assert "It has not been started yet." in shown
