"""What the stack consists of is what docs/cost.md reckons with, and an idle `dev` stage stays below $5."""

import pytest

from bench.counts import STAGES, count_stack, read_counts
from bench.month import month
from support.stacks import template

LIMIT = 5.0
BILLED = {
    "AWS::ApiGatewayV2::Api",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::DynamoDB::Table",
    "AWS::EC2::VPCEndpoint",
    "AWS::ECR::Repository",
    "AWS::ECS::Service",
    "AWS::Events::Rule",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
    "AWS::SNS::Topic",
}
"""Types that have lines of the bill, or would have: mails of a topic are free up to a thousand."""
FREE = (
    "AWS::ApiGatewayV2::",
    "AWS::ApplicationAutoScaling::",
    "AWS::CDK::Metadata",
    "AWS::CodeDeploy::",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::Route",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::ECS::",
    "AWS::IAM::",
    "AWS::Lambda::",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
)
"""Types that AWS takes nothing for, by how they begin."""


@pytest.mark.parametrize("stage", STAGES)
def test_the_page_of_costs_reckons_with_the_stack_as_it_is(stage: str) -> None:
    """`python -m bench.counts`, then `make docs`."""
    assert count_stack(template(stage=stage).body) == read_counts()["stacks"][stage]


def test_an_idle_dev_stage_costs_less_than_five_dollars_with_what_is_always_free() -> None:
    counts = read_counts() | {"stacks": {"dev": count_stack(template(stage="dev").body)}}
    assert counts["stacks"]["dev"]["minimum_workers"] == [0]
    bill = month(counts, "dev")
    by_line = [f"{line.what}: {paid:.2f}" for line, paid in zip(bill.lines, bill.paid(), strict=True)]
    assert bill.dollars_paid < LIMIT, by_line


@pytest.mark.parametrize("stage", STAGES)
def test_nothing_in_the_stack_is_billed_that_the_page_does_not_know(stage: str) -> None:
    stack = template(stage=stage)
    kinds = {one["Type"] for one in stack.resources.values()}
    assert {kind for kind in kinds if kind not in BILLED and not kind.startswith(FREE)} == set()
    # Gateways to the table and the bucket are free, interfaces are not.
    assert all(one.get("VpcEndpointType") == "Gateway" for one in stack.properties("AWS::EC2::VPCEndpoint"))


@pytest.mark.parametrize("stage", STAGES)
def test_no_alarm_looks_more_often_than_once_a_minute_which_would_cost_three_times_as_much(stage: str) -> None:
    for alarm in template(stage=stage).properties("AWS::CloudWatch::Alarm"):
        periods = [one["MetricStat"]["Period"] for one in alarm.get("Metrics", []) if "MetricStat" in one]
        assert min(periods or [alarm["Period"]]) >= 60
