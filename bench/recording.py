"""Records what moto answers, to be replayed where only our own CPU is to count."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import md5
from typing import Any

from moto.core.models import botocore_stubber

from bench.canned import operation_of


@contextmanager
def recording(instead: Mapping[str, Callable[[bytes], bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Record operations and moto's answers in order.

    Args:
        instead: makes the answer of an operation of its body, where moto is not to be asked.
    """
    answers: list[tuple[str, bytes]] = []
    stubber: Any = botocore_stubber
    ask_moto = stubber.process_request

    def process_request(request: Any) -> tuple[int, dict[str, str], bytes]:
        operation = operation_of(request)
        make = instead.get(operation)
        status, headers, body = (200, {}, make(request.body)) if make else ask_moto(request)
        content = body.encode() if isinstance(body, str) else body
        if status != 200:
            raise RuntimeError(f"{operation} was refused: {content!r}")
        answers.append((operation, content))
        return status, headers, content

    stubber.process_request = process_request
    try:
        yield answers
    finally:
        stubber.process_request = ask_moto


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
