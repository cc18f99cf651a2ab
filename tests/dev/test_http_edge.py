"""The HTTP edge: events of payload format 2.0 as API Gateway makes them."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from clawjob.dev.http_edge import HttpEdge, response_of

TOKEN = f"cj_dev_{'0123456789abcdef' * 2}"
KNOWN = ("Authorization", f"Bearer {TOKEN}")


class Recorder:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.contexts: list[Any] = []
        self.answer: Any = {"statusCode": 204}

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        self.events.append(event)
        self.contexts.append(context)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def handler() -> Recorder:
    return Recorder()


def authorizer(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes one token and no other."""
    del context
    if event["identitySource"] == [f"Bearer {TOKEN}"]:
        return {"isAuthorized": True, "context": {"token_id": "dev", "role": "admin"}}
    return {"isAuthorized": False, "context": {"role": "admin"}}


@pytest.fixture
def edge(handler: Recorder) -> Iterator[HttpEdge]:
    made = HttpEdge(lambda: datetime(2024, 3, 10, 7, tzinfo=UTC), lambda: "request-1")
    made.start(handler, authorizer)
    yield made
    made.close()


def test_a_request_becomes_an_event_of_format_2_0(edge: HttpEdge, handler: Recorder, ask) -> None:
    headers = [KNOWN, ("Content-Type", "application/json"), ("User-Agent", "test"), ("X-Two", "a"), ("x-two", "b")]
    status, _, _ = ask(edge.url, "POST", "/api/v1/jobs?a=1&a=2&b=x%20y&c=", headers, b'{"name":"\xc3\xa9"}')
    assert status == 204
    (event,) = handler.events
    assert event["version"] == "2.0"
    assert event["routeKey"] == "$default"
    assert event["rawPath"] == "/api/v1/jobs"
    assert event["rawQueryString"] == "a=1&a=2&b=x%20y&c="
    assert event["queryStringParameters"] == {"a": "1,2", "b": "x y", "c": ""}
    assert event["headers"]["x-two"] == "a,b"
    assert event["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert event["body"] == '{"name":"é"}'
    assert event["isBase64Encoded"] is False
    assert event["requestContext"]["http"]["method"] == "POST"
    assert event["requestContext"]["http"]["path"] == "/api/v1/jobs"
    assert event["requestContext"]["requestId"] == "request-1"
    assert event["requestContext"]["stage"] == "$default"
    assert event["requestContext"]["time"] == "10/Mar/2024:07:00:00 +0000"
    assert event["requestContext"]["timeEpoch"] == 1710054000000
    assert "cookies" not in event
    json.dumps(event)


def test_what_a_request_does_not_have_its_event_does_not_have(edge: HttpEdge, handler: Recorder, ask) -> None:
    ask(edge.url, "GET", "/api/v1/jobs", [KNOWN])
    (event,) = handler.events
    assert not {"body", "queryStringParameters", "cookies"} & event.keys()
    assert event["rawQueryString"] == ""


def test_the_path_is_decoded_and_the_raw_query_is_not(edge: HttpEdge, handler: Recorder, ask) -> None:
    ask(edge.url, "GET", "/api/v1/jobs/a%20b%2Fc?x=%41", [KNOWN])
    (event,) = handler.events
    assert event["rawPath"] == "/api/v1/jobs/a b/c"
    assert event["rawQueryString"] == "x=%41"


def test_cookies_stand_in_a_list_of_their_own(edge: HttpEdge, handler: Recorder, ask) -> None:
    ask(edge.url, "GET", "/api/v1/jobs", [KNOWN, ("Cookie", "a=1; b=2")])
    (event,) = handler.events
    assert event["cookies"] == ["a=1", "b=2"]
    assert "cookie" not in event["headers"]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([("Content-Type", "application/octet-stream")], b"\x00\xff"),
        ([("Content-Type", "application/json"), ("Content-Encoding", "gzip")], b"\x1f\x8b"),
        ([], b"abc"),
    ],
)
def test_a_body_that_is_no_text_comes_in_base_64(edge: HttpEdge, handler: Recorder, ask, headers, body) -> None:
    ask(edge.url, "POST", "/api/v1/jobs", [KNOWN, *headers], body)
    (event,) = handler.events
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == body


