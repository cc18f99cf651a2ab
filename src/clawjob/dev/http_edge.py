"""API Gateway's HTTP API in front of the API's handler: requests become events of payload format 2.0, answers go back.

The authorizer is asked about each request, as with a cache of no seconds. A handler is called with one event at a
time, as one Lambda instance is.
"""

import base64
import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from clawjob.dev.lambda_context import LambdaContext
from clawjob.dev.loopback import HOST, LoopbackServer, Request, Response

OPEN_PATH: Final = "/api/v1/health"
"""The only route that needs no token."""
_API_ARN: Final = "arn:aws:execute-api:us-east-1:123456789012:dev/$default"

Event = dict[str, Any]
Handler = Callable[[Event, LambdaContext], Mapping[str, Any]]
Clock = Callable[[], datetime]

_TEXT_TYPES: Final = frozenset({"application/json", "application/javascript", "application/xml"})
_LARGEST_ANSWER: Final = 6 * 1024 * 1024
"""What a Lambda may answer."""


class HttpEdge:
    """Serves the API on a port of this machine."""

    def __init__(
        self,
        clock: Clock,
        new_request_id: Callable[[], str],
        port: int = 0,
        report: Callable[[Exception], None] | None = None,
        pages: Callable[[Request], Response | None] | None = None,
    ) -> None:
        """Listen; serve from `start` on.

        Args:
            clock: for events.
            new_request_id: makes their ids.
            port: 0 takes any that is free.
            report: hears of what fails in a handler.
            pages: is asked first, and answers what is none of the API's business.

        Raises:
            PortTakenError: another program listens on the port.
        """
        self._handler: Handler | None = None
        self._authorizer: Handler | None = None
        self._clock = clock
        self._new_request_id = new_request_id
        self._report = report
        self._pages = pages
        self._one_at_a_time = threading.Lock()
        self._server = LoopbackServer(self._answer, port, report or _ignore)

    @property
    def url(self) -> str:
        """Where the API is."""
        return self._server.url

    def start(self, handler: Handler, authorizer: Handler) -> None:
        """Begin to serve; until now requests have waited."""
        self._handler = handler
        self._authorizer = authorizer
        self._server.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.close()

    def _answer(self, request: Request) -> Response:
        assert self._handler is not None
        page = self._pages(request) if self._pages else None
        if page is not None:
            return page
        request_id = self._new_request_id()
        event = event_of(request, request_id, self._clock())
        with self._one_at_a_time:
            try:
                if event["rawPath"] != OPEN_PATH:
                    refusal = self._authorize(request, event)
                    if refusal is not None:
                        return refusal
                answer = self._handler(event, LambdaContext("clawjob-dev-api", request_id))
            except Exception as error:
                if self._report is not None:
                    self._report(error)
                return _gateway_error(500, "Internal Server Error")
        return response_of(answer)

    def _authorize(self, request: Request, event: Event) -> Response | None:
        """Ask the authorizer, and give the event what it says; an answer where the request goes no further."""
        assert self._authorizer is not None
        header = request.header("authorization")
        if not header:
            # The identity source is missing: the gateway itself refuses.
            return _gateway_error(401, "Unauthorized", (("www-authenticate", "Bearer"),))
        about = event["requestContext"]
        asked = {**event, "type": "REQUEST", "routeArn": f"{_API_ARN}/{about['http']['method']}{event['rawPath']}"}
        asked["identitySource"] = [header]
        answer = self._authorizer(asked, LambdaContext("clawjob-dev-authorizer", about["requestId"]))
        if answer.get("isAuthorized") is not True:
            return _gateway_error(403, "Forbidden")
        about["authorizer"] = {"lambda": dict(answer.get("context") or {})}
        return None


def event_of(request: Request, request_id: str, now: datetime) -> Event:
    """Write a request as API Gateway gives it to a Lambda (payload format 2.0, `$default` stage and route)."""
    path = _path_of(request)
    query = request.target.partition("?")[2].partition("#")[0]
    headers, cookies = _headers_of(request)
    event: Event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "dev",
            "domainName": headers.get("host", HOST),
            "domainPrefix": "dev",
            "http": {
                "method": request.method,
                "path": path,
                "protocol": request.protocol,
                "sourceIp": HOST,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request_id,
            "routeKey": "$default",
            "stage": "$default",
            "time": now.astimezone(UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        },
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    parameters = _joined(parse_qsl(query, keep_blank_values=True))
    if parameters:
        event["queryStringParameters"] = parameters
    if request.body:
        event["body"], event["isBase64Encoded"] = _body_of(request)
    return event


def response_of(answer: Mapping[str, Any]) -> Response:
    """Write a Lambda's answer as API Gateway does."""
    if not isinstance(answer, Mapping) or "statusCode" not in answer:
        # Format 2.0 takes any JSON value as the body of a 200.
        return Response(200, (("content-type", "application/json"),), json.dumps(answer).encode())
    headers = [(str(name).lower(), str(value)) for name, value in (answer.get("headers") or {}).items()]
    headers += [("set-cookie", str(cookie)) for cookie in answer.get("cookies") or ()]
    if not any(name == "content-type" for name, _ in headers):
        headers.append(("content-type", "text/plain;charset=UTF-8"))
    text = answer.get("body") or ""
    body = base64.b64decode(text) if answer.get("isBase64Encoded") else str(text).encode()
    if len(body) > _LARGEST_ANSWER:
        return _gateway_error(500, "Internal Server Error")
    return Response(int(answer["statusCode"]), tuple(headers), body)


def _path_of(request: Request) -> str:
    """The path as HTTP APIs give it: decoded, without the query."""
    return unquote(request.target.partition("?")[0].partition("#")[0])


def _headers_of(request: Request) -> tuple[dict[str, str], list[str]]:
    cookies = [
        cookie.strip() for name, value in request.headers if name.lower() == "cookie" for cookie in value.split(";")
    ]
    pairs = [(name.lower(), value) for name, value in request.headers if name.lower() != "cookie"]
    return _joined(pairs), [cookie for cookie in cookies if cookie]


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Values of one name are joined with commas, as format 2.0 has them."""
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _body_of(request: Request) -> tuple[str, bool]:
    media_type = request.header("content-type").partition(";")[0].strip().lower()
    is_text = media_type.startswith("text/") or media_type in _TEXT_TYPES
    if is_text and not request.header("content-encoding"):
        return request.body.decode("utf-8", "replace"), False
    return base64.b64encode(request.body).decode("ascii"), True


def _gateway_error(status: int, message: str, more: tuple[tuple[str, str], ...] = ()) -> Response:
    """An answer that the gateway makes itself; the shape is its own, not the API's."""
    body = json.dumps({"message": message}).encode()
    return Response(status, (("content-type", "application/json"), *more), body)


def _ignore(error: Exception) -> None:
    del error
