"""The run queues and the results queue: batches that say which entries were accepted, receives, and visibility."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from clawjob.aws.dynamo import call
from clawjob.domain.errors import UnavailableError
from clawjob.domain.messages import RunMessage
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import Run

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

log = logging.getLogger(__name__)

BATCH: Final = 10
LONGEST_DELAY: Final = 900
_ORDINAL: Final = "e"


@dataclass(frozen=True, slots=True)
class ToSend:
    """A run for its queue."""

    run: Run
    delay_seconds: int
    """0 to 900."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message in a worker's hands until its visibility ends."""

    queue_url: str
    message_id: str
    receipt: str
    body: str


@dataclass(frozen=True)
class Queues:
    """All queues that the control plane and the workers speak to."""

    client: "SQSClient"
    run_queues: Mapping[str, Mapping[QueueClass, str]]
    """URLs by pool and class."""
    results_queue: str

    def send(self, batch: Sequence[ToSend]) -> list[bool]:
        """Put up to 10 runs of one pool and class on their queue.

        Returns:
            For each run whether the queue accepted it; where there is no queue or no answer, none was.
        """
        if not batch:
            return []
        url = self._url(batch[0].run.pool, batch[0].run.queue)
        return [False] * len(batch) if url is None else self._send_batch(url, batch)

    def send_run(self, run: Run, delay_seconds: int = 0) -> None:
        """Put one run on its queue.

        Raises:
            UnavailableError: the queue did not accept it.
        """
        if not all(self.send([ToSend(run, min(delay_seconds, LONGEST_DELAY))])):
            raise UnavailableError("SendMessageBatch", f"the queue of pool {run.pool!r} refused {run.run_id}")

    def _url(self, pool: str, queue: QueueClass) -> str | None:
        return self.run_queues.get(pool, {}).get(queue)

    def _send_batch(self, url: str, batch: Sequence[ToSend]) -> list[bool]:
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": f"{_ORDINAL}{position}",
                "MessageBody": RunMessage(one.run.run_id, one.run.retry).to_body(),
                "DelaySeconds": one.delay_seconds,
                # A fair queue: the backlog of one job does not keep others waiting.
                "MessageGroupId": one.run.uid,
            }
            for position, one in enumerate(batch)
        ]
        try:
            answer = call_sqs("SendMessageBatch", lambda: self.client.send_message_batch(QueueUrl=url, Entries=entries))
        except UnavailableError as error:
            # The callers go on without: their runs are sent later. A right that is missing would never be seen.
            log.warning("queue takes nothing", extra={"queue": url, "runs": len(batch), "why": error.why})
            return [False] * len(batch)
        if refused := answer.get("Failed"):
            codes = ", ".join(sorted({entry["Code"] for entry in refused}))
            log.warning("queue refuses runs", extra={"queue": url, "runs": len(refused), "why": codes})
        taken = {entry["Id"] for entry in answer.get("Successful", [])}
        return [entry["Id"] in taken for entry in entries]

    def waiting(self, pool: str, queue: QueueClass) -> int:
        """About how many messages can be received now."""
        url = self._url(pool, queue)
        if url is None:
            return 0
        answer = call_sqs(
            "GetQueueAttributes",
            lambda: self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]),
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def receive(self, pool: str, queue: QueueClass, most: int, wait: timedelta) -> list[Received]:
        """Take up to `most` messages (10 at most), waiting whole seconds for the first."""
        url = self.run_queues[pool][queue]
        answer = call_sqs(
            "ReceiveMessage",
            lambda: self.client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(most, BATCH),
                WaitTimeSeconds=int(wait.total_seconds()),
            ),
        )
        return [
            Received(url, message["MessageId"], message["ReceiptHandle"], message["Body"])
            for message in answer.get("Messages", [])
        ]

    def delete(self, message: Received) -> None:
        """Acknowledge a message; one that the queue has taken back already is left to its next receiver."""
        with suppress(_NotInflightError):
            call_sqs(
                "DeleteMessage",
                lambda: self.client.delete_message(QueueUrl=message.queue_url, ReceiptHandle=message.receipt),
            )

    def set_visibility(self, message: Received, seconds: int) -> bool:
        """Hide a message for so long from now; 0 gives it back at once.

        Returns:
            False when the queue has taken it back already.
        """
        try:
            call_sqs(
                "ChangeMessageVisibility",
                lambda: self.client.change_message_visibility(
                    QueueUrl=message.queue_url, ReceiptHandle=message.receipt, VisibilityTimeout=seconds
                ),
            )
        except _NotInflightError:
            return False
        return True

    def report(self, body: str) -> None:
        """Put an attempt's result on the results queue."""
        call_sqs("SendMessage", lambda: self.client.send_message(QueueUrl=self.results_queue, MessageBody=body))


class _NotInflightError(Exception):
    """The message is not in our hands any more."""


def call_sqs(name: str, function: Any) -> Any:
    """Make a call to SQS.

    Raises:
        UnavailableError: it was refused, or nobody answered.
    """
    try:
        return call(name, function)
    except ClientError as error:
        raise UnavailableError(name, str(error)) from error
    except UnavailableError as error:
        if error.why.endswith(("MessageNotInflight", "ReceiptHandleIsInvalid")):
            raise _NotInflightError from error
        raise
