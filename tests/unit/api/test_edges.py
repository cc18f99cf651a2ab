"""Addresses, methods and failures of the API: A-12."""

import logging
from pathlib import Path
from typing import Any

import pytest

from clawjob.api import problems
from clawjob.api.app import Api
from clawjob.api.job_routes import NAME
from clawjob.api.views import exit_in_words
from clawjob.domain.errors import UnavailableError
from clawjob.domain.job_values import NAME_PATTERN
from support.api import Client, job
from support.calls import wrap
from support.service import Service

NO_ROUTES = (
    ("GET", "/nothing", 404),
    ("GET", "", 404),
    ("GET", "/jobs/", 404),
    ("GET", "/jobs/news/", 404),
    ("GET", "//jobs", 404),
    ("GET", "/jobs/news/nothing", 404),
    ("GET", "/jobs/../health", 404),
    ("PATCH", "/jobs/news", 405),
    ("TRACE", "/jobs", 405),
    ("DELETE", "/jobs", 405),
    ("GET", "/jobs/news/pause", 405),
    ("OPTIONS", "/nothing", 404),
    ("HEAD", "/nothing", 404),
)


def test_what_is_no_route_is_told_in_json(api: Client) -> None:
    """A-12."""
    for method, target, status in NO_ROUTES:
        reply = api(method, target)
        assert reply.status == status, (method, target)
        assert reply.headers["content-type"] == "application/problem+json"
        if method != "HEAD":
            assert reply.json["status"] == status
            assert set(reply.json) == {"type", "title", "status", "detail", "problems", "request_id"}
        if status == 405:
            assert reply.headers["allow"]


def test_addresses_outside_of_the_base_path_are_not_found(api: Client) -> None:
    assert api("GET", "/jobs", base="").status == 404
    assert api("GET", "", base="/").status == 404


def test_head_is_get_without_a_body_and_options_tells_the_methods(api: Client) -> None:
    """A-12."""
    api("POST", "/jobs", job())
    head = api("HEAD", "/jobs/news")
    assert (head.status, head.text, head.headers["etag"]) == (200, "", '"1"')
    options = api("OPTIONS", "/jobs/news")
    assert (options.status, options.text) == (204, "")
    assert options.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"


def test_the_stage_in_front_of_the_path_is_taken_away(api: Client) -> None:
    assert api("GET", "/health", base="/prod/api/v1", stage="prod").status == 200
    assert api("PATCH", "/jobs", base="/prod/api/v1", stage="prod").status == 405
    assert api("GET", "/health", stage="prod").status == 200


def test_health_answers_without_any_call(api: Client, service: Service) -> None:
    wrap(service.dynamodb, lambda name, _parameters, _call: pytest.fail(name))
    assert api("GET", "/health").json == {"status": "ok", "now": "2024-03-09T11:58:00.000Z"}


def test_every_answer_forbids_guessing_and_keeping(api: Client) -> None:
    for reply in (api("GET", "/health"), api("GET", "/nothing")):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"


def test_a_table_that_throttles_is_told_as_such(api: Client, service: Service) -> None:
    def refuse(name: str, _parameters: dict[str, Any], _call: object) -> None:
        raise UnavailableError(name, "ThrottlingException")

    undo = wrap(service.dynamodb, refuse)
    reply = api("GET", "/jobs")
    undo()
    assert reply.status == 503
    assert reply.headers["retry-after"] == "1"
    assert reply.json["type"] == "urn:clawjob:problem:unavailable"


