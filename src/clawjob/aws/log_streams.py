"""The output of runs in CloudWatch Logs: one log group, one stream for each attempt (`run id/attempt`).

Writing makes the stream at its first events and tells apart what may be tried again (raised) from what the service
refuses for good (counted). Readers get events oldest first, page by page.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import RejectedLogEventsInfoTypeDef

_KNOWN_STREAMS: Final = 1000
"""Streams that are remembered as made."""
_REFUSED_FOR_GOOD: Final = frozenset({"InvalidParameterException", "DataAlreadyAcceptedException"})


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some events of one stream, oldest first."""

    events: list[tuple[int, str]]
    """Milliseconds since the epoch, and the text of one line."""
    next_token: str
    """Continues after these events, also when they were the last so far."""


def stream_name(run_id: str, attempt: int) -> str:
    """Name the stream of an attempt."""
    return f"{run_id}/{attempt}"


class LogStreams:
    """The streams of one log group. Writing is for one thread at a time."""

    def __init__(self, client: "CloudWatchLogsClient", group: str) -> None:
        self._client = client
        self._group = group
        self._known: OrderedDict[str, None] = OrderedDict()

    def put_events(self, stream: str, events: list[tuple[int, str]]) -> int:
        """Write events that keep the limits of one request; returns how many the service refused for good.

        Raises:
            ClientError, BotoCoreError: it may be tried again.
        """
        if stream not in self._known:
            self._make(stream)
        try:
            return self._put(stream, events)
        except ClientError as error:
            code = _code(error)
            if code == "ResourceNotFoundException":
                # Somebody removed the stream, for example with its group.
                self._known.pop(stream, None)
                self._make(stream)
                return self._put(stream, events)
            if code in _REFUSED_FOR_GOOD:
                return len(events)
            raise

    def read(self, stream: str, token: str = "", limit: int = 1000) -> LogPage:
        """Read a page of a stream; an unknown stream is an empty one.

        Args:
            stream: which.
            token: the last page's `next_token`; empty for the beginning.
            limit: events at most.
        """
        try:
            if token:
                answer = self._client.get_log_events(
                    logGroupName=self._group, logStreamName=stream, startFromHead=True, limit=limit, nextToken=token
                )
            else:
                answer = self._client.get_log_events(
                    logGroupName=self._group, logStreamName=stream, startFromHead=True, limit=limit
                )
        except ClientError as error:
            if _code(error) == "ResourceNotFoundException":
                return LogPage([], token)
            raise
        events = [(event["timestamp"], event["message"]) for event in answer["events"]]
        return LogPage(events, answer["nextForwardToken"])

    def _put(self, stream: str, events: list[tuple[int, str]]) -> int:
        answer = self._client.put_log_events(
            logGroupName=self._group,
            logStreamName=stream,
            logEvents=[{"timestamp": at_ms, "message": text} for at_ms, text in events],
        )
        refused = answer.get("rejectedLogEventsInfo")
        return _count(refused, len(events)) if refused else 0

    def _make(self, stream: str) -> None:
        try:
            self._client.create_log_stream(logGroupName=self._group, logStreamName=stream)
        except ClientError as error:
            if _code(error) != "ResourceAlreadyExistsException":
                raise
        self._known[stream] = None
        while len(self._known) > _KNOWN_STREAMS:
            self._known.popitem(last=False)


def _count(refused: "RejectedLogEventsInfoTypeDef", sent: int) -> int:
    """Count what was refused: too old or expired from the front, too new to the end."""
    front = max(refused.get("tooOldLogEventEndIndex", 0), refused.get("expiredLogEventEndIndex", 0))
    back = sent - refused.get("tooNewLogEventStartIndex", sent)
    return max(1, min(sent, front + back))


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")
