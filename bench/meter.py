"""Computes DynamoDB's read and write units from requests and items, by the pricing rules of its documentation.

moto reports a consumed capacity, but a wrong one for large and for indexed items. The rules: an item's size is the
bytes of its names and values; a write costs a unit per 1 KB begun of the larger of the item before and after, twice
that in a transaction, and as much when its condition is refused; each index entry made, removed or changed costs a unit
per 1 KB of the entry, and a changed key is a removal and an insertion; a read costs a unit per 4 KB begun, half when it
is not consistent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import ClientError

AttributeValue = Mapping[str, Any]
TypedItem = Mapping[str, AttributeValue]

WRITE_BLOCK: Final = 1024
READ_BLOCK: Final = 4096
_TRANSACTION: Final = 2


@dataclass(frozen=True, slots=True)
class Index:
    """A keys-only index."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Keys of a table and of its indexes."""

    keys: tuple[str, ...]
    indexes: tuple[Index, ...]

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> "Layout":
        """Read the arguments of `CreateTable`.

        Raises:
            ValueError: an index projects more than its keys, which this meter does not know.
        """
        indexes = []
        for index in definition.get("GlobalSecondaryIndexes", ()):
            if index["Projection"]["ProjectionType"] != "KEYS_ONLY":
                raise ValueError(f"index {index['IndexName']} projects more than its keys")
            indexes.append(Index(index["IndexName"], _names(index["KeySchema"])))
        return cls(_names(definition["KeySchema"]), tuple(indexes))


def _names(schema: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(key["AttributeName"] for key in schema)


# ---- sizes ----


def item_size(item: TypedItem | None) -> int:
    """Bytes of an item: of all its names and values."""
    return sum(len(name.encode()) + value_size(value) for name, value in (item or {}).items())


def value_size(value: AttributeValue) -> int:
    """Bytes of a value.

    Raises:
        ValueError: the type is not known.
    """
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return number_size(content)
        case "B":
            return len(content)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + value_size(one) for one in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + value_size(one) for name, one in content.items())
        case "SS":
            return sum(len(one.encode()) for one in content)
        case "NS":
            return sum(number_size(one) for one in content)
    raise ValueError(f"type {kind} is not known")


def number_size(text: str) -> int:
    """Bytes of a number: one, one more for two significant digits each, one more for a minus sign."""
    mantissa, _, _ = text.lower().partition("e")
    digits = mantissa.lstrip("+-").replace(".", "").strip("0")
    return 1 + (len(digits) + 1) // 2 + (1 if text.startswith("-") and digits else 0)


# ---- units ----


