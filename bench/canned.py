"""Answers at the HTTP layer: botocore builds, signs and parses as ever, but nothing is sent, and nobody computes.

`recording` keeps what moto answers; `Replay` gives the same answers in the same order.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from hashlib import md5
from io import BytesIO
from typing import Any

from botocore.awsrequest import AWSResponse
from moto.core.models import botocore_stubber

Answer = Callable[[str, bytes], str]
"""Body of the answer to an operation with this request body."""


class _Raw(BytesIO):
    """A body as botocore reads it."""

    def stream(self, **_: object) -> Any:
        """Give all of it."""
        yield self.read()


def operation_of(request: Any) -> str:
    """Name the operation that a request is for; all our services name it in a header."""
    target = request.headers["X-Amz-Target"]
    text = target.decode() if isinstance(target, bytes) else str(target)
    return text.rpartition(".")[2]


def _response(url: str, body: bytes) -> AWSResponse:
    headers = {"Content-Type": "application/x-amz-json-1.0", "Date": formatdate(usegmt=True)}
    return AWSResponse(url, 200, headers, _Raw(body))


def answer_with(client: Any, answer: Answer) -> None:
    """Let a function answer all requests of a client."""

    def before_send(request: Any, **_: object) -> AWSResponse:
        body = request.body or b""
        return _response(request.url, answer(operation_of(request), body).encode())

    client.meta.events.register_first("before-send.*", before_send)


@contextmanager
def recording(instead: Mapping[str, Callable[[bytes], bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Record operations and moto's answers in order.

    Args:
        instead: makes the answer of an operation of its body, where moto is not to be asked.
    """
    answers: list[tuple[str, bytes]] = []
    ask_moto = botocore_stubber.process_request

    def process_request(request: Any) -> tuple[int, dict[str, str], bytes]:
        operation = operation_of(request)
        make = instead.get(operation)
        status, headers, body = (200, {}, make(request.body)) if make else ask_moto(request)
        content = body.encode() if isinstance(body, str) else body
        if status != 200:
            raise RuntimeError(f"{operation} was refused: {content!r}")
        answers.append((operation, content))
        return status, headers, content

    botocore_stubber.process_request = process_request
    try:
        yield answers
    finally:
        botocore_stubber.process_request = ask_moto


def nothing(_: bytes) -> bytes:
    """Answer a write that was made."""
    return b"{}"


def all_sent(request: bytes) -> bytes:
    """Answer a `SendMessageBatch` that was accepted."""
    successful = [
        {
            "Id": entry["Id"],
            "MessageId": f"5fea7756-0ea4-451a-a703-{number:012d}",
            "MD5OfMessageBody": md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest(),
        }
        for number, entry in enumerate(json.loads(request)["Entries"])
    ]
    return json.dumps({"Successful": successful, "Failed": []}).encode()


class Replay:
    """Gives recorded answers to clients that make the same calls again."""

    def __init__(self, answers: list[tuple[str, bytes]]) -> None:
        self._left = deque(answers)

    def to(self, *clients: Any) -> "Replay":
        """Answer these clients."""
        for client in clients:
            client.meta.events.register_first("before-send.*", self._before_send)
        return self

    def _before_send(self, request: Any, **_: object) -> AWSResponse:
        operation, body = self._left.popleft()
        if operation != operation_of(request):
            raise RuntimeError(f"{operation_of(request)} was called where {operation} was recorded")
        return _response(request.url, body)

    @property
    def is_used_up(self) -> bool:
        """Whether every answer was given."""
        return not self._left
