"""The queues of dead letters: looking, sending back, removing.

A queue's redrive policy says where its dead letters are, so nothing has to be configured. SQS shows a message only by
giving it out: for so long nobody else gets it, and its count of receives rises, which does no harm here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from clawjob.aws.queues import BATCH, Queues, call_sqs
from clawjob.domain.dead_letters import LetterKind
from clawjob.domain.errors import NotFoundError, UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

TICKS: Final = "ticks"
_BATCH_BYTES: Final = 200_000
"""Of a batch that is sent at once; SQS takes a little more."""
_WAIT: Final = timedelta(seconds=1)
"""A receive that does not wait asks only some of SQS's servers, and misses messages of a short queue."""
_ERRORS: Final = ("ERROR_CODE", "ERROR_MESSAGE")
"""What EventBridge notes on a tick that it could not deliver."""


class DeadQueueNotFoundError(NotFoundError):
    """No queue of dead letters has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"there are no dead letters of {name!r}; known are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Counts:
    """About how many messages a queue holds."""

    waiting: int
    held: int
    """Given out to somebody who looks at this moment."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was given out to us."""

    message_id: str
    receipt: str
    body: str
    group: str
    """Its message group; empty for none."""
    sent_at: datetime
    """Its first sending: SQS keeps it when it puts a message aside."""
    receives: int
    """In all, looks included."""
    error: str
    """What its sender noted on it."""


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of all queues, by the names of these."""

    client: "SQSClient"
    sources: dict[str, str]
    """URLs of the queues from which messages come."""
    ticks: str = ""
    """URL of the dead letters of the tick, which no queue precedes; empty: there are none."""
    wait: timedelta = _WAIT
    _urls: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, queues: Queues, ticks: str = "", wait: timedelta = _WAIT) -> "DeadLetters":
        """Those of the service's queues."""
        sources = {
            f"runs-{pool}-{label}": url
            for pool, classes in queues.run_queues.items()
            for label, url in sorted(classes.items())
        }
        if queues.results_queue:
            sources["results"] = queues.results_queue
        return cls(queues.client, sources, ticks, wait)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all queues that have dead letters."""
        return (*self.sources, *([TICKS] if self.ticks else []))

    def kind(self, name: str) -> LetterKind:
        """What a queue's messages are.

        Raises:
            DeadQueueNotFoundError: there is no such queue.
        """
        if name not in self.names:
            raise DeadQueueNotFoundError(name[:100], self.names)
        if name == TICKS:
            return LetterKind.TICK
        return LetterKind.REPORT if name == "results" else LetterKind.RUN

    def counts(self, name: str) -> Counts:
        """Count a queue's dead letters; SQS is up to a minute behind."""
        waiting, held = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
        attributes = self._attributes(self._url(name), waiting, held)
        return Counts(int(attributes[waiting]), int(attributes[held]))

    def take(self, name: str, hide: timedelta) -> Iterator[list[DeadLetter]]:
        """Take out batches until no message comes any more; nobody else gets them for a while."""
        url, seen = self._url(name), set[str]()
        while True:
            answer = call_sqs(
                "ReceiveMessage",
                lambda: self.client.receive_message(
                    QueueUrl=url,
                    MaxNumberOfMessages=BATCH,
                    VisibilityTimeout=int(hide.total_seconds()),
                    WaitTimeSeconds=int(self.wait.total_seconds()),
                    AttributeNames=["All"],
                    MessageAttributeNames=list(_ERRORS),
                ),
            )
            # A message that comes again, because the time was over or by SQS's own doing, is no further one.
            letters = [letter for one in answer.get("Messages", []) if (letter := _letter(one)).message_id not in seen]
            if not letters:
                return
            seen.update(letter.message_id for letter in letters)
            yield letters

    def give_back(self, name: str, letters: Sequence[DeadLetter]) -> None:
        """Let others get these messages again, at once."""
        url = self._url(name)
        for start in range(0, len(letters), BATCH):
            entries = [{**one, "VisibilityTimeout": 0} for one in _entries(letters[start : start + BATCH])]
            call_sqs(
                "ChangeMessageVisibilityBatch",
                lambda entries=entries: self.client.change_message_visibility_batch(QueueUrl=url, Entries=entries),
            )

    def send_back(self, name: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Send up to 10 messages to the queue from which they came; tells which were accepted."""
        size = sum(len(letter.body.encode()) for letter in letters)
        if size > _BATCH_BYTES and len(letters) > 1:
            return [sent for letter in letters for sent in self.send_back(name, [letter])]
        entries: list[SendMessageBatchRequestEntryTypeDef] = []
        for number, letter in enumerate(letters):
            entries.append({"Id": str(number), "MessageBody": letter.body})
            if letter.group:
                entries[-1]["MessageGroupId"] = letter.group
        url = self.sources[name]
        try:
            answer = call_sqs("SendMessageBatch", lambda: self.client.send_message_batch(QueueUrl=url, Entries=entries))
        except UnavailableError:
            return []
        return _accepted(letters, answer)

    def remove(self, name: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Delete up to 10 messages that we took; tells which are gone."""
        url, entries = self._url(name), _entries(letters)
        answer = call_sqs("DeleteMessageBatch", lambda: self.client.delete_message_batch(QueueUrl=url, Entries=entries))
        return _accepted(letters, answer)

    def _url(self, name: str) -> str:
        if self.kind(name) is LetterKind.TICK:
            return self.ticks
        if name not in self._urls:
            source = self.sources[name]
            policy = self._attributes(source, "RedrivePolicy").get("RedrivePolicy")
            if policy is None:
                raise UnavailableError("GetQueueAttributes", f"queue {name} has no redrive policy")
            # Of the same account and region, so all but the name is as in the source's.
            queue = str(json.loads(policy)["deadLetterTargetArn"]).rpartition(":")[2]
            self._urls[name] = f"{source.rpartition('/')[0]}/{queue}"
        return self._urls[name]

    def _attributes(self, url: str, *names: Any) -> dict[str, str]:
        answer = call_sqs(
            "GetQueueAttributes", lambda: self.client.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
        )
        return dict(answer.get("Attributes") or {})


def _entries(letters: Sequence[DeadLetter]) -> list[Any]:
    return [{"Id": str(number), "ReceiptHandle": letter.receipt} for number, letter in enumerate(letters)]


def _accepted(letters: Sequence[DeadLetter], answer: Mapping[str, Any]) -> list[DeadLetter]:
    taken = {entry["Id"] for entry in answer.get("Successful", [])}
    return [letter for number, letter in enumerate(letters) if str(number) in taken]


def _letter(message: Any) -> DeadLetter:
    attributes = message.get("Attributes") or {}
    notes = message.get("MessageAttributes") or {}
    noted = [str(notes[name].get("StringValue", "")) for name in _ERRORS if name in notes]
    return DeadLetter(
        message_id=message["MessageId"],
        receipt=message["ReceiptHandle"],
        body=message["Body"],
        group=attributes.get("MessageGroupId", ""),
        sent_at=datetime.fromtimestamp(int(attributes.get("SentTimestamp", 0)) / 1000, UTC),
        receives=int(attributes.get("ApproximateReceiveCount", 0)),
        error=": ".join(noted),
    )
