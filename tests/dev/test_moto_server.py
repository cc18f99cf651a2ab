"""The emulator: one lock, long polls outside of it (traps J of the field cases)."""

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from clawjob.dev.clock import moved_clock, travelling
from clawjob.dev.loopback import HOST
from clawjob.dev.moto_server import REGION, MotoMissingError, MotoServer


def make_queue(client, **attributes: str) -> str:
    return client.create_queue(QueueName="q", Attributes=attributes)["QueueUrl"]


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.005)


def test_of_32_threads_that_make_one_key_one_wins(moto_server: MotoServer, make_client) -> None:
    """M-12 holds for threads only behind one lock."""
    client = make_client("dynamodb", moto_server.url)
    client.create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )

    def put(number: int) -> bool:
        try:
            client.put_item(
                TableName="t",
                Item={"pk": {"S": "x"}, "n": {"N": str(number)}},
                ConditionExpression="attribute_not_exists(pk)",
            )
        except client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(put, range(32))) == 1


def test_an_idle_long_poll_blocks_nobody_and_a_sent_message_ends_it_at_once(
    moto_server: MotoServer, make_client
) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client)
    with ThreadPoolExecutor(4) as pool:
        polls = [
            pool.submit(lambda: client.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", []))
            for _ in range(3)
        ]
        until(lambda: len(moto_server._waiters) == 3)
        sent_at = time.monotonic()
        for number in range(3):
            client.send_message(QueueUrl=queue, MessageBody=str(number))
        received = sorted(message["Body"] for poll in polls for message in poll.result())
    assert received == ["0", "1", "2"]
    assert time.monotonic() - sent_at < 10


def test_a_delayed_message_ends_a_long_poll_when_its_delay_is_over(moto_server: MotoServer, make_client) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client)
    client.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=1)
    begun = time.monotonic()
    (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20, VisibilityTimeout=1)["Messages"]
    assert 0.9 < time.monotonic() - begun < 10
    (again,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    assert again["MessageId"] == message["MessageId"]
    assert 1.9 < time.monotonic() - begun < 15


def test_a_message_put_back_by_its_holder_ends_a_long_poll(moto_server: MotoServer, make_client) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client, VisibilityTimeout="600")
    client.send_message(QueueUrl=queue, MessageBody="x")
    (held,) = client.receive_message(QueueUrl=queue)["Messages"]
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(lambda: client.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", []))
        until(lambda: len(moto_server._waiters) == 1)
        client.change_message_visibility(QueueUrl=queue, ReceiptHandle=held["ReceiptHandle"], VisibilityTimeout=0)
        assert [message["Body"] for message in poll.result()] == ["x"]


def test_a_client_that_goes_away_is_given_no_message(moto_server: MotoServer, make_client, ask) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client)
    body = json.dumps({"QueueUrl": queue, "WaitTimeSeconds": 20}).encode()
    scope = f"AWS4-HMAC-SHA256 Credential=x/20240310/{REGION}/sqs/aws4_request, SignedHeaders=host, Signature=x"
    head = (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\nAuthorization: {scope}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((HOST, int(moto_server.url.rpartition(":")[2]))) as worker:
        worker.sendall(head.encode() + body)
        until(lambda: len(moto_server._waiters) == 1)
    until(lambda: not moto_server._waiters)
    client.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = client.receive_message(QueueUrl=queue, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def _ignoring(action: Callable[[], object]) -> None:
    try:
        action()
    except (ClientError, BotoCoreError):
        return


def test_the_wait_of_the_queue_itself_never_holds_the_lock(moto_server: MotoServer, make_client) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client, ReceiveMessageWaitTimeSeconds="20")
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(lambda: client.receive_message(QueueUrl=queue).get("Messages", []))
        until(lambda: len(moto_server._waiters) == 1)
        client.send_message(QueueUrl=queue, MessageBody="x")
        assert len(poll.result()) == 1


def test_a_wrong_wait_is_answered_by_moto_without_waiting(moto_server: MotoServer, make_client) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client)
    with pytest.raises(ClientError, match="WaitTimeSeconds"):
        client.receive_message(QueueUrl=queue, WaitTimeSeconds=21)


def test_closing_ends_waiting_polls(moto_server: MotoServer, make_client) -> None:
    client = make_client("sqs", moto_server.url)
    queue = make_queue(client)
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(lambda: _ignoring(lambda: client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)))
        until(lambda: len(moto_server._waiters) == 1)
        begun = time.monotonic()
        moto_server.close()
        poll.result(timeout=10)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("target", ["/moto-api/reset", "/moto-api/", "/", "/latest/meta-data/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_web_page_cannot_use_the_emulator(moto_server: MotoServer, ask, method: str, target: str) -> None:
    status, headers, body = ask(moto_server.url, method, target, [("Origin", "http://evil.example")])
    assert status == 403
    assert "access-control-allow-origin" not in headers
    assert json.loads(body)["__type"] == "AccessDeniedException"


def test_no_other_service_is_served(moto_server: MotoServer, ask) -> None:
    scope = "AWS4-HMAC-SHA256 Credential=x/20240310/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=x"
    status, _, body = ask(moto_server.url, "POST", "/", [("Authorization", scope), ("X-Amz-Target", "S3.Get")])
    assert status == 403
    assert "only signed calls of dynamodb, logs, sqs" in json.loads(body)["message"]


def test_delays_and_date_headers_follow_a_moved_clock(run_moto, make_client) -> None:
    """M-13: moto reads the clock that this process reads; the real seconds are few."""
    clock = moved_clock(datetime(2031, 3, 30, 0, 59, tzinfo=UTC), 300.0, time.time())
    with travelling(clock), run_moto(clock=clock) as server:
        client = make_client("sqs", server.url)
        queue = make_queue(client)
        begun = time.monotonic()
        sent = client.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=300)
        assert sent["ResponseMetadata"]["HTTPHeaders"]["date"].startswith("Sun, 30 Mar 2031 ")
        assert len(client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]) == 1
        assert 0.9 < time.monotonic() - begun < 10


def test_without_moto_the_message_names_the_line_that_installs_it() -> None:
    assert str(MotoMissingError("moto")).endswith('install it with:  python -m pip install "clawjob[dev]"')
