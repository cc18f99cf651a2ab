"""The meter against examples computed by hand from DynamoDB's pages on item sizes and capacity units."""

import pytest

from bench.meter import (
    Index,
    Layout,
    Meter,
    base_units,
    blocks,
    index_writes,
    item_size,
    number_size,
    value_size,
    wanted_item,
)

LAYOUT = Layout(("pk", "sk"), (Index("due", ("shard", "due_at")), Index("list", ("list_key", "list_sort"))))


def text(value: str) -> dict[str, str]:
    return {"S": value}


def item(**attributes: str) -> dict[str, dict[str, str]]:
    return {"pk": text("a"), "sk": text("b"), **{name: text(value) for name, value in attributes.items()}}


def test_a_text_is_the_bytes_of_its_name_and_of_its_utf8_form() -> None:
    assert item_size({"name": text("spider")}) == 4 + 6
    assert item_size({"größe": text("ü€")}) == 7 + 5


@pytest.mark.parametrize(
    ("number", "size"),
    [
        ("0", 1),
        ("7", 2),
        ("10", 2),  # trailing zeros are trimmed
        ("12", 2),
        ("123", 3),
        ("-7", 3),
        ("0.001", 2),  # leading zeros are trimmed
        ("1.5", 2),
        ("1704067200", 5),  # 17 04 06 72
        ("1e-07", 2),
        ("12345678901234567890123456789012345678", 20),
    ],
)
def test_a_number_takes_a_byte_and_one_more_for_two_significant_digits(number: str, size: int) -> None:
    assert number_size(number) == size


def test_lists_and_maps_have_three_bytes_of_overhead_and_one_for_each_element() -> None:
    assert value_size({"L": []}) == 3
    assert value_size({"L": [text("ab"), {"BOOL": True}]}) == 3 + (1 + 2) + (1 + 1)
    assert value_size({"M": {"at": text("now"), "n": {"NULL": True}}}) == 3 + (1 + 2 + 3) + (1 + 1 + 1)


def test_a_write_is_rounded_up_to_whole_kilobytes() -> None:
    assert [blocks(size, 1024) for size in (0, 1, 1024, 1025, 2048, 2049)] == [1, 1, 1, 2, 2, 3]


def test_the_larger_of_the_item_before_and_after_counts() -> None:
    big, small = item(body="x" * 1500), item(body="x")
    assert base_units(None, small) == 1
    assert base_units(small, big) == base_units(big, small) == base_units(big, None) == 2


def test_an_index_entry_costs_one_when_made_one_when_removed_and_two_when_its_key_changes() -> None:
    without, early, late = item(), item(shard="D#1", due_at="1"), item(shard="D#1", due_at="2")
    assert [(one.move, one.units) for one in index_writes(LAYOUT, None, early)] == [("made", 1)]
    assert [(one.move, one.units) for one in index_writes(LAYOUT, early, late)] == [("moved", 2)]
    assert [(one.move, one.units) for one in index_writes(LAYOUT, late, without)] == [("removed", 1)]
    assert [(one.move, one.units) for one in index_writes(LAYOUT, late, None)] == [("removed", 1)]


def test_an_index_of_keys_costs_nothing_while_other_attributes_change() -> None:
    assert index_writes(LAYOUT, item(shard="1", due_at="1", a="1"), item(shard="1", due_at="1", a="2")) == []


def test_an_item_that_lacks_one_of_an_indexes_keys_is_not_in_it() -> None:
    assert index_writes(LAYOUT, None, item(due_at="1")) == []


def test_an_index_entry_over_a_kilobyte_costs_more() -> None:
    (entry,) = index_writes(LAYOUT, None, item(shard="x" * 600, due_at="x" * 600))
    assert entry.units == 2


def test_an_update_sets_and_removes() -> None:
    before = item(old="1", kept="1")
    after = wanted_item(
        "Update",
        {
            "Key": {},
            "UpdateExpression": "SET #a = :a, #kept = :b REMOVE #old, #absent",
            "ExpressionAttributeNames": {"#a": "a", "#kept": "kept", "#old": "old", "#absent": "absent"},
            "ExpressionAttributeValues": {":a": text("x"), ":b": text("y")},
        },
        before,
    )
    assert after == item(a="x", kept="y")


