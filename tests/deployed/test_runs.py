"""The life of a run through what was deployed: API, scheduler, queues, results function, and a real worker."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clawjob.domain.instants import from_text, to_text
from support.deployed import Stack, until

SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module", autouse=True)
def worker(deployed: Stack) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process with a deployed worker's rights, while these tests last."""
    with deployed.worker() as process:
        yield process


def create(stack: Stack, token: str, **document: Any) -> None:
    stack.clawjob("job", "create", "-f", "-", token=token, stdin=json.dumps(document))


def trigger(stack: Stack, token: str, job: str) -> str:
    answer = stack.ask("POST", f"/jobs/{job}/runs", token)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run_id"])


def final(stack: Stack, token: str, run_id: str) -> dict[str, Any]:
    """Wait for the run's end as a user does, and give the run with its attempts."""
    stack.clawjob("run", "wait", run_id, "--timeout", "60", token=token)
    run: dict[str, Any] = stack.ask("GET", f"/runs/{run_id}", token).json()
    return run


def shell(text: str) -> dict[str, Any]:
    return {"command": "/bin/sh", "args": ["-c", text]}


def test_a_run_that_the_api_could_not_send_is_sent_by_the_scheduler_run_by_a_worker_and_settled(
    deployed: Stack, admin: str
) -> None:
    due = datetime.now(UTC).replace(microsecond=0) + 6 * SECOND
    with deployed.without_right("Api", "sqs:SendMessage*"):
        create(deployed, admin, name="page", schedule={"at": to_text(due)}, **shell("echo one page of $0"))
        (made,) = deployed.ask("GET", "/jobs/page/runs", admin).json()["items"]
        (warned,) = until(lambda: deployed.said("Api", "queue takes nothing"))
        assert "AccessDenied" in warned["why"]

    answer = deployed.call_scheduler()
    assert (answer["failed"], answer["finished"]) == (0, True)
    assert sum(tick["dispatched"] for tick in until(lambda: deployed.said("Scheduler", "tick ended"))) >= 1

    run = final(deployed, admin, made["run_id"])
    assert (run["state"], run["outcome"], run["worker"]) == ("SUCCEEDED", "succeeded", "worker-of-the-test")
    assert due <= from_text(run["started_at"]) < due + 30 * SECOND
    assert until(lambda: deployed.clawjob("run", "logs", run["run_id"], token=admin)) == "one page of /bin/sh\n"
    assert until(lambda: [one for one in deployed.said("Results", "attempt settled") if one["run_id"] == run["run_id"]])


def test_a_run_that_fails_is_tried_again_after_its_delay_and_not_before(deployed: Stack, admin: str) -> None:
    retry = {"delay": "6s", "jitter": 0}
    create(deployed, admin, name="fails", max_retry=1, retry=retry, **shell("echo try $RANDOM; exit 7"))
    run_id = trigger(deployed, admin, "fails")

    waiting = until(lambda: _in_state(deployed, admin, run_id, "RETRY_WAIT"))
    (first,) = waiting["attempts"]
    assert from_text(waiting["due_at"]) >= from_text(first["ended_at"]) + 6 * SECOND
    deployed.clawjob("run", "wait", run_id, "--timeout", "60", token=admin, ok=False)

    run = deployed.ask("GET", f"/runs/{run_id}", admin).json()
    assert (run["state"], run["retry"], run["exit_code"]) == ("FAILED", 1, 7)
    first, second = run["attempts"]
    assert from_text(second["started_at"]) >= from_text(waiting["due_at"])
    assert from_text(second["started_at"]) < from_text(waiting["due_at"]) + 30 * SECOND


def test_a_result_that_cannot_be_taken_comes_again_alone_and_one_that_nobody_can_read_is_dropped(
    deployed: Stack, admin: str
) -> None:
    create(deployed, admin, name="works", **shell("exit 0"))
    sqs, url = deployed.emulator.client("sqs"), deployed.outputs["ResultsQueueUrl"]
    # In one batch, so that a function that fails whole, or answers for the whole, shows.
    bodies = ["no report", json.dumps({"v": 99}), json.dumps({"v": 1, "run_id": "none"})]
    sent = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)],
    )
    unread, newer, broken = (one["MessageId"] for one in sent["Successful"])
    run_id = trigger(deployed, admin, "works")
    assert final(deployed, admin, run_id)["state"] == "SUCCEEDED"

    assert {one["message_id"] for one in until(lambda: deployed.said("Results", "message comes again"))} == {newer}
    until(lambda: {unread, broken} <= {one["message_id"] for one in deployed.said("Results", "message dropped")})

    def only_the_newer_is_left() -> bool:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return [int(counts[name]) for name in names] == [0, 1]

    until(only_the_newer_is_left)


def test_a_cancelled_run_is_ended_by_its_worker(deployed: Stack, admin: str) -> None:
    create(deployed, admin, name="endless", **shell("exec sleep 600"))
    run_id = trigger(deployed, admin, "endless")
    until(lambda: _in_state(deployed, admin, run_id, "RUNNING"))
    assert "is asked to end" in deployed.clawjob("run", "cancel", run_id, "--why", "enough", token=admin)
    run = until(lambda: _in_state(deployed, admin, run_id, "CANCELLED"))
    assert (run["outcome"], run["cancel"]["why"]) == ("cancelled", "enough")


def test_a_worker_that_is_told_to_stop_hands_its_run_back(
    deployed: Stack, admin: str, worker: subprocess.Popen[bytes]
) -> None:
    create(deployed, admin, name="long", **shell("exec sleep 600"))
    run_id = trigger(deployed, admin, "long")
    until(lambda: _in_state(deployed, admin, run_id, "RUNNING"))
    worker.terminate()
    assert worker.wait(30) == 0
    run = until(lambda: _in_state(deployed, admin, run_id, "QUEUED"))
    assert [one["outcome"] for one in run["attempts"]] == ["interrupted"]
    assert deployed.waiting_runs() == 1


def _in_state(stack: Stack, token: str, run_id: str, state: str) -> dict[str, Any] | None:
    run: dict[str, Any] = stack.ask("GET", f"/runs/{run_id}", token).json()
    return run if run["state"] == state else None
