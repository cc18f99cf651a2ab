"""The functions, what calls them, what they may do, and the API in front of them."""

import json
from typing import Any

import pytest

from infra.config import PRESETS
from support.stacks import Template, everywhere, template

FUNCTION = "AWS::Lambda::Function"
HEALTH = "GET /api/v1/health"
COMPONENTS = ("Scheduler", "Results", "Api", "Authorizer")


def function(stack: Template, name: str) -> Any:
    return stack.one(FUNCTION, f"Control{name}Function")


@pytest.mark.parametrize("stage", PRESETS)
def test_what_a_function_gets_from_a_queue_is_hidden_for_six_times_as_long_as_it_may_take(stage: str) -> None:
    stack = template(stage=stage)
    feeds = stack.properties("AWS::Lambda::EventSourceMapping")
    assert feeds
    for feed in feeds:
        queue = stack.resources[feed["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
        (alias,) = [one["Ref"] for one in everywhere(feed["FunctionName"]) if isinstance(one, dict) and "Ref" in one]
        fed = stack.resources[stack.resources[alias]["Properties"]["FunctionName"]["Ref"]]
        assert queue["VisibilityTimeout"] >= 6 * fed["Properties"]["Timeout"]


def test_results_come_in_batches_and_only_those_that_failed_come_again() -> None:
    feed = template().one("AWS::Lambda::EventSourceMapping")
    assert feed["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert (feed["BatchSize"], feed["MaximumBatchingWindowInSeconds"]) == (10, 1)
    assert feed["ScalingConfig"] == {"MaximumConcurrency": 10}


def test_a_tick_comes_each_minute_ends_before_the_next_and_is_not_lost_unseen() -> None:
    stack = template()
    rule = stack.one("AWS::Events::Rule", "ControlTick")
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 2}
    assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] == "DataTicksDeadC2ED39A5"
    assert target["Arn"]["Ref"].startswith("ControlSchedulerLive")
    assert function(stack, "Scheduler")["Timeout"] < 60
    assert stack.one("AWS::Lambda::EventInvokeConfig", "ControlSchedulerLive")["MaximumRetryAttempts"] == 0


@pytest.mark.parametrize("stage", PRESETS)
def test_each_function_writes_to_a_log_group_of_the_stack(stage: str) -> None:
    stack = template(stage=stage)
    for one in stack.properties(FUNCTION):
        group = stack.resources[one["LoggingConfig"]["LogGroup"]["Ref"]]
        assert group["Type"] == "AWS::Logs::LogGroup"
        assert group["Properties"]["RetentionInDays"] > 0


@pytest.mark.parametrize("name", COMPONENTS)
def test_each_function_is_called_by_an_alias_of_a_version(name: str) -> None:
    stack = template()
    assert function(stack, name)["Architectures"] == ["arm64"]
    alias = stack.one("AWS::Lambda::Alias", f"Control{name}Live")
    assert alias["Name"] == "live"
    version = alias["FunctionVersion"]["Fn::GetAtt"][0]
    assert stack.resources[version]["Properties"]["FunctionName"] == alias["FunctionName"]


def test_every_route_but_health_asks_for_a_token() -> None:
    stack = template()
    (authorizer,) = stack.of_type("AWS::ApiGatewayV2::Authorizer")
    routes = {one["RouteKey"]: one for one in stack.properties("AWS::ApiGatewayV2::Route")}
    assert routes.pop(HEALTH)["AuthorizationType"] == "NONE"
    assert len(routes) == 6
    for route in routes.values():
        assert (route["AuthorizationType"], route["AuthorizerId"]) == ("CUSTOM", {"Ref": authorizer})


def test_a_revoked_token_is_taken_for_a_minute_at_most() -> None:
    authorizer = template().one("AWS::ApiGatewayV2::Authorizer")
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    assert authorizer["AuthorizerResultTtlInSeconds"] <= 60


def test_the_api_is_throttled_as_the_stage_says_and_logs_each_request() -> None:
    stack = template(api_rate="7", api_burst="9")
    stage = stack.one("AWS::ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"] == {"ThrottlingBurstLimit": 9, "ThrottlingRateLimit": 7}
    log = stage["AccessLogSettings"]
    assert log["DestinationArn"]["Fn::GetAtt"][0] in stack.of_type("AWS::Logs::LogGroup")
    assert json.loads(log["Format"])["status"] == "$context.status"


def test_no_page_may_call_the_api_unless_the_stage_names_it() -> None:
    assert "CorsConfiguration" not in template().one("AWS::ApiGatewayV2::Api")
    cors = template(cors_origins=["https://example.org"]).one("AWS::ApiGatewayV2::Api")["CorsConfiguration"]
    assert cors["AllowOrigins"] == ["https://example.org"]
    assert {"authorization", "if-match", "idempotency-key"} <= set(cors["AllowHeaders"])


@pytest.mark.parametrize("python", ["3.13", "3.14"])
def test_the_functions_run_on_the_python_of_the_stage(python: str) -> None:
    runtimes = {one["Runtime"] for one in template(python=python, platform="host").properties(FUNCTION)}
    assert runtimes == {f"python{python}"}


def test_the_gateway_waits_longer_than_the_api_function_may_take() -> None:
    assert function(template(), "Api")["Timeout"] < 30
