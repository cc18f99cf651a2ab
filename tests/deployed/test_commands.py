"""What else users do, by the command line and through the deployed API: each needs a right of the API's role."""

import json

from support.deployed import Stack, until

JOB = {"name": "tour", "command": "true", "schedule": {"every": "1h"}}


def test_a_job_is_changed_looked_at_triggered_and_deleted(deployed: Stack, admin: str) -> None:
    def clawjob(*arguments: str, stdin: str = "") -> str:
        return deployed.clawjob(*arguments, token=admin, stdin=stdin)

    clawjob("job", "apply", "-f", "-", stdin=json.dumps(JOB))
    clawjob("job", "apply", "-f", "-", stdin=json.dumps({**JOB, "timeout": "5m"}))
    shown = json.loads(clawjob("job", "show", "tour", "--output", "json"))
    assert (shown["state"]["version"], shown["timeout"]) == (2, "5m")
    assert "tour" in clawjob("job", "list")
    clawjob("job", "pause", "tour")
    assert "paused" in clawjob("why", "tour")
    clawjob("job", "resume", "tour")

    key = {"Idempotency-Key": "once"}
    first, again = (deployed.ask("POST", "/jobs/tour/runs", admin, headers=key).json()["run_id"] for _ in range(2))
    assert first == again
    assert first in clawjob("run", "list", "tour", "--output", "json")
    assert clawjob("run", "logs", first) == ""
    assert "CANCELLED" in clawjob("run", "cancel", first)
    assert json.loads(clawjob("run", "show", first, "--output", "json"))["state"] == "CANCELLED"
    clawjob("job", "delete", "tour")
    assert deployed.ask("GET", "/jobs/tour", admin).status_code == 404


def test_a_job_that_cannot_be_is_refused_with_its_fields_through_the_gateway_too(deployed: Stack, admin: str) -> None:
    answer = deployed.ask("POST", "/jobs", admin, {"name": "x", "command": "true", "schedule": {"every": "soon"}})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert [problem["field"] for problem in answer.json()["problems"]] == ["schedule.every"]


def test_dead_letters_are_looked_at_sent_back_and_dropped(deployed: Stack, admin: str) -> None:
    url = json.loads(deployed.outputs["DeadQueues"])["results"]["url"]
    sqs = deployed.emulator.client("sqs")
    back, gone = (sqs.send_message(QueueUrl=url, MessageBody=text)["MessageId"] for text in ("back", "gone"))
    listed = deployed.clawjob("dlq", "list", "results", "--output", "json", token=admin)
    assert back in listed
    assert gone in listed
    deployed.clawjob("dlq", "redrive", "results", back, token=admin)
    until(lambda: [one for one in deployed.said("Results", "message dropped") if one["body"] == "back"])
    deployed.clawjob("dlq", "drop", "results", gone, "--yes", token=admin)
    assert gone not in deployed.clawjob("dlq", "list", "results", "--output", "json", token=admin)


def test_active_jobs_are_counted_by_the_hourly_event(deployed: Stack) -> None:
    assert deployed.call_scheduler({"count": True}).keys() == {"active_jobs"}
