"""`clawjob token`: through the API, and with `--stack` straight into a deployed table."""

import json
from typing import Any

import boto3
import pytest

from clawjob.operations.access import authenticate
from support.service import TABLE, Service


def test_a_token_stands_alone_on_stdout_and_can_be_used(run: Any) -> None:
    made = run("token", "create", "ci", "--role", "viewer")
    assert made.exit_code == 0
    (token,) = made.stdout.split()
    assert "shown this once" in made.stderr
    assert run("job", "list", env={"CLAWJOB_TOKEN": token}).exit_code == 0
    refused = run("token", "list", env={"CLAWJOB_TOKEN": token})
    assert refused.exit_code == 4
    assert "role admin" in refused.stderr


def test_tokens_are_listed_and_a_revoked_one_is_no_more(run: Any) -> None:
    token = run("token", "create", "ci", "--role", "operator").stdout.strip()
    token_id = token.split("_")[1]
    listed = run("token", "list")
    assert token_id in listed.stdout
    assert "operator" in listed.stdout
    assert token not in listed.stdout
    assert run("token", "revoke", token_id).exit_code == 0
    assert token_id not in run("token", "list").stdout
    assert run("job", "list", env={"CLAWJOB_TOKEN": token}).exit_code == 4
    assert run("token", "revoke", token_id).exit_code == 3


def test_a_token_itself_is_not_taken_for_its_id(run: Any) -> None:
    refused = run("token", "revoke", f"cj_a_{'0' * 40}")
    assert refused.exit_code == 2
    assert "id" in refused.stderr


@pytest.fixture
def stack(service: Service) -> str:
    """A deployed stack, as far as its outputs go."""
    outputs = {"TableName": TABLE, "RunQueues": json.dumps(service.urls.run)}
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    boto3.client("cloudformation").create_stack(StackName="clawjob-dev", TemplateBody=json.dumps(template))
    return "clawjob-dev"


def test_the_first_token_of_a_stack_is_made_by_aws_credentials(run: Any, stack: str, service: Service) -> None:
    made = run(
        "token", "create", "me", "--role", "admin", "--stack", stack, env={"CLAWJOB_URL": "", "CLAWJOB_TOKEN": ""}
    )
    assert made.exit_code == 0, made.output
    token = authenticate(service.context, made.stdout.strip())
    assert token is not None
    assert (token.name, token.role.value, token.created_by) == ("me", "admin", "aws")
    assert token.token_id in run("token", "list", "--stack", stack).stdout
    assert run("token", "revoke", token.token_id, "--stack", stack).exit_code == 0
    assert authenticate(service.context, made.stdout.strip()) is None


def test_a_stack_that_is_not_there_is_told_with_its_region(run: Any, service: Service) -> None:
    del service
    missing = run("token", "create", "--role", "admin", "--stack", "nowhere")
    assert missing.exit_code == 3
    assert "no stack 'nowhere'" in missing.stderr


def test_an_unknown_aws_profile_is_told(run: Any) -> None:
    wrong = run("token", "list", "--stack", "x", "--aws-profile", "nobody-has-this")
    assert wrong.exit_code == 2
    assert "nobody-has-this" in wrong.stderr
