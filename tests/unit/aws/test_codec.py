import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.aws.codec import decode, decode_item, encode, encode_item
from clawjob.aws.dynamo import Condition, changes_between, update

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_stored_is_read_back_equal_and_of_the_same_type(value: Any) -> None:
    """DB-02, DB-12: no Decimal, no lost digit, empty texts stay texts."""
    found = decode(encode(value))
    assert found == value
    assert json.dumps(found) == json.dumps(value)


@pytest.mark.parametrize("value", [1.5, 0.1234567, 0.1 + 0.2, 1e-30, 10**37, -7, ""])
def test_the_values_that_others_lost_come_back(value: Any) -> None:
    """DB-02."""
    assert decode_item(encode_item({"x": value})) == {"x": value}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_no_number_can_hold_is_refused(value: float) -> None:
    """DB-02."""
    with pytest.raises(ValueError, match="cannot be stored"):
        encode(value)


RESERVED = [
    "status",
    "name",
    "state",
    "timezone",
    "ttl",
    "date",
    "owner",
    "data",
    "count",
    "role",
    "lock",
    "token",
    "user",
    "region",
    "result",
    "log",
    "end",
    "start",
    "key",
    "value",
    "type",
    "url",
    "hash",
    "interval",
    "window",
    "zone",
    "time",
    "timestamp",
    "parallel",
    "group",
    "work",
    "timeout",
    "command",
]


def test_no_reserved_word_can_break_an_expression() -> None:
    """DB-04: every attribute stands behind a placeholder."""
    changes: dict[str, Any] = dict.fromkeys(RESERVED, 1)
    one = update("t", ("a", "b"), changes, Condition(("#status = :status",), {":status": 1}))
    text = one.parameters["UpdateExpression"] + one.parameters["ConditionExpression"]
    assert one.parameters["ExpressionAttributeNames"] == {f"#{name}": name for name in RESERVED}
    words = set(text.replace("SET", "").replace("(", " ").replace(")", " ").replace(",", " ").split()) - {"="}
    assert all(word.startswith(("#", ":")) for word in words)


def test_only_what_differs_is_written() -> None:
    assert changes_between({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 6}) == {"b": 5, "c": None, "d": 6}
