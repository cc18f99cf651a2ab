"""Versions of a job: who, when and why, what each changed, and the way back."""

from datetime import timedelta
from typing import Any

import pytest

from support.api import Client, job
from support.clock import ManualClock
from support.service import TABLE, Service


@pytest.fixture
def changed(api: Client, clock: ManualClock) -> Client:
    """A job with four versions."""
    api("POST", "/jobs", job(timeout="10m", args=["a"]))
    clock.advance(timedelta(minutes=1))
    api("PUT", "/jobs/news", job(timeout="20m", args=["a", "b"]), {"If-Match": "*"})
    api("POST", "/jobs/news/pause", {"why": "site is down"})
    api("POST", "/jobs/news/resume")
    return api


def test_each_change_is_a_version_with_who_when_and_why(changed: Client) -> None:
    items = changed("GET", "/jobs/news/versions").json["items"]
    assert [(one["version"], one["change"]) for one in items] == [
        (4, "resumed"),
        (3, "paused"),
        (2, "replaced"),
        (1, "created"),
    ]
    assert {one["by"] for one in items} == {"anna"}
    assert [one["why"] for one in items] == ["", "site is down", "", ""]
    assert items[3]["at"] < items[2]["at"]


def test_versions_come_by_pages(changed: Client) -> None:
    found, cursor = [], ""
    while True:
        page = changed("GET", f"/jobs/news/versions?limit=1{cursor}").json
        found += [one["version"] for one in page["items"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert found == [4, 3, 2, 1]


def test_a_cursor_of_another_list_is_refused(changed: Client) -> None:
    changed("POST", "/jobs", job("other"))
    cursor = changed("GET", "/jobs/news/versions?limit=1").json["cursor"]
    assert changed("GET", f"/jobs/other/versions?cursor={cursor}").status == 400


def test_a_version_shows_its_document_and_what_it_changed(changed: Client) -> None:
    shown = changed("GET", "/jobs/news/versions/2").json
    assert shown["document"]["timeout"] == "20m"
    assert shown["against"] == 1
    assert shown["changes"] == [
        {"field": "args", "before": ["a"], "after": ["a", "b"]},
        {"field": "timeout", "before": "10m", "after": "20m"},
    ]
    assert changed("GET", "/jobs/news/versions/1").json["changes"] == []
    back = changed("GET", "/jobs/news/versions/1?against=4").json["changes"]
    assert {"field": "timeout", "before": "20m", "after": "10m"} in back


def test_going_back_makes_a_new_version_of_the_old_document(changed: Client) -> None:
    tag = changed("GET", "/jobs/news").headers["etag"]
    back = changed("POST", "/jobs/news/rollback", {"version": 1, "why": "finds nothing"}, {"If-Match": tag})
    assert back.status == 200
    assert (back.json["timeout"], back.json["state"]["version"]) == ("10m", 5)
    newest = changed("GET", "/jobs/news/versions?limit=1").json["items"][0]
    assert (newest["change"], newest["why"]) == ("rolled_back", "finds nothing")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"version": 1}, {}, 428),
        ({"version": 1}, {"If-Match": '"2"'}, 412),
        ({"version": 9}, {"If-Match": "*"}, 404),
        ({}, {"If-Match": "*"}, 400),
        ({"version": "1"}, {"If-Match": "*"}, 400),
        ({"version": True}, {"If-Match": "*"}, 400),
        ({"version": 0}, {"If-Match": "*"}, 404),
        ({"version": 1, "why": "x" * 201}, {"If-Match": "*"}, 400),
    ],
)
def test_a_way_back_that_cannot_be_is_refused_and_changes_nothing(
    changed: Client, service: Service, body: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    before = service.items()
    assert changed("POST", "/jobs/news/rollback", body, headers).status == status
    assert service.items() == before


def test_what_was_right_then_and_is_not_now_is_refused_by_its_field(api: Client, clock: ManualClock) -> None:
    at = (clock().replace(microsecond=0)).isoformat().replace("+00:00", "Z")
    assert api("POST", "/jobs", job(schedule={"at": at})).status == 201
    api("PUT", "/jobs/news", job(schedule="0 2 * * *"), {"If-Match": "*"})
    clock.advance(timedelta(days=1))
    refused = api("POST", "/jobs/news/rollback", {"version": 1}, {"If-Match": "*"})
    assert (refused.status, refused.fields) == (400, ["schedule.at"])


@pytest.mark.parametrize("number", ["0", "01", "x", "99", "1" * 30, "-1", "1.0"])
def test_a_version_that_is_not_there_is_not_found(changed: Client, number: str) -> None:
    assert changed("GET", f"/jobs/news/versions/{number}").status == 404


def test_why_says_who_paused_a_job_and_why(changed: Client) -> None:
    changed("POST", "/jobs/news/pause", {"why": "site is down again"})
    lines = {one["label"]: one["text"] for one in changed("GET", "/jobs/news/why").json["lines"]}
    assert lines["enabled"].startswith("no: the job was paused by anna at ")
    assert lines["enabled"].endswith(": site is down again")


def test_a_version_of_before_this_was_kept_says_only_when(changed: Client, service: Service) -> None:
    item = next(one for one in service.items() if one["sk"]["S"] == "V#00000002")
    old = {name: value for name, value in item.items() if name not in {"change", "written_by", "writer", "why"}}
    service.dynamodb.put_item(TableName=TABLE, Item=old)
    shown = changed("GET", "/jobs/news/versions/2").json
    assert (shown["change"], shown["by"], shown["why"]) == (None, "", "")
    assert shown["document"]["timeout"] == "20m"