def blocks(size: int, block: int) -> int:
    """How many blocks a size begins; nothing counts as one."""
    return max(1, -(-size // block))


def base_units(before: TypedItem | None, after: TypedItem | None) -> int:
    """Write units of the table for an item that was so and would be so."""
    return blocks(max(item_size(before), item_size(after)), WRITE_BLOCK)


@dataclass(frozen=True, slots=True)
class IndexWrite:
    """What a write does to one index."""

    index: str
    move: str
    """`made`, `removed` or `moved`."""
    units: int


def index_writes(layout: Layout, before: TypedItem | None, after: TypedItem | None) -> list[IndexWrite]:
    """What a write does to the indexes."""
    done = []
    for index in layout.indexes:
        old, new = _entry(layout, index, before), _entry(layout, index, after)
        if old == new:
            continue
        units = sum(blocks(item_size(entry), WRITE_BLOCK) for entry in (old, new) if entry is not None)
        move = "made" if old is None else "removed" if new is None else "moved"
        done.append(IndexWrite(index.name, move, units))
    return done


def _entry(layout: Layout, index: Index, item: TypedItem | None) -> dict[str, AttributeValue] | None:
    if item is None or not all(key in item for key in index.keys):
        return None
    return {key: item[key] for key in dict.fromkeys((*layout.keys, *index.keys))}


# ---- charges ----


@dataclass(frozen=True, slots=True)
class Charge:
    """What one write of one item, or one read, costs."""

    phase: str
    operation: str
    key: tuple[str, ...]
    base: float = 0
    """Write units of the table."""
    indexes: tuple[IndexWrite, ...] = ()
    reads: float = 0
    refused: bool = False
    in_transaction: bool = False
    items: int = 0
    """Items read."""

    @property
    def writes(self) -> float:
        """Write units with those of the indexes."""
        return self.base + sum(one.units for one in self.indexes)


@dataclass
class Meter:
    """Counts the calls of clients and computes the units of DynamoDB's.

    Items are looked at through the client's own unmetered calls, before and after each write.
    """

    layout: Layout
    charges: list[Charge] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Phase and operation of each call, of every service."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The largest item seen of each kind."""
    phase: str = ""

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Name what is going on."""
        outer, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = outer

    @property
    def writes(self) -> float:
        """All write units."""
        return sum(charge.writes for charge in self.charges)

    @property
    def reads(self) -> float:
        """All read units."""
        return sum(charge.reads for charge in self.charges)

    @property
    def items_read(self) -> int:
        """All items read."""
        return sum(charge.items for charge in self.charges)

    def clear(self) -> None:
        """Forget what was counted."""
        self.charges.clear()
        self.calls.clear()
        self.sizes.clear()

    def watch(self, *clients: Any) -> None:
        """Count the calls of clients from now on."""
        for client in clients:
            self._watch(client)

    def _watch(self, client: Any) -> None:
        original = client._make_api_call  # noqa: SLF001 - the one place where a call's arguments and answer meet
        of_dynamodb = client.meta.service_model.service_name == "dynamodb"

        def metered(operation: str, parameters: dict[str, Any]) -> Any:
            self.calls.append((self.phase, operation))
            if not of_dynamodb:
                return original(operation, parameters)
            return self._metered(original, operation, parameters)

        client._make_api_call = metered  # noqa: SLF001 - as above

    def _metered(self, call: Callable[..., Any], operation: str, parameters: dict[str, Any]) -> Any:
        if operation in _READS:
            answer = call(operation, parameters)
            self.charges.append(_READS[operation](self.phase, operation, parameters, answer))
            return answer
        if operation == "TransactWriteItems":
            writes = [next(iter(entry.items())) for entry in parameters["TransactItems"]]
        elif operation in _WRITES:
            writes = [(_WRITES[operation], parameters)]
        else:
            raise ValueError(f"the meter does not know {operation}")
        return self._metered_writes(call, operation, parameters, writes)

    def _metered_writes(
        self,
        call: Callable[..., Any],
        operation: str,
        parameters: dict[str, Any],
        writes: list[tuple[str, Mapping[str, Any]]],
    ) -> Any:
        keys = [{key: (one.get("Key") or one["Item"])[key] for key in self.layout.keys} for _, one in writes]
        tables = [one["TableName"] for _, one in writes]
        before = [_read(call, table, key) for table, key in zip(tables, keys, strict=True)]
        wanted = [wanted_item(kind, one, old) for (kind, one), old in zip(writes, before, strict=True)]
        try:
            answer = call(operation, parameters)
        except ClientError as error:
            if error.response["Error"]["Code"] in _REFUSALS:
                self._charge_all(operation, writes, keys, before, wanted, refused=True)
            raise
        self._charge_all(operation, writes, keys, before, wanted, refused=False)
        for table, key, new in zip(tables, keys, wanted, strict=True):
            if _read(call, table, key) != new:
                raise ValueError(f"the meter expected another item at {key}")
        return answer

    def _charge_all(
        self,
        operation: str,
        writes: list[tuple[str, Mapping[str, Any]]],
        keys: list[dict[str, AttributeValue]],
        before: list[TypedItem | None],
        after: list[TypedItem | None],
        *,
        refused: bool,
    ) -> None:
        in_transaction = operation == "TransactWriteItems"
        for (kind, _), key, old, new in zip(writes, keys, before, after, strict=True):
            parts = tuple(str(value["S"]) for value in key.values())
            if new is not None and not refused:
                name = kind_of(parts)
                self.sizes[name] = max(self.sizes.get(name, 0), item_size(new))
            self.charges.append(
                Charge(
                    phase=self.phase,
                    operation=kind,
                    key=parts,
                    base=base_units(old, new) * (_TRANSACTION if in_transaction else 1),
                    # Indexes are written after the transaction, by themselves.
                    indexes=() if refused or kind == "ConditionCheck" else tuple(index_writes(self.layout, old, new)),
                    refused=refused,
                    in_transaction=in_transaction,
                )
            )


_REFUSALS: Final = frozenset({"ConditionalCheckFailedException", "TransactionCanceledException"})
_WRITES: Final = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}


def kind_of(key: tuple[str, ...]) -> str:
    """Name an item's kind by its key: `JOB STATE`, `RUN ATTEMPT`."""
    return " ".join(part.split("#")[0] for part in key)


def _read(call: Callable[..., Any], table: str, key: Mapping[str, AttributeValue]) -> TypedItem | None:
    answer = call("GetItem", {"TableName": table, "Key": dict(key), "ConsistentRead": True})
    item: TypedItem | None = answer.get("Item")
    return item


_ASSIGNMENT: Final = re.compile(r"\s*(#?\w+)\s*=\s*(:\w+)\s*")


def wanted_item(kind: str, parameters: Mapping[str, Any], before: TypedItem | None) -> TypedItem | None:
    """The item that a write would leave. Knows plain SET and REMOVE; anything else is refused.

    Raises:
        ValueError: the update does something else.
    """
    if kind == "Put":
        item: TypedItem = parameters["Item"]
        return item
    if kind == "Delete":
        return None
    if kind == "ConditionCheck":
        return before
    after = {**(before or parameters["Key"])}
    names = parameters.get("ExpressionAttributeNames", {})
    values = parameters.get("ExpressionAttributeValues", {})
    sets, _, removes = parameters["UpdateExpression"].partition("REMOVE ")
    for assignment in sets.strip().removeprefix("SET ").split(",") if sets.strip() else ():
        match = _ASSIGNMENT.fullmatch(assignment)
        if match is None:
            raise ValueError(f"the meter does not know {assignment!r}")
        after[names.get(match[1], match[1])] = values[match[2]]
    for name in removes.split(",") if removes else ():
        after.pop(names.get(name.strip(), name.strip()), None)
    return after


def _get(phase: str, operation: str, parameters: Mapping[str, Any], answer: Mapping[str, Any]) -> Charge:
    _only_whole_items(parameters)
    key = tuple(str(value["S"]) for value in parameters["Key"].values())
    item = answer.get("Item")
    units = blocks(item_size(item), READ_BLOCK) * _consistency(parameters)
    return Charge(phase, operation, key, reads=units, items=int(item is not None))


def _batch_get(phase: str, operation: str, parameters: Mapping[str, Any], answer: Mapping[str, Any]) -> Charge:
    units: float = 0
    items = 0
    for table, request in parameters["RequestItems"].items():
        _only_whole_items(request)
        found = answer["Responses"].get(table, [])
        # Each item is rounded up by itself; a key without an item costs as much as a small one.
        missing = len(request["Keys"]) - len(found)
        units += (sum(blocks(item_size(item), READ_BLOCK) for item in found) + missing) * _consistency(request)
        items += len(found)
    return Charge(phase, operation, (), reads=units, items=items)


def _query(phase: str, operation: str, parameters: Mapping[str, Any], answer: Mapping[str, Any]) -> Charge:
    _only_whole_items(parameters)
    if "FilterExpression" in parameters:
        raise ValueError("the meter cannot see what a filter left out")
    size = sum(item_size(item) for item in answer["Items"])
    key = (parameters.get("IndexName", "table"),)
    # A page is rounded up as a whole.
    return Charge(
        phase, operation, key, reads=blocks(size, READ_BLOCK) * _consistency(parameters), items=len(answer["Items"])
    )


def _only_whole_items(parameters: Mapping[str, Any]) -> None:
    if "ProjectionExpression" in parameters:
        raise ValueError("the meter cannot see what a projection left out")


def _consistency(parameters: Mapping[str, Any]) -> float:
    return 1 if parameters.get("ConsistentRead") else 0.5


_READS: Final = {"GetItem": _get, "BatchGetItem": _batch_get, "Query": _query}
