"""The canary: how new versions come, what takes them back, who may do what for it, and what the switch changes."""

import json
from typing import Any

import pytest

from clawjob.settings import CompareSettings, WatchSettings
from support.stacks import Template, template

ALIAS = "AWS::Lambda::Alias"
GROUP = "AWS::CodeDeploy::DeploymentGroup"
FUNCTIONS = ("Api", "Results", "Scheduler")


@pytest.fixture(scope="module")
def stack() -> Template:
    return template(stage="prod")


@pytest.fixture(scope="module")
def without() -> Template:
    return template(stage="prod", canary="false")


def update_of(stack: Template, name: str) -> dict[str, Any]:
    (alias,) = [one for key, one in stack.of_type(ALIAS).items() if key.startswith(f"Control{name}Live")]
    policy: dict[str, Any] = alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
    return policy


def group_of(stack: Template, name: str) -> dict[str, Any]:
    key = update_of(stack, name)["DeploymentGroupName"]["Ref"]
    return dict(stack.resources[key]["Properties"])


def alarms_of(stack: Template, name: str) -> set[str]:
    configuration = group_of(stack, name)["AlarmConfiguration"]
    assert configuration["Enabled"]
    keys = [one["Name"]["Ref"] for one in configuration["Alarms"]]
    return {stack.resources[key]["Properties"]["AlarmName"].removeprefix("clawjob-prod-") for key in keys}


def hook(stack: Template, name: str) -> dict[str, Any]:
    return dict(stack.one("AWS::Lambda::Function", f"Canary{name}"))


@pytest.mark.parametrize("name", ["Api", "Results"])
def test_api_and_results_give_a_new_version_5_percent_for_10_minutes(stack: Template, name: str) -> None:
    config = stack.resources[group_of(stack, name)["DeploymentConfigName"]["Ref"]]
    assert config["Type"] == "AWS::CodeDeploy::DeploymentConfig"
    assert config["Properties"] == {
        "ComputePlatform": "Lambda",
        "TrafficRoutingConfig": {
            "Type": "TimeBasedCanary",
            "TimeBasedCanary": {"CanaryInterval": 10, "CanaryPercentage": 5},
        },
    }
    assert not {"BeforeAllowTrafficHook", "AfterAllowTrafficHook"} & update_of(stack, name).keys()


def test_the_scheduler_changes_at_once_between_two_hooks(stack: Template) -> None:
    assert group_of(stack, "Scheduler")["DeploymentConfigName"] == "CodeDeployDefault.LambdaAllAtOnce"
    update = update_of(stack, "Scheduler")
    for step, name in (("BeforeAllowTrafficHook", "compare"), ("AfterAllowTrafficHook", "watch")):
        called = stack.resources[update[step]["Ref"]]["Properties"]
        assert called["Handler"] == f"functions.{name}.handler.handler"


@pytest.mark.parametrize(
    ("name", "alarms"),
    [
        ("Api", {"function-errors-api", "api-errors", "new-version-errors-api"}),
        ("Results", {"function-errors-results", "results-stuck", "new-version-errors-results"}),
        ("Scheduler", {"function-errors-scheduler", "no-tick"}),
    ],
)
def test_alarms_of_the_function_and_failures_take_a_version_back(stack: Template, name: str, alarms: set[str]) -> None:
    assert alarms_of(stack, name) == alarms
    rollback = group_of(stack, name)["AutoRollbackConfiguration"]
    assert rollback["Enabled"]
    assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} <= set(rollback["Events"])


@pytest.mark.parametrize("name", ["Api", "Results"])
def test_one_failure_of_the_new_version_is_seen_among_all_of_the_old_one(stack: Template, name: str) -> None:
    alarm = stack.one("AWS::CloudWatch::Alarm", f"MonitoringNewVersionErrors{name}")
    dimensions = {one["Name"]: one["Value"] for one in alarm["Dimensions"]}
    assert set(dimensions) == {"FunctionName", "Resource", "ExecutedVersion"}
    version = dimensions["ExecutedVersion"]["Fn::GetAtt"][0]
    (alias,) = [one for key, one in stack.of_type(ALIAS).items() if key.startswith(f"Control{name}Live")]
    assert alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0] == version
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]) == (60, 1, "notBreaching")


@pytest.mark.parametrize(("name", "settings"), [("Compare", CompareSettings), ("Watch", WatchSettings)])
def test_the_hooks_get_the_settings_that_they_read(stack: Template, name: str, settings: Any) -> None:
    variables = dict(hook(stack, name)["Environment"]["Variables"])
    version = variables.pop("CLAWJOB_NEW_VERSION")["Fn::GetAtt"]
    assert version[0].startswith("ControlSchedulerFunctionCurrentVersion")
    queues = '{"default": {"high": "https://sqs/high", "low": "https://sqs/low"}}'
    given = {key: value if isinstance(value, str) else "x" for key, value in variables.items()}
    read = settings.from_environment({**given, "CLAWJOB_RUN_QUEUES": queues, "CLAWJOB_NEW_VERSION": "7"})
    assert read.new_version == 7


