"""Jobs over the API: A-01, A-02, A-04, A-05, A-06."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawjob.domain.instants import to_text
from clawjob.operations.tick import tick
from support.api import Client, job
from support.clock import ManualClock
from support.service import Service

T = TypeVar("T")

FOUNDING = {
    "name": "daily_news_crawl",
    "command": "/data/spiders/news_spider",
    "args": ["--date", "{{.Yesterday}}"],
    "schedule": "0 2 * * *",
    "timeout": "30m",
    "max_retry": 2,
}


def test_the_founding_document_makes_a_job(api: Client) -> None:
    reply = api("POST", "/jobs", FOUNDING)
    assert reply.status == 201
    assert reply.headers["location"] == "/api/v1/jobs/daily_news_crawl"
    assert reply.headers["etag"] == '"1"'
    assert reply.headers["content-type"] == "application/json"
    shown = reply.json
    assert shown["schedule"] == {
        "cron": "0 2 * * *",
        "timezone": "UTC",
        "dst": {"missing": "shift", "repeated": "first"},
        "jitter": "0s",
    }
    assert shown["timeout"] == "30m"
    assert shown["state"]["version"] == 1
    assert shown["state"]["next_runs"][0] == {
        "scheduled_at": "2024-03-10T02:00:00.000Z",
        "local": "2024-03-10T02:00:00+00:00",
        "nominal_local": "2024-03-10T02:00:00",
        "moved": None,
    }
    assert shown["state"]["last_decision"]["reason"] == "created"
    assert shown["state"]["last_decision"]["explanation"].startswith("The job was created")
    assert api("GET", "/jobs/daily_news_crawl").json == shown


def test_the_document_that_is_shown_can_be_sent_again(api: Client) -> None:
    shown = api("POST", "/jobs", FOUNDING).json
    state = shown.pop("state")
    again = api("PUT", "/jobs/daily_news_crawl", shown, {"If-Match": "*"})
    assert again.status == 200
    after = again.json
    assert after.pop("state")["version"] == state["version"] + 1
    assert after == shown


def test_a_second_job_of_a_name_is_refused_and_the_first_stays(api: Client) -> None:
    api("POST", "/jobs", job(args=["first"]))
    reply = api("POST", "/jobs", job(args=["second"]))
    assert reply.status == 409
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["type"] == "urn:clawjob:problem:duplicate-name"
    assert reply.json["status"] == 409
    assert api("GET", "/jobs/news").json["args"] == ["first"]


def test_unknown_fields_are_refused_by_name_and_nothing_is_stored(api: Client, service: Service) -> None:
    """A-01."""
    for changes, field in (
        ({"comand": ["x"]}, "comand"),
        ({"timeout_secs": 5}, "timeout_secs"),
        ({"schedule": {"cron": "0 2 * * *", "tz": "UTC"}}, "schedule.tz"),
        ({"state": {}}, "state"),
    ):
        reply = api("POST", "/jobs", job(**changes))
        assert (reply.status, reply.fields) == (400, [field])
    assert service.items() == []


BAD_NUMBERS = (
    *("-1", "1e9", '"30"', "30.5", "true", "null", "NaN", "1e400", "-Infinity", "9007199254740993", "[30]", '""'),
)


@pytest.mark.parametrize(("field", "more"), [("timeout", ("0",)), ("max_retry", ("1000000",)), ("min_items", ("0",))])
def test_bad_numbers_are_refused_with_field_and_range(
    api: Client, service: Service, field: str, more: tuple[str, ...]
) -> None:
    """A-02."""
    for value in BAD_NUMBERS + more:
        reply = api("POST", "/jobs", f'{{"name": "a", "command": "x", "{field}": {value}}}')
        assert (reply.status, reply.fields) == (400, [field]), value
        (problem,) = reply.json["problems"]
        assert problem["message"], value
        assert any(digit.isdigit() for digit in problem["remedy"]), value
    assert service.items() == []


BAD_NAMES = (
    *("../../etc/passwd", "a/b", "a%2Fb", ".", "..", "", " ", "a\n", "名前", "🕷", "é", "e\u0301", "x" * 256),
    *("a#b", "job+x", "\u202egnp", "a\0b"),
)


def test_names_outside_of_the_pattern_are_refused_everywhere(api: Client, service: Service) -> None:
    """A-04."""
    for name in BAD_NAMES:
        reply = api("POST", "/jobs", job(name))
        assert (reply.status, reply.fields) == (400, ["name"]), name
        for method, suffix in (("GET", ""), ("DELETE", ""), ("GET", "/runs"), ("GET", "/why"), ("POST", "/runs")):
            assert api(method, f"/jobs/{quote(name, safe='')}{suffix}").status in {404, 405}, name
    assert service.items() == []


def test_names_in_addresses_are_decoded_once(api: Client) -> None:
    """A-04."""
    api("POST", "/jobs", job("a.b-c_1"))
    assert api("GET", "/jobs/a%2Eb-c%5F1").status == 200
    assert api("GET", "/jobs/a%252Eb-c_1").status == 404


BAD_BODIES: tuple[tuple[str | bytes, str], ...] = (
    ("", "no JSON"),
    ("{", "no JSON"),
    ("{'name': 1}", "no JSON"),
    ("[]", "no JSON object"),
    ("null", "no JSON object"),
    ('"text"', "no JSON object"),
    ("\ufeff{}", "no JSON"),
    ('{"name": "a", "name": "b", "command": "x"}', "written twice"),
    ('{"name": "a", "command": "x", "env": {"A": "1", "A": "2"}}', "written twice"),
    ('{"name": "a", "command": "\\ud800"}', "surrogate"),
    ('{"name": "a", "command": "x", "labels": {"\\udfff": "1"}}', "surrogate"),
    ("[" * 100_000, "too deeply"),
    ('{"a":' * 40 + "1" + "}" * 40, "too deeply"),
    ('{"timeout": ' + "9" * 5000 + "}", "too long"),
    (b'{"name": "\xff"}', "not UTF-8"),
    ('{"name": "\ufffd"}', "not UTF-8"),
)


def test_bodies_that_are_no_plain_json_object_are_refused(api: Client, service: Service) -> None:
    for body, message in BAD_BODIES:
        reply = api("POST", "/jobs", body)
        assert reply.status == 400, body[:50]
        assert message in reply.json["detail"], body[:50]
        assert reply.json["problems"][0]["remedy"], body[:50]
    assert service.items() == []


def test_a_body_in_base64_is_read(api: Client) -> None:
    assert api("POST", "/jobs", json.dumps(job()).encode()).status == 201


def test_a_body_over_the_limit_is_refused_as_too_large(api: Client) -> None:
    text = json.dumps(job(description="x" * 600_000))
    for body in (text, text.encode()):
        reply = api("POST", "/jobs", body)
        assert reply.status == 413
        assert reply.json["type"] == "urn:clawjob:problem:body-too-large"


def test_a_put_from_an_old_version_is_refused_with_the_present_one(api: Client) -> None:
    """A-06."""
    etag = api("POST", "/jobs", job()).headers["etag"]
    first = api("PUT", "/jobs/news", job(args=["1"]), {"If-Match": etag})
    assert (first.status, first.headers["etag"]) == (200, '"2"')
    second = api("PUT", "/jobs/news", job(args=["2"]), {"If-Match": etag})
    assert second.status == 412
    assert second.headers["etag"] == '"2"'
    assert api("GET", "/jobs/news").json["args"] == ["1"]


def test_what_the_scheduler_writes_makes_no_put_stale(api: Client, service: Service, clock: ManualClock) -> None:
    """A-06."""
    etag = api("POST", "/jobs", job(schedule={"every": "1h"})).headers["etag"]
    clock.advance(timedelta(hours=2))
    tick(service.context, lambda: timedelta(minutes=1))
    assert api("PUT", "/jobs/news", job(), {"If-Match": etag}).status == 200


def test_an_if_match_that_is_no_version_is_refused(api: Client) -> None:
    api("POST", "/jobs", job())
    for tag in ("1", '"x"', '"1", "2"', "", '"-1"'):
        reply = api("PUT", "/jobs/news", job(), {"If-Match": tag})
        assert (reply.status, reply.fields) == (400, ["If-Match"]), tag


def test_a_put_must_say_which_version_it_changes_or_any(api: Client) -> None:
    api("POST", "/jobs", job())
    reply = api("PUT", "/jobs/news", job(args=["x"]))
    assert (reply.status, reply.json["type"]) == (428, "urn:clawjob:problem:precondition-required")
    assert api("GET", "/jobs/news").json["args"] == []
    assert api("PUT", "/jobs/news", {"command": "/bin/false"}, {"If-Match": "*"}).headers["etag"] == '"2"'


def test_a_job_whose_only_instant_is_past_can_be_edited_and_does_not_fire_again(
    api: Client, service: Service, clock: ManualClock
) -> None:
    at = to_text(clock() + timedelta(minutes=1))
    api("POST", "/jobs", job(schedule={"at": at}))
    clock.advance(timedelta(hours=1))
    changed = job(schedule={"at": at}, description="done")
    assert api("PUT", "/jobs/news", changed, {"If-Match": "*"}).status == 200
    tick(service.context, lambda: timedelta(minutes=1))
    runs = api("GET", "/jobs/news/runs").json["items"]
    assert [run["scheduled_at"] for run in runs] == [at]
    earlier = job(schedule={"at": to_text(clock() - timedelta(hours=3))})
    assert api("PUT", "/jobs/news", earlier, {"If-Match": "*"}).fields == ["schedule.at"]


def test_a_put_cannot_rename_and_cannot_create(api: Client) -> None:
    anyway = {"If-Match": "*"}
    assert api("PUT", "/jobs/news", job(), anyway).status == 404
    api("POST", "/jobs", job())
    reply = api("PUT", "/jobs/news", job("other"), anyway)
    assert (reply.status, reply.fields) == (400, ["name"])


def test_a_deleted_job_is_gone_and_its_name_is_free(api: Client) -> None:
    api("POST", "/jobs", job())
    reply = api("DELETE", "/jobs/news")
    assert (reply.status, reply.text) == (204, "")
    assert api("GET", "/jobs/news").status == 404
    assert api("DELETE", "/jobs/news").status == 404
    assert api("GET", "/jobs").json["items"] == []
    assert api("POST", "/jobs", job()).status == 201


def test_pause_and_resume_switch_the_document_and_the_version(api: Client) -> None:
    api("POST", "/jobs", job(schedule="0 2 * * *"))
    paused = api("POST", "/jobs/news/pause")
    assert (paused.status, paused.json["enabled"], paused.headers["etag"]) == (200, False, '"2"')
    assert paused.json["state"]["next_runs"] == []
    assert api("POST", "/jobs/news/pause").headers["etag"] == '"2"'
    resumed = api("POST", "/jobs/news/resume", {})
    assert (resumed.json["enabled"], resumed.headers["etag"]) == (True, '"3"')
    assert api("POST", "/jobs/other/pause").status == 404
    assert api("POST", "/jobs/news/pause", {"reason": "x"}).fields == ["reason"]


def test_lists_go_on_from_a_cursor_without_a_gap(api: Client) -> None:
    names = [f"job{number:02d}" for number in range(7)]
    for name in names:
        api("POST", "/jobs", job(name))
    found: list[str] = []
    cursor = None
    while True:
        reply = api("GET", "/jobs?limit=3" + (f"&cursor={cursor}" if cursor else ""))
        found += [item["name"] for item in reply.json["items"]]
        cursor = reply.json["cursor"]
        if cursor is None:
            break
    assert found == names


def test_a_cursor_that_was_changed_is_refused_wherever_it_was_changed(api: Client) -> None:
    """DB-05."""
    for name in ("a", "b", "c"):
        api("POST", "/jobs", job(name))
    cursor = api("GET", "/jobs?limit=1").json["cursor"]
    for place in range(len(cursor)):
        other = "A" if cursor[place] != "A" else "B"
        reply = api("GET", f"/jobs?limit=1&cursor={cursor[:place]}{other}{cursor[place + 1 :]}")
        assert (reply.status, reply.fields) == (400, ["cursor"])
    for text in ("", "x", ".", "%F0%9F%95%B7", cursor[:-1], cursor + "=", cursor.split(".")[1]):
        assert api("GET", f"/jobs?cursor={text}").fields == ["cursor"]


def test_a_cursor_of_another_list_is_refused(api: Client) -> None:
    for name in ("a", "b"):
        api("POST", "/jobs", job(name))
        api("POST", f"/jobs/{name}/runs")
        api("POST", f"/jobs/{name}/runs")
    cursor = api("GET", "/jobs/a/runs?limit=1").json["cursor"]
    assert api("GET", f"/jobs/a/runs?cursor={cursor}").status == 200
    assert api("GET", f"/jobs/b/runs?cursor={cursor}").fields == ["cursor"]
    assert api("GET", f"/jobs?cursor={cursor}").fields == ["cursor"]


def test_limits_out_of_range_are_refused(api: Client) -> None:
    for limit in ("0", "-1", "101", "1e2", "\uff11", "ten", "", "1,2", "9" * 400):
        reply = api("GET", f"/jobs?limit={quote(limit)}")
        assert (reply.status, reply.fields) == (400, ["limit"]), limit
        assert "from 1 to 100" in reply.json["problems"][0]["remedy"]


def test_unknown_parameters_are_refused(api: Client) -> None:
    assert api("GET", "/jobs?limt=3").fields == ["limt"]
    assert api("GET", "/health?x=1").fields == ["x"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "command", "args", "schedule", "env", "params", "timeout", "retry", "labels"])
                | st.text(max_size=5),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    target=st.sampled_from(["/jobs", "/jobs/news", "/jobs/news/runs", "/jobs/news/pause", "/runs/x/cancel"]),
    method=st.sampled_from(["POST", "PUT"]),
)
def test_no_body_whatever_makes_the_service_fail(api: Client, body: object, target: str, method: str) -> None:
    assert api(method, target, json.dumps(body), {"If-Match": "*"}).status < 500


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(path=st.text(max_size=20), query=st.dictionaries(st.sampled_from(["limit", "cursor", "count"]), st.text()))
def test_no_address_whatever_makes_the_service_fail(api: Client, path: str, query: dict[str, str]) -> None:
    text = urlencode(query, errors="replace")
    target = quote(path, safe="/", errors="replace")
    for prefix in ("/jobs/", "/runs/", "/"):
        reply = api("GET", f"{prefix}{target}?{text}")
        assert reply.status < 500
        assert reply.status == 200 or reply.json["status"] == reply.status


def together(count: int, call: Callable[[int], T]) -> list[T]:
    """Call in as many threads, all let go at once."""
    gate = threading.Barrier(count)

    def wait_and_call(number: int) -> T:
        gate.wait()
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(wait_and_call, range(count)))


def test_of_32_creates_of_one_name_over_the_api_one_makes_the_job(api: Client) -> None:
    """A-05."""
    replies = together(32, lambda number: api("POST", "/jobs", job(args=[str(number)])))
    assert sorted(reply.status for reply in replies) == [201] + [409] * 31
    (winner,) = [number for number, reply in enumerate(replies) if reply.status == 201]
    assert api("GET", "/jobs/news").json["args"] == [str(winner)]
    assert len(api("GET", "/jobs").json["items"]) == 1
