"""Rules that others wrote, cdk-nag's AwsSolutions and cfn-lint. What we do otherwise is listed with its reason."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import infra
from infra.config import PRESETS, stage_config
from support.stacks import template

ALLOWED = {
    ("AwsSolutions-SQS3", "Data/TicksDead"): "it is the queue of dead letters of a rule, which the check does not know",
    ("AwsSolutions-S1", "Data/Outputs"): "its objects are read through the worker's and the API's own roles only",
    ("AwsSolutions-APIG4", "Control/Http/GET--api--v1--health"): "health is asked by those who have no token",
}
"""Reasons by rule and path within the stack."""
OF_WORKERS = {
    ("AwsSolutions-ECS2", "Workers/Pool-default/Task"): "the variables are names and URLs; there is no secret in them",
    (
        "AwsSolutions-ECS4",
        "Workers/Cluster",
    ): "Container Insights costs more than an idle stage; the worker measures itself",
    ("AwsSolutions-VPC7", "Network/Vpc"): "flow logs cost by the megabyte that a crawler loads; nothing can come in",
    (
        "AwsSolutions-IAM5[Resource::*]",
        "Workers/Pool-default/Task/ExecutionRole/DefaultPolicy",
    ): "the login to image registries cannot be granted for one repository",
    (
        (
            "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:ecs:<AWS::Region>:<AWS::AccountId>:task/"
            "<WorkersCluster2E9BA3A7>/*]"
        ),
        "Workers/Pool-default/Role/DefaultPolicy",
    ): "a task protects itself, and its id is not known before it runs",
}
"""The same for stages that have workers."""
SCHEDULER = "<ControlSchedulerFunction22D21B12.Arn>"
ALARMS = "arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:*"
OF_CANARY = {
    (
        f"AwsSolutions-IAM5[Resource::{SCHEDULER}:*]",
        "Canary/Compare/Role/DefaultPolicy",
    ): "versions of one function; a right to the new one may come too late when it comes with the deployment",
    (f"AwsSolutions-IAM5[Resource::{ALARMS}]", "Canary/Role/DefaultPolicy"): "CodeDeploy reads alarms as a list",
}
"""The same for stages that have the canary."""
NOT_LINTED = "W3005"
"""A function depends on its role by name too, as the CDK writes it, so that the role's policy comes first."""


def violations(stage: str, folder: Path) -> Iterator[tuple[str, str]]:
    from aws_cdk import App, Validations
    from cdk_nag import AwsSolutionsChecks

    from infra.stack import ClawjobStack

    kept = json.loads((Path(infra.__file__).parents[1] / "cdk.json").read_text("utf-8"))["context"]
    app = App(outdir=str(folder), context=kept)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    config = stage_config({**kept, "stage": stage})
    ClawjobStack(app, config)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.loads((folder / "validation-report.json").read_text("utf-8"))
    for plugin in report["pluginReports"]:
        for one in plugin["violations"]:
            for construct in one["violatingConstructs"]:
                path = construct["constructPath"].removeprefix(f"{config.stack_name}/").removesuffix("/Resource")
                yield one["ruleName"], path


@pytest.mark.parametrize("stage", PRESETS)
def test_only_listed_rules_are_broken_and_every_listed_one_is(stage: str, tmp_path: Path) -> None:
    config = stage_config({"stage": stage})
    allowed = (
        set(ALLOWED) | (set(OF_WORKERS) if config.workers else set()) | (set(OF_CANARY) if config.canary else set())
    )
    assert set(violations(stage, tmp_path)) == allowed


@pytest.mark.parametrize("stage", PRESETS)
def test_the_linter_has_nothing_to_say(stage: str) -> None:
    program = Path(sys.executable).with_name("cfn-lint")
    command = [program, "--ignore-checks", NOT_LINTED, "--", template(stage=stage).path]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout + found.stderr == ""
    assert found.returncode == 0