@pytest.mark.parametrize("given", [False, True])
def test_a_wanted_change_of_schedules_is_told_to_the_hook_and_to_nobody_else(stack: Template, given: bool) -> None:
    other = template(stage="prod", accept_schedule_changes=str(given).lower())
    variables = hook(other, "Compare")["Environment"]["Variables"]
    assert variables["CLAWJOB_ACCEPT_SCHEDULE_CHANGES"] == str(given).lower()
    changed = [key for key in stack.resources if stack.resources[key] != other.resources[key]]
    assert [stack.resources[key]["Properties"]["Handler"] for key in changed] == [
        "functions.compare.handler.handler"
    ] * given


def test_what_a_deployment_needs_is_there_before_it(stack: Template) -> None:
    """Also on the way back, when CloudFormation changes everything again."""
    for name in FUNCTIONS:
        (alias,) = [one for key, one in stack.of_type(ALIAS).items() if key.startswith(f"Control{name}Live")]
        needed = [stack.resources[key]["Type"] for key in alias["DependsOn"]]
        assert {GROUP, "AWS::IAM::Policy"} <= set(needed)
        assert needed.count("AWS::Lambda::Function") == (2 if name == "Scheduler" else 0)


def statements(stack: Template, beginning: str) -> dict[str, Any]:
    document = stack.one("AWS::IAM::Policy", beginning)["PolicyDocument"]["Statement"]
    found = {}
    for one in document:
        for action in one["Action"] if isinstance(one["Action"], list) else [one["Action"]]:
            found[action] = one["Resource"]
    return found


def test_hooks_may_call_the_scheduler_only_and_answer_for_its_deployments_only(stack: Template) -> None:
    compare, watch = statements(stack, "CanaryCompare"), statements(stack, "CanaryWatch")
    answers = "codedeploy:PutLifecycleEventHookExecutionStatus"
    logs = {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert compare.keys() == {*logs, "lambda:InvokeFunction", answers}
    assert watch.keys() == {*logs, "dynamodb:GetItem", answers}
    (function, rest) = compare["lambda:InvokeFunction"]["Fn::Join"][1]
    assert function["Fn::GetAtt"][0].startswith("ControlSchedulerFunction")
    assert rest == ":*"
    group = update_of(stack, "Scheduler")["DeploymentGroupName"]
    for one in (compare, watch):
        assert one[answers]["Fn::Join"][1][-1] == group


def test_codedeploy_may_move_the_aliases_of_three_functions_and_call_two_hooks(stack: Template) -> None:
    (role,) = {json.dumps(one["ServiceRoleArn"]) for one in stack.properties(GROUP)}
    assert "CanaryRole" in role
    assert "ManagedPolicyArns" not in stack.one("AWS::IAM::Role", "CanaryRole")
    allowed = statements(stack, "CanaryRole")
    assert allowed.keys() == {
        "cloudwatch:DescribeAlarms",
        "lambda:GetAlias",
        "lambda:GetProvisionedConcurrencyConfig",
        "lambda:InvokeFunction",
        "lambda:UpdateAlias",
    }
    assert len(allowed["lambda:UpdateAlias"]) == 2 * len(FUNCTIONS)
    called = [one["Fn::GetAtt"][0] for one in allowed["lambda:InvokeFunction"]]
    assert [key.startswith(("CanaryCompareFunction", "CanaryWatchFunction")) for key in called] == [True, True]


def test_the_switch_changes_the_canary_and_how_three_aliases_are_updated_and_nothing_else(
    stack: Template, without: Template
) -> None:
    added = {key: one["Type"] for key, one in stack.resources.items() if key not in without.resources}
    assert not without.resources.keys() - stack.resources.keys()
    assert {key for key in added if not key.startswith("Canary")} == {
        key for key in added if key.startswith("MonitoringNewVersionErrors")
    }
    assert sorted(added.values()).count(GROUP) == 3
    for key, old in without.resources.items():
        new = stack.resources[key]
        if new != old:
            assert key.startswith(tuple(f"Control{name}Live" for name in FUNCTIONS))
            assert {name: new[name] for name in new if name not in {"UpdatePolicy", "DependsOn"}} == old


@pytest.mark.parametrize("stage", ["dev", "emulator"])
def test_stages_without_a_canary_have_none_of_it(stage: str) -> None:
    stack = template(stage=stage)
    assert not [key for key, one in stack.resources.items() if "CodeDeploy" in one["Type"] or key.startswith("Canary")]
    assert not any("UpdatePolicy" in one for one in stack.of_type(ALIAS).values())


def test_versions_are_kept_so_that_the_alias_can_go_back(stack: Template) -> None:
    versions = stack.of_type("AWS::Lambda::Version").values()
    assert len(versions) == 4
    assert {one["DeletionPolicy"] for one in versions} == {"Retain"}