def test_a_fault_of_ours_tells_nothing_but_the_request_id(
    api: Client, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret of the inside")

    undo = wrap(service.dynamodb, fail)
    with caplog.at_level(logging.ERROR, logger="clawjob"):
        reply = api("GET", "/jobs")
    undo()
    assert reply.status == 500
    assert reply.json["request_id"] == "request-1"
    assert "secret" not in reply.text
    assert "secret of the inside" in caplog.text
    assert api("GET", "/jobs").status == 200


def test_a_job_that_cannot_be_read_is_left_out_of_lists_and_told_alone(api: Client, service: Service) -> None:
    """CRON-21."""
    for name in ("good", "bad"):
        api("POST", "/jobs", job(name))
    uid = api("GET", "/jobs/bad").json["state"]["uid"]
    key = {"pk": {"S": f"JOB#{uid}"}, "sk": {"S": "V#00000001"}}
    service.dynamodb.put_item(TableName="clawjob-test", Item={**key, "definition": {"S": '{"v": 0}'}})
    fresh = Client(Api(service.fresh_context(), frozenset({"default"}), None).answer)
    assert [item["name"] for item in fresh("GET", "/jobs").json["items"]] == ["good"]
    assert fresh("GET", "/jobs/bad").status == 500
    assert fresh("PUT", "/jobs/bad", job("bad"), {"If-Match": "*"}).status == 200
    assert fresh("GET", "/jobs/bad").status == 200


def test_damaged_rows_leave_the_rest_of_every_list(api: Client, service: Service) -> None:
    """CRON-21."""
    for name in ("good", "bad"):
        api("POST", "/jobs", job(name))
        for _ in range(2):
            api("POST", f"/jobs/{name}/runs")
    uid = api("GET", "/jobs/bad").json["state"]["uid"]
    damaged = api("GET", "/jobs/good/runs").json["items"][0]["run_id"]
    for pk, sk in ((f"JOB#{uid}", "STATE"), (f"RUN#{damaged}", "RUN")):
        service.dynamodb.update_item(
            TableName="clawjob-test",
            Key={"pk": {"S": pk}, "sk": {"S": sk}},
            UpdateExpression="SET v = :v",
            ExpressionAttributeValues={":v": {"N": "0"}},
        )
    assert [item["name"] for item in api("GET", "/jobs").json["items"]] == ["good"]
    assert len(api("GET", "/jobs/good/runs").json["items"]) == 1
    assert api("GET", "/jobs/good/why").status == 200
    assert api("GET", "/jobs/bad/why").status == 200
    assert api("GET", f"/runs/{damaged}").status == 500


def test_what_a_newer_version_wrote_is_to_be_asked_for_again(api: Client, service: Service) -> None:
    """The newer function of a deployment that is under way can answer."""
    for name in ("row", "definition"):
        api("POST", "/jobs", job(name))
    uid = api("GET", "/jobs/definition").json["state"]["uid"]
    key = {"pk": {"S": f"JOB#{uid}"}, "sk": {"S": "V#00000001"}}
    service.dynamodb.put_item(TableName="clawjob-test", Item={**key, "definition": {"S": '{"v": 2}'}})
    service.dynamodb.update_item(
        TableName="clawjob-test",
        Key={"pk": {"S": f"JOB#{api('GET', '/jobs/row').json['state']['uid']}"}, "sk": {"S": "STATE"}},
        UpdateExpression="SET v = :v",
        ExpressionAttributeValues={":v": {"N": "2"}},
    )
    before = service.items()
    fresh = Client(Api(service.fresh_context(), frozenset({"default"}), None).answer)
    for name in ("row", "definition"):
        for reply in (
            fresh("GET", f"/jobs/{name}"),
            fresh("PUT", f"/jobs/{name}", job(name), {"If-Match": "*"}),
            fresh("POST", f"/jobs/{name}/pause"),
        ):
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert "is newer than" in reply.json["detail"]
    assert "heal" not in fresh("GET", "/jobs/row/why").text
    assert service.items() == before


def test_kinds_of_problems_have_names_of_their_own() -> None:
    names = [kind.name for kind in problems.KINDS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, None),
        (0, "0: success"),
        (1, "1: failure"),
        (126, "126: the command cannot be executed"),
        (127, "127: the command was not found"),
        (137, "137: a child of the command was ended by SIGKILL"),
        (255, "255: failure"),
    ],
)
def test_an_exit_code_is_said_in_words(code: int | None, words: str | None) -> None:
    assert exit_in_words(code) == words


def test_names_in_addresses_are_those_of_the_document() -> None:
    assert f"^{NAME.pattern}$" == NAME_PATTERN


def test_the_page_of_the_api_names_every_kind_of_problem_and_every_route(api: Client) -> None:
    page = (Path(__file__).parents[3] / "docs/api.md").read_text("utf-8")
    for kind in problems.KINDS:
        assert f"| `{kind.name}` | {kind.status} |" in page
    for one in api.answer.__self__._routes:  # type: ignore[attr-defined]
        route = one.route
        rule = (
            route.rule.removeprefix("/api/v1")
            .replace("<name>", "{name}")
            .replace("<run_id>", "{id}")
            .replace("<token_id>", "{id}")
            .replace("<number>", "{number}")
            .replace("<queue>", "{queue}")
        )
        assert f"`{route.method} {rule}" in page or f"`/{rule.rpartition('/')[2]}`" in page