def test_an_update_that_the_meter_does_not_understand_is_refused() -> None:
    with pytest.raises(ValueError, match="does not know"):
        wanted_item("Update", {"Key": {}, "UpdateExpression": "SET #n = #n + :one"}, None)


class Canned:
    """A DynamoDB that answers from a list and remembers nothing."""

    def __init__(self, answers: dict[str, dict[str, object]]) -> None:
        self.answers = answers

        class Model:
            service_name = "dynamodb"

        class Meta:
            service_model = Model()

        self.meta = Meta()

    def _make_api_call(self, operation: str, _: object) -> dict[str, object]:
        return self.answers[operation]


def reads(operation: str, parameters: dict[str, object], answer: dict[str, object]) -> float:
    meter, client = Meter(LAYOUT), Canned({operation: answer})
    meter.watch(client)
    client._make_api_call(operation, parameters)
    return meter.reads


def test_a_read_is_rounded_up_to_four_kilobytes_and_halved_when_it_is_not_consistent() -> None:
    for size, units in ((100, 1), (4096, 1), (4097, 2), (9000, 3)):
        answer = {"Item": {"pk": text("x" * (size - 2))}}
        key = {"pk": text("x")}
        assert reads("GetItem", {"Key": key, "ConsistentRead": True}, answer) == units
        assert reads("GetItem", {"Key": key}, answer) == units / 2
    assert reads("GetItem", {"Key": key, "ConsistentRead": True}, {}) == 1


def test_a_batch_rounds_each_item_up_and_charges_for_keys_without_one() -> None:
    request = {"t": {"Keys": [1, 2, 3], "ConsistentRead": True}}
    found = [{"pk": text("x" * 10)}, {"pk": text("x" * 5000)}]
    assert reads("BatchGetItem", {"RequestItems": request}, {"Responses": {"t": found}}) == 1 + 2 + 1


def test_a_page_of_a_query_is_rounded_up_as_a_whole() -> None:
    page = {"Items": [{"pk": text("x" * 98)}] * 50}
    assert reads("Query", {"IndexName": "due"}, page) == 2 * 0.5
    assert reads("Query", {"IndexName": "due"}, {"Items": []}) == 0.5


def test_a_filtered_or_projected_read_is_refused() -> None:
    with pytest.raises(ValueError, match="filter"):
        reads("Query", {"FilterExpression": "x"}, {"Items": []})
    with pytest.raises(ValueError, match="projection"):
        reads("GetItem", {"Key": {}, "ProjectionExpression": "x"}, {})


def test_on_a_table_a_refused_condition_costs_a_write_and_a_transaction_twice_as_much(aws: object) -> None:
    import boto3
    from botocore.exceptions import ClientError

    from clawjob.aws.table import create_table, table_definition

    client = boto3.client("dynamodb")
    create_table(client, "t")
    meter = Meter(Layout.of(table_definition("t")))
    meter.watch(client)
    entry = item(due_shard="D#1", due_at="1", body="x" * 1000)
    client.put_item(TableName="t", Item=entry)
    assert meter.writes == 2 + 1  # 1,040 bytes, and the due index
    meter.clear()
    with pytest.raises(ClientError):
        client.put_item(TableName="t", Item=item(), ConditionExpression="attribute_not_exists(pk)")
    assert [(charge.writes, charge.refused) for charge in meter.charges] == [(2, True)]
    meter.clear()
    other = {**item(list_key="a", list_sort="b"), "pk": text("other")}
    client.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": "t", "Item": other}},
            {"Delete": {"TableName": "t", "Key": {"pk": text("a"), "sk": text("b")}}},
        ]
    )
    assert [charge.writes for charge in meter.charges] == [2 * 1 + 1, 2 * 2 + 1]
    meter.clear()
    with pytest.raises(ClientError):
        client.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": "t", "Item": other, "ConditionExpression": "attribute_not_exists(pk)"}},
                {"Put": {"TableName": "t", "Item": {**item(), "pk": text("third")}}},
            ]
        )
    assert [charge.writes for charge in meter.charges] == [2, 2]
    meter.clear()
    client.query(
        TableName="t",
        IndexName="due",
        KeyConditionExpression="due_shard = :s",
        ExpressionAttributeValues={":s": text("D#1")},
    )
    client.get_item(TableName="t", Key={"pk": text("other"), "sk": text("b")}, ConsistentRead=True)
    assert (meter.reads, meter.writes, len(meter.calls)) == (0.5 + 1, 0, 2)
