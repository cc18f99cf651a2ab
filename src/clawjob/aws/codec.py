"""Values to DynamoDB's typed form and back, without loss: a float keeps its exact text, nothing is a Decimal."""

from collections.abc import Mapping
from typing import Any

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


def encode(value: Value) -> dict[str, Any]:
    """Give a value its type tag.

    Raises:
        ValueError: a float is NaN or infinite.
        TypeError: the value is of another type.
    """
    match value:
        case str():
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise ValueError(f"{value} cannot be stored")
            return {"N": repr(value)}
        case None:
            return {"NULL": True}
        case list():
            return {"L": [encode(item) for item in value]}
        case dict():
            return {"M": encode_item(value)}
    raise TypeError(f"{type(value).__name__} cannot be stored")


def encode_item(item: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    """Encode every attribute of an item."""
    return {name: encode(value) for name, value in item.items()}


def decode(tagged: Mapping[str, Any]) -> Value:
    """Take a value out of its type tag."""
    ((tag, content),) = tagged.items()
    match tag:
        case "S" | "BOOL":
            return content  # type: ignore[no-any-return]  # the tag says the type
        case "N":
            text = str(content)
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case "NULL":
            return None
        case "L":
            return [decode(item) for item in content]
        case "M":
            return decode_item(content)
    # None of our types: whoever reads the attribute finds it missing, and the item's other attributes are told.
    return None


def decode_item(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Value]:
    """Decode every attribute of an item."""
    return {name: decode(tagged) for name, tagged in item.items()}
