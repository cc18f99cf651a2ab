"""The run queues and the results queue: batches that say which entries were accepted, receives, and visibility."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from clawjob.aws.dynamo import call
from clawjob.domain.errors import UnavailableError
from clawjob.domain.messages import RunMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

BATCH: Final = 10
LONGEST_DELAY: Final = 900
_ORDINAL: Final = "e"


@dataclass(frozen=True, slots=True)
class ToSend:
    """A message for a run queue."""

    message: RunMessage
    delay_seconds: int
    """0 to 900."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message in a worker's hands until its visibility ends."""

    message_id: str
    receipt: str
    body: str


@dataclass(frozen=True)
class Queues:
    """All queues that the control plane and the workers speak to."""

    client: "SQSClient"
    run_queues: Mapping[str, str]
    """URL by pool."""
    results_queue: str
    polls: "SQSClient | None" = None
    """A client patient enough for long polls; None where nobody polls long."""

    def send(self, pool: str, messages: Sequence[ToSend]) -> list[bool]:
        """Put messages on a pool's queue, by batches of 10.

        Returns:
            For each message whether the queue accepted it; a batch without an answer counts as not accepted.
        """
        accepted: list[bool] = []
        url = self.run_queues.get(pool)
        if url is None:
            return [False] * len(messages)
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            accepted.extend(self._send_batch(url, batch))
        return accepted

    def send_run(self, pool: str, message: RunMessage, delay_seconds: int = 0) -> None:
        """Put one message on a pool's queue.

        Raises:
            UnavailableError: the queue did not accept it.
        """
        if not all(self.send(pool, [ToSend(message, min(delay_seconds, LONGEST_DELAY))])):
            raise UnavailableError("SendMessageBatch", f"the queue of pool {pool!r} refused {message.run_id}")

    def _send_batch(self, url: str, batch: Sequence[ToSend]) -> list[bool]:
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": f"{_ORDINAL}{position}",
                "MessageBody": one.message.to_body(),
                "DelaySeconds": one.delay_seconds,
            }
            for position, one in enumerate(batch)
        ]
        try:
            answer = _sqs("SendMessageBatch", lambda: self.client.send_message_batch(QueueUrl=url, Entries=entries))
        except UnavailableError:
            return [False] * len(batch)
        taken = {entry["Id"] for entry in answer.get("Successful", [])}
        return [entry["Id"] in taken for entry in entries]

    def waiting(self, pool: str) -> int:
        """About how many messages can be received now."""
        url = self.run_queues.get(pool)
        if url is None:
            return 0
        answer = _sqs(
            "GetQueueAttributes",
            lambda: self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]),
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def receive(self, pool: str, most: int, wait: timedelta) -> list[Received]:
        """Take up to `most` messages (10 at most), waiting for the first."""
        answer = _sqs(
            "ReceiveMessage",
            lambda: (self.polls or self.client).receive_message(
                QueueUrl=self.run_queues[pool],
                MaxNumberOfMessages=min(most, BATCH),
                WaitTimeSeconds=int(wait.total_seconds()),
            ),
        )
        return [
            Received(message["MessageId"], message["ReceiptHandle"], message["Body"])
            for message in answer.get("Messages", [])
        ]

    def delete(self, pool: str, message: Received) -> None:
        """Acknowledge a message; one that the queue has taken back already is left to its next receiver."""
        url = self.run_queues[pool]
        with suppress(_NotInflightError):
            _sqs("DeleteMessage", lambda: self.client.delete_message(QueueUrl=url, ReceiptHandle=message.receipt))

    def set_visibility(self, pool: str, message: Received, seconds: int) -> bool:
        """Hide a message for so long from now; 0 gives it back at once.

        Returns:
            False when the queue has taken it back already.
        """
        url = self.run_queues[pool]
        try:
            _sqs(
                "ChangeMessageVisibility",
                lambda: self.client.change_message_visibility(
                    QueueUrl=url, ReceiptHandle=message.receipt, VisibilityTimeout=seconds
                ),
            )
        except _NotInflightError:
            return False
        return True

    def report(self, body: str) -> None:
        """Put an attempt's result on the results queue."""
        _sqs("SendMessage", lambda: self.client.send_message(QueueUrl=self.results_queue, MessageBody=body))


class _NotInflightError(Exception):
    """The message is not in our hands any more."""


def _sqs(name: str, function: Any) -> Any:
    try:
        return call(name, function)
    except ClientError as error:
        raise UnavailableError(name, str(error)) from error
    except UnavailableError as error:
        if error.why.endswith(("MessageNotInflight", "ReceiptHandleIsInvalid")):
            raise _NotInflightError from error
        raise
