"""Each setting of a stage changes what it says, and nothing of another kind."""

import json
from typing import Any

import pytest

from infra.config import PoolConfig, StageConfig
from support.stacks import Template, template

PLAIN = {"stage": "dev", "alarm_email": "a@example.org"}
POOL = {"name": "default", "minimum": 0, "spot_share": 100}

# The setting, and the types of resources that it may add, change or take away.
SWITCHES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "python": ({"python": "3.13"}, {"AWS::Lambda::Alias", "AWS::Lambda::Function", "AWS::Lambda::Version"}),
    "log_retention_days": ({"log_retention_days": 3}, {"AWS::Logs::LogGroup"}),
    "output_retention_days": ({"output_retention_days": 3}, {"AWS::S3::Bucket"}),
    "api_rate": ({"api_rate": 7}, {"AWS::ApiGatewayV2::Stage"}),
    "api_burst": ({"api_burst": 7}, {"AWS::ApiGatewayV2::Stage"}),
    "cors_origins": ({"cors_origins": ["https://example.org"]}, {"AWS::ApiGatewayV2::Api"}),
    "scale_out_backlog": (
        {"scale_out_backlog": 100},
        {"AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::CloudWatch::Alarm"},
    ),
    "scale_out_age_seconds": ({"scale_out_age_seconds": 90}, {"AWS::CloudWatch::Alarm"}),
    "interface_endpoints": (
        {"interface_endpoints": True},
        {"AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::VPCEndpoint"},
    ),
    "alarm_email": ({"alarm_email": "b@example.org"}, {"AWS::SNS::Subscription"}),
    "budget_usd": ({"budget_usd": 10}, {"AWS::Budgets::Budget"}),
}
# Settings that have tests of their own, by where those are.
ELSEWHERE = {
    "stage": "test_data",
    "region": "below",
    "platform": "test_bundle",
    "protect_data": "test_data",
    "run_retention_days": "test_control",
    "workers": "test_workers",
    "pools": "below",
    "vpc_id": "test_network",
    "subnet_ids": "test_network",
    "public_ip": "test_network",
    "monitoring": "test_monitoring",
    "canary": "test_canary",
    "accept_schedule_changes": "test_canary",
}
POOL_SWITCHES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "slots": (
        {"slots": 9},
        {"AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::CloudWatch::Alarm", "AWS::ECS::TaskDefinition"},
    ),
    "cpu": ({"cpu": 512}, {"AWS::ECS::TaskDefinition"}),
    "memory_mib": ({"memory_mib": 4096}, {"AWS::ECS::TaskDefinition"}),
    "minimum": ({"minimum": 1}, {"AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ECS::Service"}),
    "maximum": ({"maximum": 3}, {"AWS::ApplicationAutoScaling::ScalableTarget"}),
    "spot_share": ({"spot_share": 50}, {"AWS::ECS::Service"}),
    "image": (
        {"image": "example.org/crawler:1"},
        {
            "AWS::ApplicationAutoScaling::ScalableTarget",
            "AWS::ECS::Service",
            "AWS::ECS::TaskDefinition",
            "AWS::IAM::Policy",
        },
    ),
}


def changed(before: Template, after: Template) -> set[str]:
    """Types of the resources that are not the same in both."""
    names = before.resources.keys() | after.resources.keys()
    different = [name for name in names if before.resources.get(name) != after.resources.get(name)]
    return {(after.resources.get(name) or before.resources[name])["Type"] for name in different}


@pytest.mark.parametrize("key", SWITCHES)
def test_a_setting_changes_what_it_says_and_nothing_else(key: str) -> None:
    setting, kinds = SWITCHES[key]
    found = changed(template(**PLAIN, pools=[POOL]), template(**{**PLAIN, "pools": [POOL], **setting}))
    assert found
    assert found <= kinds


@pytest.mark.parametrize("key", POOL_SWITCHES)
def test_a_setting_of_a_pool_changes_its_workers_only(key: str) -> None:
    setting, kinds = POOL_SWITCHES[key]
    found = changed(template(**PLAIN, pools=[POOL]), template(**PLAIN, pools=[{**POOL, **setting}]))
    assert found
    assert found <= kinds


def test_a_region_is_where_the_stack_goes() -> None:
    for region in ("", "ap-south-1"):
        stack = template(stage="dev", region=region)
        manifest = json.loads((stack.path.parent / "manifest.json").read_text("utf-8"))
        environment = manifest["artifacts"]["clawjob-dev"]["environment"]
        assert environment == f"aws://unknown-account/{region or 'unknown-region'}"


def test_every_setting_is_tried_somewhere() -> None:
    assert SWITCHES.keys() | ELSEWHERE.keys() == StageConfig.model_fields.keys()
    assert POOL_SWITCHES.keys() | {"name"} == PoolConfig.model_fields.keys()
