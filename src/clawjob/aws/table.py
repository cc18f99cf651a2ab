"""The one table and its queues: key layout, indexes, TTL. Infrastructure, dev mode and tests all make them from here.

| item | pk | sk |
|---|---|---|
| a job's name | `NAME#<name>` | `NAME` |
| a job's state row | `JOB#<uid>` | `STATE` |
| a job's definition | `JOB#<uid>` | `V#<version>` |
| a run, or the record of a gap | `RUN#<run id>` | `RUN` |
| an attempt that ended without ending its run | `RUN#<run id>` | `ATTEMPT#<number>` |
| what a run was given, put out, or last wrote | `RUN#<run id>` | `INPUT`, `OUTPUT`, `LOG#<number>` |
| the last tick | `TICK` | `TICK` |
| an access token | `TOKEN#<id>` | `TOKEN` |

Index `due` is sparse and holds what must happen later. Index `list` has keys that never change, so that it costs one
write when an item is made and none after.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from clawjob.domain.priority import QueueClass

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

PK: Final = "pk"
SK: Final = "sk"
DUE_INDEX: Final = "due"
DUE_SHARD: Final = "due_shard"
DUE_AT: Final = "due_at"
LIST_INDEX: Final = "list"
LIST_KEY: Final = "list_key"
LIST_SORT: Final = "list_sort"
TTL: Final = "expires_at"

NAME: Final = "NAME"
STATE: Final = "STATE"
RUN: Final = "RUN"
TICK: Final = "TICK"
TOKEN: Final = "TOKEN"  # noqa: S105 - a key's name
ALL_JOBS: Final = "JOBS"
ALL_TOKENS: Final = "TOKENS"

DEAD_LETTER_RECEIVES: Final = 10
"""Receives before a message goes to the dead letters: for messages that nobody can handle, never for long runs."""


MAX_VERSION: Final = 99_999_999
"""Of a job, so that its key sorts as a number."""


def name_key(name: str) -> tuple[str, str]:
    """Key of the item that holds a job's name."""
    return f"NAME#{name}", NAME


def state_key(uid: str) -> tuple[str, str]:
    """Key of a job's state row."""
    return f"JOB#{uid}", STATE


def definition_key(uid: str, version: int) -> tuple[str, str]:
    """Key of one version of a job's definition; versions sort as numbers."""
    return f"JOB#{uid}", f"V#{version:08d}"


def run_key(run_id: str) -> tuple[str, str]:
    """Key of a run or a gap's record."""
    return f"RUN#{run_id}", RUN


def part_key(run_id: str, part: str, number: int | None = None) -> tuple[str, str]:
    """Key of something that belongs to a run: `ATTEMPT` and `LOG` with the attempt's number, `INPUT`, `OUTPUT`."""
    return f"RUN#{run_id}", part if number is None else f"{part}#{number:04d}"


def token_key(token_id: str) -> tuple[str, str]:
    """Key of an access token."""
    return f"TOKEN#{token_id}", TOKEN


def runs_of(uid: str) -> str:
    """Partition of the list index that holds a job's runs."""
    return f"RUNS#{uid}"


def table_definition(name: str) -> dict[str, Any]:
    """Arguments of `CreateTable`."""

    def index(label: str, hash_key: str, range_key: str) -> dict[str, Any]:
        return {
            "IndexName": label,
            "KeySchema": _keys(hash_key, range_key),
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }

    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _keys(PK, SK),
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": "S"}
            for attribute in (PK, SK, DUE_SHARD, DUE_AT, LIST_KEY, LIST_SORT)
        ],
        "GlobalSecondaryIndexes": [index(DUE_INDEX, DUE_SHARD, DUE_AT), index(LIST_INDEX, LIST_KEY, LIST_SORT)],
    }


def _keys(hash_key: str, range_key: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": hash_key, "KeyType": "HASH"},
        {"AttributeName": range_key, "KeyType": "RANGE"},
    ]


def create_table(client: "DynamoDBClient", name: str) -> None:
    """Make the table, its indexes and its TTL, and wait until it is there."""
    client.create_table(**table_definition(name))
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL})


@dataclass(frozen=True, slots=True)
class QueueUrls:
    """Where the queues are."""

    run: Mapping[str, Mapping[QueueClass, str]]
    """By pool and class."""
    results: str
    dead: Mapping[str, str]
    """The dead letters of each queue, by its name."""


def create_queues(client: "SQSClient", prefix: str, pools: Iterable[str], lease: timedelta) -> QueueUrls:
    """Make two run queues for each pool and the results queue, each with its dead letters.

    Args:
        client: makes them.
        prefix: begins every queue's name.
        pools: their names.
        lease: visibility timeout of the run queues.
    """
    dead_letters: dict[str, str] = {}

    def make(name: str, visibility: timedelta) -> str:
        dead = client.create_queue(QueueName=f"{prefix}-{name}-dead", Attributes={"MessageRetentionPeriod": "1209600"})
        arn = client.get_queue_attributes(QueueUrl=dead["QueueUrl"], AttributeNames=["QueueArn"])
        live = client.create_queue(
            QueueName=f"{prefix}-{name}",
            Attributes={
                "VisibilityTimeout": str(max(1, round(visibility.total_seconds()))),
                "MessageRetentionPeriod": "1209600",
                "RedrivePolicy": (
                    f'{{"deadLetterTargetArn":"{arn["Attributes"]["QueueArn"]}",'
                    f'"maxReceiveCount":"{DEAD_LETTER_RECEIVES}"}}'
                ),
            },
        )
        dead_letters[name] = dead["QueueUrl"]
        return live["QueueUrl"]

    run = {pool: {queue: make(f"runs-{pool}-{queue}", lease) for queue in QueueClass} for pool in pools}
    results = make("results", timedelta(seconds=max(120.0, lease.total_seconds())))
    return QueueUrls(run, results, dead_letters)
