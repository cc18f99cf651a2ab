"""The stack later: it is what was written, its rule ticks, and a further deploy leaves its data alone."""

import json

from support.deployed import Stack, until

DATA = {
    "AWS::DynamoDB::Table",
    "AWS::ECR::Repository",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
}
POOLS = [{"name": "default", "cpu": 2048, "memory_mib": 8192, "maximum": 20}, {"name": "large", "slots": 1}]


def test_made_anew_the_stack_is_what_is_deployed(deployed: Stack) -> None:
    said = deployed.cdk("diff", "--fail")
    assert "There were no differences" in said


def test_the_rule_calls_the_scheduler_without_us(deployed: Stack) -> None:
    until(lambda: len(deployed.said("Scheduler", "tick ended")) > deployed.ticks, 120)


def test_another_pool_and_size_leave_the_data_alone(deployed: Stack, admin: str) -> None:
    deployed.clawjob("job", "create", "-f", "-", token=admin, stdin=json.dumps({"name": "stays", "command": "true"}))
    wider = {"name": "wide", "command": "true", "pool": "large"}
    assert deployed.ask("POST", "/jobs", admin, wider).status_code == 400
    before = deployed.resources()

    deployed.deploy("-c", f"pools={json.dumps(POOLS)}")

    after = deployed.resources()
    assert {key: one for key, one in before.items() if one[0] in DATA}.items() <= after.items()
    assert len(set(after) - set(before)) > 0
    assert deployed.ask("GET", "/jobs/stays", admin).status_code == 200
    until(lambda: deployed.ask("POST", "/jobs", admin, wider).status_code == 201)
    assert set(json.loads(deployed.outputs["RunQueues"])) == {"default", "large"}
