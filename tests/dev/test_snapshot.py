"""State kept in a folder."""

import json
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawjob.dev.moto_server import MotoServer
from clawjob.dev.snapshot import Snapshot, UnreadableSnapshotError

NOW = datetime(2024, 3, 10, 7, tzinfo=UTC)


def prepare(server: MotoServer, make_client) -> tuple:
    dynamodb, sqs, logs = (make_client(service, server.url) for service in ("dynamodb", "sqs", "logs"))
    dynamodb.create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
    )
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    logs.create_log_group(logGroupName="g")
    return dynamodb, sqs, logs, queue


def test_items_messages_and_logs_come_back_as_they_were(run_moto, make_client, tmp_path: Path) -> None:
    item = {
        "pk": {"S": "JOB#ä"},
        "sk": {"S": "STATE"},
        "n": {"N": "1.5"},
        "map": {"M": {"list": {"L": [{"BOOL": True}, {"NULL": True}]}}},
    }
    with run_moto() as server:
        dynamodb, sqs, logs, queue = prepare(server, make_client)
        dynamodb.put_item(TableName="t", Item=item)
        sqs.send_message(QueueUrl=queue, MessageBody="held")
        (held,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]
        sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=600)
        sqs.send_message(QueueUrl=queue, MessageBody="free")
        logs.create_log_stream(logGroupName="g", logStreamName="s")
        at = int(time.time() * 1000)
        logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=[{"timestamp": at, "message": "line"}])
        Snapshot.take(server, NOW).save(tmp_path)

    with run_moto() as server:
        dynamodb, sqs, logs, queue = prepare(server, make_client)
        kept = Snapshot.load(tmp_path)
        assert kept is not None
        assert kept.taken_at == NOW
        kept.put_back(server)
        assert dynamodb.scan(TableName="t")["Items"] == [item]
        (free,) = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
        assert free["Body"] == "free"
        numbers = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert numbers["ApproximateNumberOfMessagesDelayed"] == "1"
        queued = [message for message in Snapshot.take(server, NOW).queues["q"] if message["body"] == "held"]
        assert queued[0]["id"] == held["MessageId"]
        assert queued[0]["receives"] == 1
        events = logs.get_log_events(logGroupName="g", logStreamName="s")["events"]
        assert [(event["timestamp"], event["message"]) for event in events] == [(at, "line")]


def test_the_file_is_private_and_replaced_in_one_step(tmp_path: Path) -> None:
    for name in ("old", "new"):
        Snapshot(NOW, {name: []}, {}, {}).save(tmp_path)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = Snapshot.load(tmp_path)
    assert kept is not None
    assert list(kept.tables) == ["new"]


def test_without_a_file_there_is_nothing_to_put_back(tmp_path: Path) -> None:
    assert Snapshot.load(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"v": 2}', '{"v": 1}', '{"v": 1, "taken_at": "x"}'])
def test_a_damaged_or_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "emulator.json").write_text(content)
    with pytest.raises(UnreadableSnapshotError, match=r"emulator\.json: .*move it away"):
        Snapshot.load(tmp_path)
    assert (tmp_path / "emulator.json").read_text() == content


def test_reading_is_no_change_and_writing_is(moto_server: MotoServer, make_client) -> None:
    dynamodb, sqs, _, queue = prepare(moto_server, make_client)
    before = moto_server.changes
    dynamodb.scan(TableName="t")
    sqs.receive_message(QueueUrl=queue)
    assert moto_server.changes == before
    sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({}))
    assert moto_server.changes == before + 1
