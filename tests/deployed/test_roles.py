"""The functions' roles bite: what a role lacks is refused. So a run that goes through shows that the roles suffice."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.deployed import Stack

PROBE = """
import boto3
from botocore.exceptions import ClientError

def handler(event, context):
    answers = []
    for service, operation, arguments in event:
        try:
            getattr(boto3.client(service), operation)(**arguments)
            answers.append("allowed")
        except ClientError as error:
            answers.append(error.response["Error"]["Code"])
    return answers
"""
"""Makes calls with the rights of the function that it is."""
KEY = {"pk": {"S": "PROBE"}, "sk": {"S": "PROBE"}}

Probe = Callable[..., list[str]]


@pytest.fixture
def probe(deployed: Stack) -> Iterator[Probe]:
    """Make a function with a component's role, and let it make calls."""
    client = deployed.emulator.client("lambda")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("probe.py", PROBE)
    made: list[str] = []

    def ask(component: str, *calls: tuple[str, str, dict[str, Any]]) -> list[str]:
        role = deployed.name_of("AWS::IAM::Role", f"Control{component}Role")
        made.append(f"probe-{component}")
        client.create_function(
            FunctionName=made[-1],
            Role=f"arn:aws:iam::000000000000:role/{role}",
            Runtime="python3.14",
            Handler="probe.handler",
            Code={"ZipFile": packed.getvalue()},
            Timeout=30,
        )
        answer = client.invoke(FunctionName=made[-1], Payload=json.dumps(calls).encode())
        answers: list[str] = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, answers
        return answers

    yield ask
    for name in made:
        client.delete_function(FunctionName=name)
        deployed.emulator.client("logs").delete_log_group(logGroupName=f"/aws/lambda/{name}")


def test_a_role_is_refused_what_it_lacks(deployed: Stack, probe: Probe) -> None:
    table = {"TableName": deployed.outputs["TableName"]}
    results = {"QueueUrl": deployed.outputs["ResultsQueueUrl"]}
    (queues,) = json.loads(deployed.outputs["RunQueues"]).values()
    runs = {"QueueUrl": queues["low"]}
    get = ("dynamodb", "get_item", {**table, "Key": KEY})
    put = ("dynamodb", "put_item", {**table, "Item": KEY})
    delete = ("dynamodb", "delete_item", {**table, "Key": KEY})
    denied = "AccessDeniedException"

    assert probe("Authorizer", get, put, delete) == ["allowed", denied, denied]
    count = ("sqs", "get_queue_attributes", {**runs, "AttributeNames": ["QueueArn"]})
    take = ("sqs", "receive_message", runs)
    assert probe("Scheduler", put, count, delete, take) == ["allowed", "allowed", denied, "AccessDenied"]
    assert probe("Api", delete, take, ("iam", "list_roles", {})) == ["allowed", "AccessDenied", "AccessDenied"]
    report = ("sqs", "send_message", {**results, "MessageBody": "forged"})
    assert probe("Results", get, report, delete) == ["allowed", "AccessDenied", denied]
