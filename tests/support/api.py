"""Speaks to the API as the gateway does: events of payload format 2.0 in, answers out."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from jsonschema import Draft202012Validator

from clawjob.api.app import describe

BASE = "/api/v1"
TOKEN = f"cj_dev_{'0123456789' * 4}"
"""Of an admin, where a test serves the API over HTTP."""


class Answers(Protocol):
    """`clawjob.api.app.Api.answer`, or something with an answer's `response`."""

    def __call__(self, event: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True)
class Reply:
    """An answer taken apart."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def fields(self) -> list[str]:
        """The fields that a problem names."""
        return [problem["field"] for problem in self.json["problems"]]


@dataclass(frozen=True)
class Client:
    """Sends requests; paths begin after `/api/v1`."""

    answer: Answers

    def __call__(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        base: str = BASE,
        stage: str = "$default",
    ) -> Reply:
        event = event_of(method, base + target, body, headers, stage)
        response = self.answer(event).response
        assert set(response) == {"statusCode", "headers", "body", "isBase64Encoded", "cookies"}
        assert not response["isBase64Encoded"]
        found = {name.lower(): value for name, value in response["headers"].items()}
        check_described(method, target, response["statusCode"], found.get("content-type"), response["body"])
        return Reply(response["statusCode"], found, response["body"])


def check_described(method: str, target: str, status: int, media_type: str | None, body: str) -> None:
    """Check that an answer is one that the OpenAPI document describes."""
    operation = _operation(method, target.partition("?")[0])
    if operation is None or method not in {"GET", "POST", "PUT", "DELETE"}:
        return
    answer = _resolved(operation["responses"].get(str(status), operation["responses"]["default"]))
    content = answer.get("content", {})
    if not content:
        assert body == "", f"{method} {target}: {status} is described without a body"
        return
    assert media_type in content, f"{method} {target}: {status} with {media_type} is not described"
    _validator(json.dumps(content[media_type]["schema"])).validate(json.loads(body))


def _operation(method: str, path: str) -> Any:
    for template, operations in describe()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return operations.get(method.lower())
    return None


def _resolved(one: Any) -> Any:
    return describe()["components"]["responses"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": describe()["components"]})


def event_of(
    method: str, target: str, body: object = None, headers: Mapping[str, str] | None = None, stage: str = "$default"
) -> dict[str, Any]:
    """Write a request as the gateway gives it; bytes come base64-encoded, text as it is, else JSON."""
    path, _, query = target.partition("?")
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": {"content-type": "application/json", **{n.lower(): v for n, v in (headers or {}).items()}},
        "requestContext": {
            "authorizer": {"lambda": {"role": "admin", "token_id": "anna"}},
            "http": {"method": method, "path": unquote(path), "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"},
            "requestId": "request-1",
            "stage": stage,
        },
        "isBase64Encoded": isinstance(body, bytes),
    }
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    if parameters:
        event["queryStringParameters"] = parameters
    if isinstance(body, bytes):
        event["body"] = base64.b64encode(body).decode()
    elif body is not None:
        event["body"] = body if isinstance(body, str) else json.dumps(body)
    return event


def job(name: str = "news", **changes: Any) -> dict[str, Any]:
    """A small job document."""
    return {"name": name, "command": "/bin/true", **changes}
