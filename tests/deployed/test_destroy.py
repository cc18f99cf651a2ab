"""What is left of a stack that is destroyed."""

from collections.abc import Iterator
from typing import Any

from support.deployed import STACK, Stack
from support.emulator import Emulator

BOOTSTRAP = "cdk-hnb659fds"
PLACE = "000000000000-eu-west-1"
LEFT = {
    f"bucket {BOOTSTRAP}-assets-{PLACE}",
    "parameter /cdk-bootstrap/hnb659fds/version",
    f"repository {BOOTSTRAP}-container-assets-{PLACE}",
    f"role {BOOTSTRAP}-cfn-exec-role-{PLACE}",
    f"role {BOOTSTRAP}-deploy-role-{PLACE}",
    f"role {BOOTSTRAP}-file-publishing-role-{PLACE}",
    f"role {BOOTSTRAP}-image-publishing-role-{PLACE}",
    f"role {BOOTSTRAP}-lookup-role-{PLACE}",
    "stack CDKToolkit CREATE_COMPLETE",
    f"stack {STACK} DELETE_COMPLETE",
}
"""What the CDK needs in a region, which all its stacks share, and the record of ours. docs/runbook.md names it."""


def everything(emulator: Emulator) -> Iterator[str]:
    """All that an account holds, of each service that the stack uses, by kind and name."""

    def all_of(service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        client = emulator.client(service)
        if not client.can_paginate(operation):
            return list(getattr(client, operation)(**arguments).get(key, []))
        return [one for page in client.get_paginator(operation).paginate(**arguments) for one in page.get(key, [])]

    for one in all_of("cloudformation", "list_stacks", "StackSummaries"):
        yield f"stack {one['StackName']} {one['StackStatus']}"
    for one in all_of("apigatewayv2", "get_apis", "Items"):
        yield f"api {one['Name']}"
    for one in all_of("dynamodb", "list_tables", "TableNames"):
        yield f"table {one}"
    for one in all_of("ecr", "describe_repositories", "repositories"):
        yield f"repository {one['repositoryName']}"
    for one in all_of("events", "list_rules", "Rules"):
        yield f"rule {one['Name']}"
    for one in all_of("iam", "list_policies", "Policies", Scope="Local"):
        yield f"policy {one['PolicyName']}"
    for one in all_of("iam", "list_roles", "Roles"):
        yield f"role {one['RoleName']}"
    for one in all_of("lambda", "list_event_source_mappings", "EventSourceMappings"):
        yield f"feed {one['EventSourceArn']}"
    for one in all_of("lambda", "list_functions", "Functions"):
        yield f"function {one['FunctionName']}"
    for one in all_of("logs", "describe_log_groups", "logGroups"):
        yield f"log group {one['logGroupName']}"
    for one in all_of("s3", "list_buckets", "Buckets"):
        yield f"bucket {one['Name']}"
    for one in all_of("sqs", "list_queues", "QueueUrls"):
        yield f"queue {one}"
    for one in all_of("ssm", "describe_parameters", "Parameters"):
        yield f"parameter {one['Name']}"


def test_destroying_leaves_exactly_what_is_written_here(deployed: Stack) -> None:
    kinds = {one.split()[0] for one in everything(deployed.emulator)}
    # What the listing cannot see before, it would not miss after.
    assert kinds >= {"api", "bucket", "feed", "function", "log", "queue", "repository", "role", "rule", "table"}
    deployed.destroy()
    assert set(everything(deployed.emulator)) == LEFT
