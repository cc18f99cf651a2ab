"""Runs over the API: A-08, the preview A-09, cancelling, logs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from clawjob.aws.log_streams import LogStreams, stream_name
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import AttemptResult, Outcome
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.settle_attempt import settle_attempt
from support.api import Client, job
from support.clock import ManualClock
from support.service import Service

NOBODY = "000000000000"


def start(service: Service) -> Claimed:
    """Take the one message that waits and claim its run."""
    (message,) = service.receive()
    claimed = claim_run(service.context, RunMessage.from_body(message.body), message.message_id, "worker-1")
    assert isinstance(claimed, Claimed)
    service.context.queues.delete(message)
    return claimed


def end(service: Service, clock: ManualClock, claimed: Claimed, **changes: Any) -> None:
    """Report an end of the claimed attempt after 90 s."""
    began = clock()
    clock.advance(timedelta(seconds=90))
    values = {"outcome": Outcome.SUCCEEDED, "exit_code": 0, "duration_seconds": 90.0, **changes}
    settle_attempt(
        service.context,
        AttemptResult(
            run_id=claimed.run.run_id,
            token=claimed.run.token,
            worker="worker-1",
            started_at=began,
            ended_at=clock(),
            **values,
        ),
    )


def test_a_trigger_makes_a_run_with_its_address(api: Client, service: Service) -> None:
    api("POST", "/jobs", job(params={"page": 1}))
    reply = api("POST", "/jobs/news/runs", {"params": {"page": 2}})
    assert reply.status == 201
    run = reply.json
    assert reply.headers["location"] == f"/api/v1/runs/{run['run_id']}"
    assert (run["state"], run["kind"], run["attempt"], run["lateness_seconds"]) == ("QUEUED", "manual", 0, None)
    shown = api("GET", f"/runs/{run['run_id']}").json
    assert shown["params"] == {"page": 2}
    assert shown["attempts"] == []
    assert len(service.receive()) == 1


def test_the_same_key_gives_the_same_run_and_another_body_is_refused(api: Client) -> None:
    """A-08."""
    api("POST", "/jobs", job(params={"page": 1}))
    key = {"Idempotency-Key": "0d3b7c6e-1"}
    first = api("POST", "/jobs/news/runs", {"params": {"page": 2}}, key)
    again = api("POST", "/jobs/news/runs", {"params": {"page": 2}}, key)
    other = api("POST", "/jobs/news/runs", {"params": {"page": 3}}, key)
    assert (first.status, again.status, other.status) == (201, 200, 422)
    assert again.json["run_id"] == first.json["run_id"]
    assert other.json["type"] == "urn:clawjob:problem:key-reused"
    assert len(api("GET", "/jobs/news/runs").json["items"]) == 1


def test_without_a_key_each_trigger_is_a_run(api: Client, clock: ManualClock) -> None:
    """A-08."""
    api("POST", "/jobs", job())
    first = api("POST", "/jobs/news/runs", {})
    clock.advance(timedelta(seconds=1))
    second = api("POST", "/jobs/news/runs")
    assert [run["run_id"] for run in api("GET", "/jobs/news/runs").json["items"]] == [
        second.json["run_id"],
        first.json["run_id"],
    ]


def test_a_key_that_cannot_be_taken_is_refused(api: Client) -> None:
    api("POST", "/jobs", job())
    for key in ("", " ", "x" * 201, "é", "a b", "a\n"):
        reply = api("POST", "/jobs/news/runs", {}, {"Idempotency-Key": key})
        assert (reply.status, reply.fields) == (400, ["Idempotency-Key"]), key


def test_params_that_do_not_fit_are_refused_and_nothing_is_stored(api: Client, service: Service) -> None:
    api("POST", "/jobs", job(params={"page": 1, "lang": "en", "deep": False, "share": 0.5}))
    before = service.items()
    for params, field in (
        ('{"pag": 2}', "params.pag"),
        ('{"page": "2"}', "params.page"),
        ('{"page": true}', "params.page"),
        ('{"page": null}', "params.page"),
        ('{"share": NaN}', "params.share"),
        ('{"share": 1e400}', "params.share"),
        ('{"lang": ["en"]}', "params.lang"),
        ('{"lang": "\\u0000"}', "params.lang"),
        ('{"lang": "\\ud800"}', "params.lang"),
        ("[1]", "params"),
        ("null", "params"),
    ):
        reply = api("POST", "/jobs/news/runs", f'{{"params": {params}}}')
        assert (reply.status, reply.fields) == (400, [field]), params
    assert api("POST", "/jobs/news/runs", {"parms": {}}).fields == ["parms"]
    assert service.items() == before


def test_a_run_shows_how_its_attempts_went(api: Client, service: Service, clock: ManualClock) -> None:
    api("POST", "/jobs", job(retry="1m", min_items=1))
    run_id = api("POST", "/jobs/news/runs").json["run_id"]
    clock.advance(timedelta(seconds=2))
    claimed = start(service)
    running = api("GET", f"/runs/{run_id}").json
    assert (running["state"], running["attempt"], running["lateness_seconds"]) == ("RUNNING", 1, 2.0)
    end(service, clock, claimed, outcome=Outcome.FAILED, exit_code=2, detail="exit code 2", log_tail="no such site")
    waiting = api("GET", f"/runs/{run_id}").json
    assert (waiting["state"], waiting["retry"], waiting["lateness_seconds"]) == ("RETRY_WAIT", 1, None)
    assert waiting["log_tail"] == "no such site"
    assert "next starts at" in waiting["explanation"]
    clock.advance(timedelta(seconds=70))
    end(service, clock, start(service), items=7, outputs={"stats": {"pages": 3}})
    done = api("GET", f"/runs/{run_id}").json
    assert (done["state"], done["is_final"], done["items"]) == ("SUCCEEDED", True, 7)
    assert done["outputs"] == {"stats": {"pages": 3}}
    assert [(one["number"], one["outcome"], one["exit"]) for one in done["attempts"]] == [
        (1, "failed", "2: failure"),
        (2, "succeeded", "0: success"),
    ]
    assert done["duration_seconds"] == 90.0
    assert datetime.fromisoformat(done["final_at"]).tzinfo == UTC
    (listed,) = api("GET", "/jobs/news/runs").json["items"]
    assert listed == {name: done[name] for name in listed}


def test_a_waiting_run_is_cancelled_at_once_and_a_running_one_is_asked(
    api: Client, service: Service, clock: ManualClock
) -> None:
    api("POST", "/jobs", job(overlap="allow"))
    waiting = api("POST", "/jobs/news/runs").json["run_id"]
    reply = api("POST", f"/runs/{waiting}/cancel", {"why": "wrong day"})
    assert (reply.status, reply.json["state"]) == (200, "CANCELLED")
    assert reply.json["cancel"] == {"at": "2024-03-09T11:58:00.000Z", "by": "anna", "why": "wrong day"}
    service.receive()
    running = api("POST", "/jobs/news/runs").json["run_id"]
    start(service)
    asked = api("POST", f"/runs/{running}/cancel")
    assert (asked.status, asked.json["state"], asked.json["cancel"]["by"]) == (202, "RUNNING", "anna")
    assert api("POST", f"/runs/{running}/cancel", {"why": "x" * 61}).fields == ["why"]
    assert api("POST", f"/runs/{running}/cancel", {"why": 1}).fields == ["why"]


def test_a_run_that_is_not_there_is_not_found(api: Client) -> None:
    for run_id in (f"{NOBODY}-m1", "x", f"{NOBODY}-" + "m" * 200, "..", "%F0%9F%95%B7", "a%0A"):
        for method, suffix in (("GET", ""), ("GET", "/log"), ("POST", "/cancel")):
            assert api(method, f"/runs/{run_id}{suffix}").status == 404, run_id


def test_a_log_is_read_line_by_line_and_goes_on_from_its_cursor(
    api: Client, service: Service, logs: LogStreams, clock: ManualClock
) -> None:
    api("POST", "/jobs", job())
    run_id = api("POST", "/jobs/news/runs").json["run_id"]
    address = f"/runs/{run_id}/log"
    assert api("GET", address).json == {
        "run_id": run_id,
        "attempt": 1,
        "lines": [],
        "cursor": None,
        "has_ended": False,
    }
    claimed = start(service)
    at = int(clock().timestamp() * 1000)
    logs.put_events(stream_name(run_id, 1), [(at, "first \x1b[31mred"), (at + 5, "<script>"), (at + 9, "third")])
    page = api("GET", f"{address}?limit=2").json
    assert page["lines"] == [
        {"at": "2024-03-09T11:58:00.000Z", "text": "first \x1b[31mred"},
        {"at": "2024-03-09T11:58:00.005Z", "text": "<script>"},
    ]
    assert not page["has_ended"]
    more = api("GET", f"{address}?cursor={page['cursor']}").json
    assert [line["text"] for line in more["lines"]] == ["third"]
    end(service, clock, claimed)
    last = api("GET", f"{address}?attempt=1&cursor={more['cursor']}").json
    assert (last["lines"], last["has_ended"]) == ([], True)
    assert api("GET", f"{address}?attempt=2").fields == ["attempt"]
    assert api("GET", f"{address}?attempt=0").fields == ["attempt"]
    assert api("GET", f"{address}?cursor=f/1").fields == ["cursor"]
    assert api("GET", f"{address}?limit=1001").fields == ["limit"]


def test_the_preview_shows_what_the_scheduler_will_fire(api: Client, clock: ManualClock) -> None:
    """A-09: every case with instants, those of the nights with a change of the clock among them."""
    cases = json.loads((Path(__file__).parents[2] / "cron_cases.json").read_text())
    fired = [case for case in cases if case["kind"] == "fire"]
    assert len(fired) > 60
    for case in fired:
        clock.move_to(datetime.fromisoformat(case["start_utc"]))
        name = case["id"]
        document = job(name, schedule={"cron": case["expr"], "timezone": case["tz"]})
        assert api("POST", "/jobs", document).status == 201, case
        reply = api("GET", f"/jobs/{name}/next?count={len(case['expected'])}")
        found = [item["scheduled_at"].replace(".000Z", "Z") for item in reply.json["items"]]
        assert found == case["expected"], case


def test_expressions_that_can_never_fire_are_refused_by_their_field(api: Client, service: Service) -> None:
    """CRON-13, CRON-22."""
    for schedule, field in (
        ({"cron": "0 0 31 2 *"}, "schedule.cron"),
        ({"cron": "0 0 12 * * 1"}, "schedule.cron"),
        ({"cron": "0 2 * * *", "timezone": "Europe/Budapesst"}, "schedule.timezone"),
    ):
        assert api("POST", "/jobs", job(schedule=schedule)).fields == [field]
    assert service.items() == []


def test_the_preview_says_why_an_instant_is_moved(api: Client) -> None:
    api("POST", "/jobs", job(schedule={"cron": "30 2 * * *", "timezone": "America/New_York"}))
    first = api("GET", "/jobs/news/next?count=1").json
    assert first["timezone"] == "America/New_York"
    (item,) = first["items"]
    assert item["scheduled_at"] == "2024-03-10T07:00:00.000Z"
    assert item["local"] == "2024-03-10T03:00:00-04:00"
    assert item["nominal_local"] == "2024-03-10T02:30:00"
    assert "does not exist" in item["moved"]


def test_why_answers_in_plain_words(api: Client) -> None:
    api("POST", "/jobs", job(schedule="0 2 * * *"))
    reply = api("GET", "/jobs/news/why")
    assert reply.json["name"] == "news"
    assert {"label": "enabled", "text": "yes"} in reply.json["lines"]
    assert api("GET", "/jobs/other/why").status == 404
