"""What AWS does between its services, done by the one-machine mode."""

import itertools
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clawjob.dev.functions import ResultsFeed, Ticks, failures_of, tick_event
from clawjob.dev.moto_server import MotoServer

NOW = datetime(2024, 3, 10, 7, tzinfo=UTC)


class Recorder:
    def __init__(self, answer: Any = None, calls: int = 1) -> None:
        self.answer = answer
        self.events: list[dict[str, Any]] = []
        self.enough = threading.Event()
        self.calls = calls

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        assert context.get_remaining_time_in_millis() > 0
        self.events.append(event)
        if len(self.events) >= self.calls:
            self.enough.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(event) if callable(self.answer) else self.answer


def identifiers():
    counter = itertools.count(1)
    return lambda: f"id-{next(counter)}"


def test_ticks_come_at_once_and_go_on_after_an_error() -> None:
    handler = Recorder(RuntimeError("no table"), calls=3)
    told: list[tuple[str, Exception]] = []
    after: list[int] = []
    ticks = Ticks(
        handler,
        timedelta(milliseconds=5),
        lambda: NOW,
        identifiers(),
        lambda what, error: told.append((what, error)),
        lambda: after.append(1),
    )
    ticks.start()
    assert handler.enough.wait(20)
    ticks.stop()
    assert told[0][0] == "the scheduler failed"
    assert len(after) == len(handler.events)
    assert handler.events[0] == tick_event(NOW, "id-1")
    assert handler.events[0]["time"] == "2024-03-10T07:00:00Z"
    assert handler.events[0]["detail-type"] == "Scheduled Event"


@pytest.fixture
def feed_of(moto_server: MotoServer, make_client):
    client = make_client("sqs", moto_server.url)
    url = client.create_queue(QueueName="results")["QueueUrl"]
    told: list[str] = []

    def make(handler: Recorder) -> tuple[ResultsFeed, Any, str, list[str]]:
        def tell(what: str, error: Exception) -> None:
            told.append(f"{what}: {error}")

        feed = ResultsFeed(handler, client, url, identifiers(), tell, timedelta(seconds=600))
        return feed, client, url, told

    return make


def left(client: Any, url: str) -> tuple[str, str]:
    numbers = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return numbers["ApproximateNumberOfMessages"], numbers["ApproximateNumberOfMessagesNotVisible"]


def send(client: Any, url: str, *bodies: str) -> None:
    for body in bodies:
        client.send_message(QueueUrl=url, MessageBody=body)


def test_a_batch_becomes_an_sqs_event_and_what_was_taken_is_deleted(feed_of) -> None:
    handler = Recorder({"batchItemFailures": []})
    feed, client, url, told = feed_of(handler)
    send(client, url, *map(str, range(12)))
    assert [feed.pass_on(0), feed.pass_on(0), feed.pass_on(0)] == [10, 2, 0]
    assert left(client, url) == ("0", "0")
    record = handler.events[0]["Records"][0]
    assert record["body"] == "0"
    assert record["eventSource"] == "aws:sqs"
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert record["messageId"]
    assert record["receiptHandle"]
    assert told == []


def test_only_what_the_handler_names_comes_again(feed_of) -> None:
    """Q-10: one bad message in a batch costs the others nothing."""
    handler = Recorder(
        lambda event: {
            "batchItemFailures": [
                {"itemIdentifier": record["messageId"]} for record in event["Records"] if record["body"] == "bad"
            ]
        }
    )
    feed, client, url, told = feed_of(handler)
    send(client, url, "good", "bad", "good")
    assert feed.pass_on(0) == 3
    assert left(client, url) == ("0", "1")
    assert told == []


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("broken"),
        {"batchItemFailures": [{"itemIdentifier": "of no message"}]},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": "x"},
        "no mapping",
    ],
)
def test_an_error_or_a_wrong_answer_brings_the_whole_batch_again(feed_of, answer) -> None:
    feed, client, url, told = feed_of(Recorder(answer))
    send(client, url, "a", "b")
    assert feed.pass_on(0) == 2
    assert left(client, url) == ("0", "2")
    assert len(told) == 1


@pytest.mark.parametrize("answer", [None, {}, {"batchItemFailures": None}, {"batchItemFailures": []}])
def test_an_empty_answer_means_that_all_went_well(answer) -> None:
    assert failures_of(answer) == frozenset()


def test_at_the_end_polls_end_at_once_and_what_is_queued_is_passed_on(feed_of, moto_server: MotoServer) -> None:
    handler = Recorder({})
    feed, client, url, told = feed_of(handler)
    feed.start()
    send(client, url, "x")
    assert handler.enough.wait(20)

    def end_polls() -> None:
        moto_server.end_polls()
        send(client, url, "last")

    feed.finish(end_polls)
    assert [record["body"] for event in handler.events for record in event["Records"]] == ["x", "last"]
    assert left(client, url) == ("0", "0")
    assert told == []


def test_the_feed_ends_although_its_queue_is_gone(feed_of, moto_server: MotoServer) -> None:
    handler = Recorder({})
    feed, _, _, told = feed_of(handler)
    feed.start()
    moto_server.close()
    feed.finish(lambda: None)
    assert told[-1].startswith("the results queue could not be emptied: ")
