"""Looks into moto without calling it: what a test may know and the service may not."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.sqs.models import sqs_backends

from clawjob.aws.codec import decode_item
from support.service import TABLE

_ACCOUNT = "123456789012"
_REGION = "eu-west-1"


def _table() -> Any:
    return dynamodb_backends[_ACCOUNT][_REGION].tables[TABLE]


def _items() -> Iterator[Any]:
    for parts in _table().items.values():
        yield from parts.values()


def queues() -> dict[str, Any]:
    """moto's queues by name."""
    return sqs_backends[_ACCOUNT][_REGION].queues


def wipe() -> None:
    """Empty the table and all queues, and leave them there."""
    _table().items.clear()
    for queue in queues().values():
        queue._messages = []
        queue._pending_messages = set()
        queue.deleted_messages = set()


def stored() -> Iterator[dict[str, Any]]:
    """All items of the table."""
    for item in list(_items()):
        yield decode_item(item.to_json()["Attributes"])


def run_states() -> dict[str, tuple[str, int]]:
    """State and token of every run and record, by run id."""
    found: dict[str, tuple[str, int]] = {}
    for item in _items():
        if item.attrs["sk"].value == "RUN":
            token = item.attrs.get("token")
            run_id = item.attrs["pk"].value.removeprefix("RUN#")
            found[run_id] = item.attrs["state"].value, int(token.value) if token else 0
    return found


def run_state(run_id: str) -> tuple[str, int] | None:
    """State and token of a run or record."""
    item = _table().get_item(DynamoType({"S": f"RUN#{run_id}"}), DynamoType({"S": "RUN"}))
    if item is None:
        return None
    token = item.attrs.get("token")
    return item.attrs["state"].value, int(token.value) if token else 0


def next_due() -> str | None:
    """The smallest instant in the due index, as text."""
    found = None
    for item in _items():
        due = item.attrs.get("due_at")
        if due is not None and (found is None or due.value < found):
            found = due.value
    return found


def next_message(name: str) -> datetime | None:
    """When the next message of a queue can be received; in the past if there is one now."""
    messages = queues()[name]._messages
    if not messages:
        return None
    # moto compares milliseconds with `>`, so a message is there a millisecond later.
    first = min(max(message.visible_at or 0, message.delayed_until or 0) for message in messages)
    return datetime.fromtimestamp(first / 1000, UTC) + timedelta(milliseconds=1)


def count_messages(name: str) -> int:
    """How many messages a queue has, in whatever condition."""
    return len(queues()[name]._messages)


def remove(run_id: str) -> None:
    """Take a run and all that belongs to it out of the table, as its TTL would."""
    items = _table().items
    for key in [key for key in items if key.value == f"RUN#{run_id}"]:
        del items[key]
