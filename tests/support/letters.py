"""Dead letters for tests: put aside as SQS does, or written straight into their queue."""

from datetime import timedelta
from typing import Any

from clawjob.aws.dead_letters import DeadLetters
from clawjob.domain.priority import QueueClass
from support.service import Service

LOW = "runs-default-low"


def dead_letters(service: Service) -> DeadLetters:
    """Those of the service's queues, and of ticks; a receive never waits, for moto would wait by the test's clock."""
    ticks = service.sqs.create_queue(QueueName="clawjob-test-ticks-dead")["QueueUrl"]
    return DeadLetters.of(service.context.queues, ticks, timedelta(0))


def put_dead(service: Service, *bodies: str, queue: str = LOW, **more: Any) -> list[str]:
    """Write messages into a queue of dead letters; their ids."""
    url = service.urls.dead.get(queue) or service.sqs.get_queue_url(QueueName="clawjob-test-ticks-dead")["QueueUrl"]
    return [service.sqs.send_message(QueueUrl=url, MessageBody=body, **more)["MessageId"] for body in bodies]


def bodies_in(service: Service, url: str) -> list[str]:
    """What can be taken from a queue now."""
    found: list[str] = []
    while messages := service.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages]
    return found


def dead_in(service: Service, queue: str = LOW) -> list[str]:
    """Bodies of the dead letters of a queue."""
    return bodies_in(service, service.urls.dead[queue])


def low_queue(service: Service) -> str:
    """URL of the queue that is used where a test says nothing else."""
    return service.urls.run["default"][QueueClass.LOW]
