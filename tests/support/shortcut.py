"""A short way to moto for tests of thousands of calls: no HTTP, no signing, no routing, no serializer.

About twenty times as fast.

Storage, queues, conditions and refusals are moto's; errors are botocore's own, made by its own parser. Only the
slowest things are done here, on moto's items: an update (of the one form that our stores write, `SET #a = :a, ...
REMOVE #b, ...`), a transaction, for which moto copies the whole table, a query of the due index, for which it sorts the
table, and counting and deleting in a queue, for which it asks the time for each message.
`tests/crash/test_shortcut.py` compares the short way with the long one.
"""

import copy
import json
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.parsers import create_parser
from moto.core.exceptions import ServiceException
from moto.core.model import OperationModel
from moto.core.responses import ActionResult, BaseResponse
from moto.core.serialize import XFormedAttributePicker, get_serializer_class
from moto.core.utils import camelcase_to_underscores, get_service_model
from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import ConditionalCheckFailed, TransactionCanceledException
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.responses import DynamoHandler
from moto.sqs import models as sqs_models
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import sqs_backends
from moto.sqs.responses import SQSResponse
from werkzeug.exceptions import HTTPException

_LONG_WAY = frozenset({"CreateTable", "UpdateTimeToLive", "CreateQueue"})
_ACCOUNT, _REGION = "123456789012", "eu-west-1"
_DUE_QUERY = "#due_shard = :shard AND #due_at <= :until"
_PARSER = create_parser("json")
_SET = re.compile(r"#(\w+) = (:\w+)")
_FORM = re.compile(r"(SET #\w+ = :\w+(, #\w+ = :\w+)*)?( ?REMOVE #\w+(, #\w+)*)?")


class _Table(DynamoHandler):
    """moto's handler with a quick update, transaction and query."""

    def query(self) -> ActionResult:
        asked = self.body
        if asked.get("KeyConditionExpression") != _DUE_QUERY:
            return super().query()
        values = asked["ExpressionAttributeValues"]
        shard, until = values[":shard"]["S"], values[":until"]["S"]
        start = asked.get("ExclusiveStartKey")
        found: list[tuple[str, str, str]] = []
        for parts in self.dynamodb_backend.get_table(asked["TableName"]).items.values():
            for item in parts.values():
                due = item.attrs.get("due_at")
                if due is not None and due.value <= until and item.attrs["due_shard"].value == shard:
                    found.append((due.value, item.attrs["pk"].value, item.attrs["sk"].value))
        found.sort()
        if start:
            found = [one for one in found if one > (start["due_at"]["S"], start["pk"]["S"], start["sk"]["S"])]
        items = [
            {"due_shard": {"S": shard}, "due_at": {"S": due}, "pk": {"S": pk}, "sk": {"S": sk}}
            for due, pk, sk in found[: asked["Limit"]]
        ]
        more = {"LastEvaluatedKey": items[-1]} if len(found) > len(items) else {}
        return ActionResult({"Items": items, "Count": len(items), "ScannedCount": len(items), **more})

    def update_item(self) -> ActionResult:
        asked = self.body
        item = self._checked(asked)
        applied = self._apply(asked, item)
        if asked.get("ReturnValues") == "ALL_NEW":
            return ActionResult({"Attributes": applied.to_json()["Attributes"]})
        return ActionResult({})

    def transact_write_items(self) -> ActionResult:
        writes = [next(iter(entry.items())) for entry in self.body["TransactItems"]]
        errors: list[tuple[str | None, str | None, Any]] = []
        items: list[Item | None] = []
        for _, asked in writes:
            try:
                items.append(self._checked(asked))
                errors.append((None, None, None))
            except ConditionalCheckFailed as error:
                errors.append(("ConditionalCheckFailed", error.message, json.loads(error.description).get("Item")))
        if any(code for code, _, _ in errors):
            raise TransactionCanceledException(errors)
        for (kind, asked), item in zip(writes, items, strict=True):
            self._write(kind, asked, item)
        return ActionResult({})

    def _write(self, kind: str, asked: Mapping[str, Any], item: Item | None) -> None:
        match kind:
            case "Put":
                self.dynamodb_backend.put_item(asked["TableName"], asked["Item"])
            case "Update":
                self._apply(asked, item)
            case "Delete":
                self.dynamodb_backend.delete_item(asked["TableName"], asked["Key"])
            case _:
                raise NotImplementedError(kind)

    def _checked(self, asked: Mapping[str, Any]) -> Item | None:
        table = self.dynamodb_backend.get_table(asked["TableName"])
        key = asked.get("Key") or asked["Item"]
        item = table.get_item(DynamoType(key[table.hash_key_attr]), DynamoType(key[table.range_key_attr]))
        condition = get_filter_expression(
            asked.get("ConditionExpression"),
            asked.get("ExpressionAttributeNames"),
            asked.get("ExpressionAttributeValues"),
        )
        if not condition.expr(item):
            wanted = asked.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and item is not None
            raise ConditionalCheckFailed(item=item.to_json()["Attributes"] if wanted else None)
        return item

    def _apply(self, asked: Mapping[str, Any], item: Item | None) -> Item:
        expression = asked["UpdateExpression"]
        if not _FORM.fullmatch(expression):
            raise NotImplementedError(expression)
        if item is None:
            item = self.dynamodb_backend.get_table(asked["TableName"]).put_item(dict(asked["Key"]))
        sets, _, removes = expression.partition("REMOVE ")
        names, values = asked["ExpressionAttributeNames"], asked.get("ExpressionAttributeValues", {})
        for name, value in _SET.findall(sets):
            # Past moto's own setter, which measures the whole item each time.
            dict.__setitem__(item.attrs, names[f"#{name}"], DynamoType(values[value]))
        for name in re.findall(r"#\w+", removes):
            item.attrs.pop(names[name], None)
        return item


