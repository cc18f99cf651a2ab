"""What AWS does between its services: calls the scheduler at its interval, and the results handler with what is queued.

The handlers get events of the shape that EventBridge and SQS give them; what they answer is honoured as Lambda does.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from clawjob.dev.lambda_context import LambdaContext
from clawjob.dev.moto_server import ACCOUNT, REGION

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Handler = Callable[[dict[str, Any], LambdaContext], Any]
Clock = Callable[[], datetime]
NewId = Callable[[], str]
OnError = Callable[[str, Exception], None]
"""Told what failed and how; the next event is given all the same."""

BATCH: Final = 10
LONG_POLL_SECONDS: Final = 20
_PAUSE_AFTER_ERROR: Final = 1.0


@dataclass(slots=True)
class Ticks:
    """Calls the scheduler's handler now and at an interval of the real clock."""

    handler: Handler
    interval: timedelta
    clock: Clock
    new_id: NewId
    on_error: OnError
    after: Callable[[], None] = lambda: None
    """Called after each tick."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; the first tick comes at once."""
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let a tick that runs come to its end, then stop."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                identifier = self.new_id()
                self.handler(tick_event(self.clock(), identifier), LambdaContext("clawjob-dev-scheduler", identifier))
            except Exception as error:
                self.on_error("the scheduler failed", error)
            self.after()
            if self._stopping.wait(self.interval.total_seconds()):
                return


@dataclass(slots=True)
class ResultsFeed:
    """Gives what comes to the results queue to the results handler, in batches; deletes what it took."""

    handler: Handler
    sqs: "SQSClient"
    queue_url: str
    new_id: NewId
    on_error: OnError
    retry_visibility: timedelta
    """How long a message that the handler did not take is hidden before it is tried again."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to poll."""
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    def finish(self, end_polls: Callable[[], None]) -> None:
        """Stop polling, then pass on what is still queued.

        Args:
            end_polls: makes the queue's server answer waiting polls at once.
        """
        self._stopping.set()
        end_polls()
        if self._thread is not None:
            self._thread.join()
        try:
            while self.pass_on(0):
                continue
        except Exception as error:
            self.on_error("the results queue could not be emptied", error)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.pass_on(LONG_POLL_SECONDS)
            except Exception as error:
                if self._stopping.is_set():
                    return
                self.on_error("the results queue could not be read", error)
                self._stopping.wait(_PAUSE_AFTER_ERROR)

    def pass_on(self, wait_seconds: int) -> int:
        """Receive one batch, call the handler, delete what it took; returns how many came."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=wait_seconds, AttributeNames=["All"]
        )
        messages: list[Any] = list(answer.get("Messages", []))
        if messages:
            failed = self._failed(messages)
            self._settle([message for message in messages if message["MessageId"] not in failed], failed, messages)
        return len(messages)

    def _failed(self, messages: list[Any]) -> frozenset[str]:
        """Call the handler; returns the ids of the messages that are to come again."""
        identifier = self.new_id()
        sent = frozenset(str(message["MessageId"]) for message in messages)
        try:
            answer = self.handler(sqs_event(messages), LambdaContext("clawjob-dev-results", identifier))
        except Exception as error:
            self.on_error("the results function failed", error)
            return sent
        failed = failures_of(answer)
        if failed is None or not failed <= sent:
            # Lambda takes such an answer as the failure of the whole batch.
            self.on_error(
                "the results function", ValueError(f"its answer is no list of batch item failures: {answer!r}")
            )
            return sent
        return failed

    def _settle(self, taken: list[Any], failed: frozenset[str], messages: list[Any]) -> None:
        if taken:
            self.sqs.delete_message_batch(
                QueueUrl=self.queue_url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                    for number, message in enumerate(taken)
                ],
            )
        for message in messages:
            if message["MessageId"] in failed:
                self.sqs.change_message_visibility(
                    QueueUrl=self.queue_url,
                    ReceiptHandle=message["ReceiptHandle"],
                    VisibilityTimeout=max(1, round(self.retry_visibility.total_seconds())),
                )


def tick_event(now: datetime, identifier: str) -> dict[str, Any]:
    """Write the event of an EventBridge schedule."""
    return {
        "version": "0",
        "id": identifier,
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:events:{REGION}:{ACCOUNT}:rule/clawjob-dev-tick"],
        "detail": {},
    }


def sqs_event(messages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Write received messages as the event that Lambda makes of them."""
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": dict(message.get("Attributes", {})),
                "messageAttributes": {},
                "md5OfBody": message["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:clawjob-dev-results",
                "awsRegion": REGION,
            }
            for message in messages
        ]
    }


def failures_of(answer: object) -> frozenset[str] | None:
    """Read `batchItemFailures`; nothing at all means that all went well, None that the answer has another form."""
    if answer is None or answer == {}:
        return frozenset()
    if not isinstance(answer, Mapping) or not isinstance(failures := answer.get("batchItemFailures"), list | None):
        return None
    identifiers = [
        failure.get("itemIdentifier") if isinstance(failure, Mapping) else None for failure in failures or ()
    ]
    if any(not isinstance(identifier, str) or not identifier for identifier in identifiers):
        return None
    return frozenset(str(identifier) for identifier in identifiers)
