"""DynamoDB calls as the stores need them: conditional writes that answer who was there, and errors told apart.

A refused condition is an answer, not an error. Whatever else goes wrong becomes `UnavailableError`: call again later.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from clawjob.aws.codec import Value, decode_item, encode, encode_item
from clawjob.aws.table import LIST_INDEX, LIST_KEY, PK, SK
from clawjob.domain.errors import UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = dict[str, Value]
Key = tuple[str, str]
T = TypeVar("T")

BATCH_GET_LIMIT: Final = 100
_NAME: Final = re.compile(r"#(\w+)")


@dataclass(frozen=True, slots=True)
class Condition:
    """Clauses that must all hold, and the values that they speak of.

    Attribute names are written `#name`, so that a reserved word can never break an expression.
    """

    clauses: tuple[str, ...]
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The expression."""
        return " AND ".join(f"({clause})" for clause in self.clauses)


@dataclass(frozen=True, slots=True)
class Refused:
    """A condition did not hold; `item` is what was there, None for nothing."""

    item: Item | None


def key_of(key: Key) -> dict[str, dict[str, str]]:
    """Write a key as DynamoDB takes it."""
    return {PK: {"S": key[0]}, SK: {"S": key[1]}}


def call(name: str, function: Callable[[], T]) -> T:
    """Make a call; errors other than a refused condition become `UnavailableError`.

    Raises:
        UnavailableError: throttled, in conflict with a transaction, or no answer.
        ClientError: a condition was refused.
    """
    try:
        return function()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in {"ConditionalCheckFailedException", "TransactionCanceledException"}:
            raise
        raise UnavailableError(name, code or str(error)) from error
    except BotoCoreError as error:
        raise UnavailableError(name, type(error).__name__) from error


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a transaction, or one alone."""

    kind: str
    """`Put`, `Update`, `Delete` or `ConditionCheck`."""
    parameters: Mapping[str, Any]


def put(table: str, item: Item, condition: Condition | None = None) -> Write:
    """Describe a put."""
    return Write("Put", {"TableName": table, "Item": encode_item(item), **_condition(condition)})


def delete(table: str, key: Key, condition: Condition | None = None) -> Write:
    """Describe a delete."""
    return Write("Delete", {"TableName": table, "Key": key_of(key), **_condition(condition)})


def update(table: str, key: Key, changes: Mapping[str, Value], condition: Condition) -> Write:
    """Describe an update; an attribute changed to None is removed."""
    sets = {name: value for name, value in changes.items() if value is not None}
    removes = [name for name, value in changes.items() if value is None]
    parts = []
    if sets:
        parts.append("SET " + ", ".join(f"#{name} = :set_{name}" for name in sets))
    if removes:
        parts.append("REMOVE " + ", ".join(f"#{name}" for name in removes))
    expression = " ".join(parts)
    return Write(
        "Update",
        {
            "TableName": table,
            "Key": key_of(key),
            "UpdateExpression": expression,
            **_condition(condition, expression, {f":set_{name}": value for name, value in sets.items()}),
        },
    )


def changes_between(old: Item, new: Item) -> dict[str, Value]:
    """Tell what an update must set and remove (None) to make one item of the other."""
    changed: dict[str, Value] = {name: value for name, value in new.items() if old.get(name) != value}
    return changed | dict.fromkeys(old.keys() - new.keys())


def write(client: "DynamoDBClient", one: Write) -> Refused | None:
    """Make one conditional write; None when it was made."""
    functions: dict[str, Callable[..., Any]] = {
        "Put": client.put_item,
        "Update": client.update_item,
        "Delete": client.delete_item,
    }
    parameters = dict(one.parameters)
    if "ConditionExpression" in parameters:
        parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    try:
        call(one.kind, lambda: functions[one.kind](**parameters))
    except ClientError as error:
        return Refused(_old(error.response))
    return None


def transact(client: "DynamoDBClient", writes: Sequence[Write]) -> list[Refused | None] | None:
    """Make all writes or none; None when they were made, else for each write whether it was the one refused.

    Raises:
        UnavailableError: another transaction had its hands on an item, or the table throttled.
    """
    entries = [
        {
            one.kind: {
                **one.parameters,
                **(
                    {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
                    if "ConditionExpression" in one.parameters
                    else {}
                ),
            }
        }
        for one in writes
    ]
    try:
        call("TransactWriteItems", lambda: client.transact_write_items(TransactItems=entries))  # type: ignore[arg-type]  # built of dicts
    except ClientError as error:
        reasons: list[dict[str, Any]] = error.response.get("CancellationReasons", [])  # type: ignore[assignment]  # not in the stub's error type
        refusals = [
            Refused(_old(reason)) if reason.get("Code") == "ConditionalCheckFailed" else None for reason in reasons
        ]
        if not any(refusals):
            codes = {str(reason.get("Code")) for reason in reasons} - {"None"}
            raise UnavailableError("TransactWriteItems", ", ".join(sorted(codes)) or str(error)) from error
        return refusals
    return None


def get(client: "DynamoDBClient", table: str, key: Key) -> Item | None:
    """Read an item as it is now (consistent)."""
    answer = call("GetItem", lambda: client.get_item(TableName=table, Key=key_of(key), ConsistentRead=True))
    return decode_item(answer["Item"]) if "Item" in answer else None


def get_many(client: "DynamoDBClient", table: str, keys: Iterable[Key]) -> dict[Key, Item]:
    """Read items as they are now, by batches of 100; what a throttled batch left out is asked for again.

    Raises:
        UnavailableError: the table goes on leaving keys out.
    """
    found: dict[Key, Item] = {}
    waiting = list(dict.fromkeys(keys))
    patience = 5
    while waiting:
        batch, waiting = waiting[:BATCH_GET_LIMIT], waiting[BATCH_GET_LIMIT:]
        request = {table: {"Keys": [key_of(key) for key in batch], "ConsistentRead": True}}
        answer: Any = call("BatchGetItem", lambda request=request: client.batch_get_item(RequestItems=request))  # type: ignore[misc]  # bound for the loop
        for raw in answer["Responses"].get(table, []):
            item = decode_item(raw)
            found[str(item[PK]), str(item[SK])] = item
        left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        if left:
            patience -= 1
            if patience == 0:
                raise UnavailableError("BatchGetItem", "keys are left unprocessed")
            waiting = [(key[PK]["S"], key[SK]["S"]) for key in left] + waiting
    return found


def query_pages(client: "DynamoDBClient", **parameters: Any) -> Iterator[tuple[list[Item], Item | None]]:
    """Query page by page: the items, and where the next page begins (None at the end)."""
    while True:
        answer = call("Query", lambda: client.query(**parameters))
        last = answer.get("LastEvaluatedKey")
        yield [decode_item(raw) for raw in answer["Items"]], decode_item(last) if last else None
        if not last:
            return
        parameters["ExclusiveStartKey"] = last


def list_page(
    client: "DynamoDBClient", table: str, list_key: str, limit: int, start: Item | None, *, forward: bool = True
) -> tuple[list[Key], Item | None]:
    """Read a page of the list index.

    Args:
        client: reads it.
        table: its name.
        list_key: which list.
        limit: of keys.
        start: where the page before ended; None for the first.
        forward: in rising order.

    Returns:
        Keys of the items as of a moment ago, and where the next page begins (None at the end).
    """
    pages = query_pages(
        client,
        TableName=table,
        IndexName=LIST_INDEX,
        KeyConditionExpression="#list_key = :key",
        ExpressionAttributeNames={"#list_key": LIST_KEY},
        ExpressionAttributeValues={":key": {"S": list_key}},
        ScanIndexForward=forward,
        Limit=limit,
        **({"ExclusiveStartKey": encode_item(start)} if start else {}),
    )
    items, last = next(pages)
    return [(str(item[PK]), str(item[SK])) for item in items], last


def _condition(
    condition: Condition | None, expression: str = "", values: Mapping[str, Value] | None = None
) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    text = condition.text if condition else ""
    if text:
        parameters["ConditionExpression"] = text
    names = set(_NAME.findall(f"{expression} {text}"))
    if names:
        parameters["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
    bound = {**(values or {}), **(condition.values if condition else {})}
    if bound:
        parameters["ExpressionAttributeValues"] = {name: encode(value) for name, value in bound.items()}
    return parameters


def _old(response: Mapping[str, Any]) -> Item | None:
    raw = response.get("Item")
    return decode_item(raw) if raw else None