_HANDLERS: dict[str, type[BaseResponse]] = {"dynamodb": _Table, "sqs": SQSResponse}


def shorten(*clients: Any) -> None:
    """Take the short way with every call of these clients; hooks that are put around later stay outside of it."""
    # The same values, of which moto computes thousands for each message of a long queue.
    sqs_models.unix_time_millis = lambda: time.time() * 1000
    sqs_models.camelcase_to_underscores = _method
    sqs_models.Queue.messages = property(_visible)
    sqs_models.Queue.delete_message = _delete
    sqs_models.Queue.approximate_number_of_messages_delayed = property(_count_delayed)
    sqs_models.Queue.approximate_number_of_messages_not_visible = property(_count_hidden)
    # For every message that is received moto asks for all attributes of its queue, to learn the retention.
    sqs_backends[_ACCOUNT][_REGION].is_message_valid_based_on_retention_period = lambda *_: True
    for client in clients:
        _shorten(client)


def _visible(queue: Any) -> list[Any]:
    now = time.time() * 1000
    return [message for message in queue._messages if message.visible_at < now and message.delayed_until <= now]


def _count_delayed(queue: Any) -> int:
    now = time.time() * 1000
    return sum(message.delayed_until > now for message in queue._messages)


def _count_hidden(queue: Any) -> int:
    now = time.time() * 1000
    return sum(message.visible_at >= now for message in queue._messages)


def _delete(queue: Any, receipt: str) -> None:
    for message in queue._messages:
        if message.receipt_handle == receipt or receipt in message._old_receipt_handles:
            queue._messages.remove(message)
            queue.pending_messages.discard(message)
            queue.deleted_messages.update(message.all_receipt_handles)
            return
    if receipt not in queue.deleted_messages:
        raise ReceiptHandleIsInvalid


def _shorten(client: Any) -> None:
    service = client.meta.service_model.service_name
    long_way = client._make_api_call

    def short_way(name: str, parameters: dict[str, Any]) -> Any:
        if name in _LONG_WAY:
            return long_way(name, parameters)
        handler = _HANDLERS[service]()
        handler.region = _REGION
        handler.current_account = _ACCOUNT
        # moto keeps what it is given.
        handler.params = handler.body = copy.deepcopy(parameters)
        handler.uri_match, handler.headers, handler.path = {}, {}, "/"
        method = getattr(handler, _method(name))
        try:
            answer = method().result
        except ServiceException as error:
            status, body = _serialized(handler, error, _model(service, name))
        except HTTPException as error:
            status, body = error.code or 400, str(error.description).encode()
        else:
            return _without_nones(copy.deepcopy(answer or {}))
        raise _error(client, name, {"status_code": status, "headers": {}, "body": body})

    client._make_api_call = short_way


def _without_nones(answer: dict[str, Any]) -> dict[str, Any]:
    """moto leaves to its serializer what is not there."""
    return {name: value for name, value in answer.items() if value is not None}


def _error(client: Any, name: str, answer: dict[str, Any]) -> Exception:
    shapes = client.meta.service_model
    parsed = _PARSER.parse(answer, shapes.operation_model(name).output_shape)
    code = parsed["Error"]["Code"]
    shape = shapes.shape_for_error_code(code)
    more = _PARSER.parse(answer, shape) if shape else {}
    error: Exception = client.exceptions.from_code(code)({**more, **parsed}, name)
    return error


def _serialized(handler: BaseResponse, error: ServiceException, model: OperationModel) -> tuple[int, bytes]:
    transformers = getattr(handler, "RESPONSE_KEY_PATH_TO_TRANSFORMER", None)
    picker = XFormedAttributePicker(response_transformers=transformers)
    kind = get_serializer_class(model.service_model.service_name, "json")
    answer = kind(operation_model=model, value_picker=picker).serialize(error)
    body = answer["body"]
    return answer["status_code"], body.encode() if isinstance(body, str) else body


@cache
def _method(name: str) -> str:
    return camelcase_to_underscores(name)


@cache
def _model(service: str, name: str) -> OperationModel:
    return get_service_model(service).operation_model(name)