def test_a_text_that_is_no_utf_8_still_makes_an_event(edge: HttpEdge, handler: Recorder, ask) -> None:
    ask(edge.url, "POST", "/api/v1/jobs", [KNOWN, ("Content-Type", "text/plain; charset=utf-8")], b"\xff")
    assert handler.events[0]["body"] == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, (401, "Unauthorized")),
        (("Authorization", "Bearer cj_dev_wrong"), (403, "Forbidden")),
        (("Authorization", f"Basic {TOKEN}"), (403, "Forbidden")),
        (("Authorization", "Bearer \xe9"), (403, "Forbidden")),
        (("Authorization", "Bearer"), (403, "Forbidden")),
    ],
)
def test_what_the_authorizer_does_not_take_reaches_no_handler(
    edge: HttpEdge, handler: Recorder, ask, header, expected
) -> None:
    """A-09: every route but the health check asks for the token."""
    for target in ("/api/v1/jobs", "/", "/api/v1/health/x", "/API/V1/HEALTH"):
        status, _, body = ask(edge.url, "GET", target, [header] if header else [])
        assert (status, json.loads(body)["message"]) == expected
    assert handler.events == []


def test_the_handler_learns_what_the_authorizer_said_of_the_token(edge: HttpEdge, handler: Recorder, ask) -> None:
    ask(edge.url, "GET", "/api/v1/jobs", [KNOWN])
    assert handler.events[0]["requestContext"]["authorizer"] == {"lambda": {"token_id": "dev", "role": "admin"}}


def test_an_authorizer_that_fails_lets_nobody_in(handler: Recorder, ask) -> None:
    def broken(event: dict[str, Any], context: Any) -> dict[str, Any]:
        raise RuntimeError(event, context)

    edge = HttpEdge(lambda: datetime(2024, 3, 10, 7, tzinfo=UTC), lambda: "r")
    edge.start(handler, broken)
    try:
        assert ask(edge.url, "GET", "/api/v1/jobs", [KNOWN])[0] == 500
    finally:
        edge.close()
    assert handler.events == []


def test_the_health_check_asks_for_no_token(edge: HttpEdge, handler: Recorder, ask) -> None:
    assert ask(edge.url, "GET", "/api/v1/health?x=1")[0] == 204
    assert "authorizer" not in handler.events[0]["requestContext"]


def test_a_handler_that_fails_gives_the_gateway_s_500_and_the_next_request_is_served(handler: Recorder, ask) -> None:
    told: list[Exception] = []
    edge = HttpEdge(lambda: datetime(2024, 3, 10, 7, tzinfo=UTC), lambda: "r", report=told.append)
    edge.start(handler, authorizer)
    try:
        handler.answer = KeyError("oops")
        status, _, body = ask(edge.url, "GET", "/api/v1/jobs", [KNOWN])
        assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})
        handler.answer = {"statusCode": 200, "body": "fine"}
        assert ask(edge.url, "GET", "/api/v1/jobs", [KNOWN])[2] == b"fine"
    finally:
        edge.close()
    assert len(told) == 1


def test_an_answer_s_headers_cookies_and_binary_body_reach_the_client(edge: HttpEdge, handler: Recorder, ask) -> None:
    handler.answer = {
        "statusCode": 201,
        "headers": {"Content-Type": "application/problem+json", "Location": "/api/v1/jobs/x"},
        "cookies": ["a=1"],
        "body": base64.b64encode(b"\x00\x01").decode(),
        "isBase64Encoded": True,
    }
    status, headers, body = ask(edge.url, "POST", "/api/v1/jobs", [KNOWN])
    assert (status, body) == (201, b"\x00\x01")
    assert headers["content-type"] == "application/problem+json"
    assert headers["location"] == "/api/v1/jobs/x"
    assert headers["set-cookie"] == "a=1"


def test_an_answer_without_a_status_is_the_body_of_a_200() -> None:
    response = response_of({"a": 1})
    assert (response.status, response.body) == (200, b'{"a": 1}')


def test_an_answer_over_what_a_lambda_may_give_is_a_500() -> None:
    assert response_of({"statusCode": 200, "body": "x" * (6 * 1024 * 1024 + 1)}).status == 500


def test_the_context_tells_the_time_that_is_left(edge: HttpEdge, handler: Recorder, ask) -> None:
    ask(edge.url, "GET", "/api/v1/jobs", [KNOWN])
    (context,) = handler.contexts
    assert context.aws_request_id == "request-1"
    assert 0 < context.get_remaining_time_in_millis() <= 30000
    assert context.invoked_function_arn.endswith(":function:clawjob-dev-api")
