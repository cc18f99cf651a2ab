"""Dead letters in the stack: who may take them, and how they are found."""

import json
from typing import Any

import boto3

from clawjob.aws.dead_letters import DeadLetters
from clawjob.aws.queues import Queues
from clawjob.domain.priority import QueueClass
from support.stacks import template


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_api_alone_may_take_dead_letters_and_sends_them_back_to_where_they_came_from() -> None:
    stack = template()
    dead = {key for key in stack.of_type("AWS::SQS::Queue") if "Dead" in key}
    takers, sent_to = set(), set()
    for key, policy in stack.of_type("AWS::IAM::Policy").items():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions = set(_listed(statement["Action"]))
            queues = {one["Fn::GetAtt"][0] for one in _listed(statement["Resource"]) if "Fn::GetAtt" in one}
            if queues & dead:
                takers.add(key)
                assert queues == dead
                assert actions == {
                    "sqs:ChangeMessageVisibility",
                    "sqs:DeleteMessage",
                    "sqs:GetQueueAttributes",
                    "sqs:ReceiveMessage",
                }
            if key.startswith("ControlApi") and "sqs:SendMessage" in actions:
                assert "sqs:GetQueueAttributes" in actions
                sent_to |= queues
    assert [key for key in takers if not key.startswith("ControlApiRole")] == []
    assert len(takers) == 1
    assert sent_to == set(stack.of_type("AWS::SQS::Queue")) - dead


def test_the_api_finds_the_dead_letters_of_ticks_by_its_environment() -> None:
    stack = template()
    variables = stack.one("AWS::Lambda::Function", "ControlApiFunction")["Environment"]["Variables"]
    assert variables["CLAWJOB_DEAD_TICKS"] == {"Ref": "DataTicksDeadC2ED39A5"}
    shown = json.dumps(stack.body["Outputs"]["DeadQueues"])
    queues = Queues(boto3.client("sqs"), {"default": dict.fromkeys(QueueClass, "x")}, "x")
    for name in DeadLetters.of(queues, "x").names:
        assert f'{name}\\":' in shown
