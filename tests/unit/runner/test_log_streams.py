"""Runs' output in CloudWatch Logs, on moto."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from clawjob.aws.clients import client_config
from clawjob.aws.log_streams import LogStreams, stream_name
from clawjob.runner.log_shipper import LogShipper, ShipperLimits

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

GROUP = "/clawjob/runs"
NOW = int(datetime.now(UTC).timestamp() * 1000)


@pytest.fixture
def client(aws: Any) -> "CloudWatchLogsClient":
    client = boto3.client("logs", config=client_config())
    client.create_log_group(logGroupName=GROUP)
    return client


@pytest.fixture
def streams(client: "CloudWatchLogsClient") -> LogStreams:
    return LogStreams(client, GROUP)


@pytest.fixture
def stubbed() -> Iterator[tuple[LogStreams, Stubber]]:
    client = boto3.client("logs")
    with Stubber(client) as stubber:
        yield LogStreams(client, GROUP), stubber
        stubber.assert_no_pending_responses()


def test_a_stream_is_made_at_its_first_events_and_read_back(streams: LogStreams) -> None:
    stream = stream_name("job-20240310T070000Z", 2)
    assert stream == "job-20240310T070000Z/2"
    assert streams.put_events(stream, [(NOW, "one"), (NOW, "größe 😀")]) == 0
    assert streams.put_events(stream, [(NOW + 1, " ")]) == 0
    assert streams.read(stream).events == [(NOW, "one"), (NOW, "größe 😀"), (NOW + 1, " ")]


def test_pages_follow_each_other_and_the_last_token_waits_for_more(streams: LogStreams) -> None:
    streams.put_events("r/1", [(NOW + number, str(number)) for number in range(5)])
    texts: list[str] = []
    token = ""
    while page := streams.read("r/1", token, limit=2):
        if not page.events:
            break
        texts += [text for _, text in page.events]
        token = page.next_token
    assert texts == ["0", "1", "2", "3", "4"]
    streams.put_events("r/1", [(NOW + 9, "later")])
    assert [text for _, text in streams.read("r/1", token).events] == ["later"]


def test_an_unknown_stream_is_an_empty_one(streams: LogStreams) -> None:
    assert streams.read("r/9").events == []


def test_a_stream_that_is_there_already_is_used(client: "CloudWatchLogsClient") -> None:
    LogStreams(client, GROUP).put_events("r/1", [(NOW, "one")])
    LogStreams(client, GROUP).put_events("r/1", [(NOW, "two")])
    assert [text for _, text in LogStreams(client, GROUP).read("r/1").events] == ["one", "two"]


def test_a_stream_removed_meanwhile_is_made_again(client: "CloudWatchLogsClient", streams: LogStreams) -> None:
    streams.put_events("r/1", [(NOW, "one")])
    client.delete_log_stream(logGroupName=GROUP, logStreamName="r/1")
    assert streams.put_events("r/1", [(NOW, "two")]) == 0
    assert [text for _, text in streams.read("r/1").events] == ["two"]


def test_a_missing_group_may_be_tried_again(client: "CloudWatchLogsClient") -> None:
    with pytest.raises(ClientError):
        LogStreams(client, "/no/such").put_events("r/1", [(NOW, "one")])


def test_events_refused_as_too_old_are_counted(streams: LogStreams) -> None:
    old = int((datetime.now(UTC) - timedelta(days=20)).timestamp() * 1000)
    assert streams.put_events("r/1", [(old, "old"), (NOW, "new")]) == 1
    assert [text for _, text in streams.read("r/1").events] == ["new"]


def test_what_is_refused_is_counted_from_both_ends(stubbed: tuple[LogStreams, Stubber]) -> None:
    streams, stubber = stubbed
    stubber.add_response("create_log_stream", {})
    answer = {"rejectedLogEventsInfo": {"tooOldLogEventEndIndex": 2, "tooNewLogEventStartIndex": 9}}
    stubber.add_response("put_log_events", answer)
    assert streams.put_events("r/1", [(NOW, "x")] * 10) == 3


def test_a_request_that_the_service_never_takes_is_refused_and_not_tried_again(
    stubbed: tuple[LogStreams, Stubber],
) -> None:
    streams, stubber = stubbed
    stubber.add_response("create_log_stream", {})
    stubber.add_client_error("put_log_events", "InvalidParameterException", http_status_code=400)
    assert streams.put_events("r/1", [(NOW, "x")] * 4) == 4


def test_trouble_of_the_service_is_raised(stubbed: tuple[LogStreams, Stubber]) -> None:
    streams, stubber = stubbed
    stubber.add_response("create_log_stream", {})
    stubber.add_client_error("put_log_events", "ServiceUnavailableException", http_status_code=503)
    with pytest.raises(ClientError):
        streams.put_events("r/1", [(NOW, "x")])


def test_the_cases_of_the_limits_arrive_through_the_shipper(streams: LogStreams) -> None:
    """W-14: 300 KB line, 1.2 MB line, 20,000 lines, empty lines, 4-byte characters."""
    shipper = LogShipper(streams, ShipperLimits(run_bytes=8 * 2**20))
    shipper.start()
    log = shipper.open("r/1")
    log.offer(b"x" * 300_000 + b"\n", NOW)
    log.offer("😀".encode() * 300_000 + b"\n", NOW)
    log.offer(b"short\n" * 20_000, NOW)
    log.offer(b"\n", NOW - 1000)
    log.finish()
    assert shipper.close(60.0) == 0
    texts: list[str] = []
    token = ""
    while (page := streams.read("r/1", token, limit=10_000)).events:
        texts += [text for _, text in page.events]
        token = page.next_token
    assert texts.count("short") == 20_000
    assert "".join(text for text in texts if text.startswith("x")) == "x" * 300_000
    assert "".join(text for text in texts if text.startswith("😀")) == "😀" * 300_000
    assert texts[-1] == " "
