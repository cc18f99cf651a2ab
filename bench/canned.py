"""Answers at the HTTP layer: botocore builds, signs and parses as ever, but nothing is sent, and nobody computes.

`Replay` gives recorded answers in their order.
"""

from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from io import BytesIO
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

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
    headers = HTTPHeaders.from_dict({"Content-Type": "application/x-amz-json-1.0", "Date": formatdate(usegmt=True)})
    return AWSResponse(url, 200, headers, _Raw(body))


def answer_with(client: Any, answer: Answer) -> None:
    """Let a function answer all requests of a client."""

    def before_send(request: Any, **_: object) -> AWSResponse:
        body = request.body or b""
        return _response(request.url, answer(operation_of(request), body).encode())

    client.meta.events.register_first("before-send.*", before_send)


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
