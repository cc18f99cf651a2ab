"""Workers, network and monitoring are not only synthesized: each of their resources is created on moto.

What moto's CloudFormation does not know is created by the call of its own service, with the properties as they stand in
the template; that list is exact, so it shrinks as moto grows.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws

from support.stacks import Template, everywhere, template

ACCOUNT = "123456789012"
REGION = "eu-west-1"
PARTS = ("Monitoring", "Network", "Workers")
BY_CALL = {
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::Budgets::Budget",
    "AWS::CloudWatch::Alarm",
    "AWS::ECS::ClusterCapacityProviderAssociations",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
}
ELSEWHERE = {"AWS::ApiGatewayV2::Api"}
"""Monitoring only names it; tests/deployed creates it."""


@dataclass
class Made:
    """What was created, and how it is named."""

    stack: Template
    names: Mapping[str, str]
    """Physical names by logical id."""

    def properties(self, kind: str) -> list[Any]:
        """Properties of each resource of a type, with real names in the place of references."""
        return [self._plain(one) for one in self.stack.properties(kind)]

    def _plain(self, given: Any) -> Any:
        if isinstance(given, list):
            return [self._plain(one) for one in given]
        if not isinstance(given, dict):
            return given
        if "Ref" in given:
            pseudo = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws"}
            return pseudo.get(given["Ref"]) or self.names.get(given["Ref"], given["Ref"])
        if "Fn::GetAtt" in given:
            name, attribute = given["Fn::GetAtt"]
            whole = self.names.get(name, name)
            return whole if attribute.endswith("Arn") else whole.split("/")[-1]
        if "Fn::If" in given:
            return self._plain(given["Fn::If"][1])  # the one condition is that there is an image
        if "Fn::Join" in given:
            between, parts = given["Fn::Join"]
            return between.join(str(self._plain(one)) for one in parts)
        return {key: self._plain(one) for key, one in given.items()}


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    """The parts in question and what they refer to, as far as moto's CloudFormation can."""
    stack = template(stage="dev", alarm_email="a@example.org", budget_usd=10)
    wanted = {name: stack.resources[name] for name in _with_references(stack)}
    in_stack = {name: one for name, one in wanted.items() if one["Type"] not in BY_CALL | ELSEWHERE}
    for name, one in in_stack.items():
        if one["Type"] == "AWS::ECR::Repository":
            # moto would derive a name with capitals, and refuse it.
            in_stack[name] = {**one, "Properties": {**one["Properties"], "RepositoryName": "images"}}
    named = {key: {"Type": "String", "Default": key} for key, one in wanted.items() if one["Type"] in ELSEWHERE}
    body = {
        "Parameters": {"ImageTag": stack.body["Parameters"]["ImageTag"], **named},
        "Conditions": stack.body["Conditions"],
        "Resources": in_stack,
    }
    with mock_aws():
        boto3.client("s3").create_bucket(
            Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}",
            CreateBucketConfiguration={"LocationConstraint": REGION},
        )
        client = boto3.client("cloudformation")
        client.create_stack(
            StackName="clawjob-dev",
            TemplateBody=json.dumps(body),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": "ImageTag", "ParameterValue": "v1"}],
        )
        assert client.describe_stacks(StackName="clawjob-dev")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
        found = client.describe_stack_resources(StackName="clawjob-dev")["StackResources"]
        names = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found}
        # A type that moto does not know it leaves out without a word.
        assert names.keys() == in_stack.keys()
        yield Made(stack, names)


def test_a_worker_is_a_task_of_a_service_in_a_network_with_a_way_out(made: Made) -> None:
    ecs, ec2 = boto3.client("ecs"), boto3.client("ec2")
    (cluster,) = ecs.list_clusters()["clusterArns"]
    services = ecs.list_services(cluster=cluster)["serviceArns"]
    (service,) = ecs.describe_services(cluster=cluster, services=services)["services"]
    task = ecs.describe_task_definition(taskDefinition=service["taskDefinition"])["taskDefinition"]
    (container,) = task["containerDefinitions"]
    assert container["image"].endswith("images:v1")
    assert container["readonlyRootFilesystem"] is True
    vpc = next(name for key, name in made.names.items() if key.startswith("NetworkVpc") and name.startswith("vpc-"))
    routes = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    out = [route for one in routes for route in one["Routes"] if route.get("GatewayId", "").startswith("igw-")]
    assert len(out) == 2


def test_the_service_gets_its_capacity_providers_and_its_scaling(made: Made) -> None:
    ecs, scaling = boto3.client("ecs"), boto3.client("application-autoscaling")
    for one in made.properties("AWS::ECS::ClusterCapacityProviderAssociations"):
        answer = ecs.put_cluster_capacity_providers(
            cluster=one["Cluster"],
            capacityProviders=one["CapacityProviders"],
            defaultCapacityProviderStrategy=one["DefaultCapacityProviderStrategy"],
        )
        assert answer["cluster"]["capacityProviders"] == ["FARGATE", "FARGATE_SPOT"]
    (target,) = made.properties("AWS::ApplicationAutoScaling::ScalableTarget")
    where = {key: target[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
    # moto refuses a service that is not there.
    scaling.register_scalable_target(**where, MinCapacity=target["MinCapacity"], MaxCapacity=target["MaxCapacity"])
    (kept,) = scaling.describe_scalable_targets(ServiceNamespace="ecs")["ScalableTargets"]
    assert (kept["MinCapacity"], kept["MaxCapacity"]) == (0, 12)
    for one in made.properties("AWS::ApplicationAutoScaling::ScalingPolicy"):
        scaling.put_scaling_policy(
            **where,
            PolicyName=one["PolicyName"],
            PolicyType=one["PolicyType"],
            StepScalingPolicyConfiguration=one["StepScalingPolicyConfiguration"],
        )
    policies = scaling.describe_scaling_policies(ServiceNamespace="ecs")["ScalingPolicies"]
    assert len(policies) == 3


def test_each_alarm_is_taken_by_cloudwatch_and_tells_the_topic(made: Made) -> None:
    cloudwatch, sns = boto3.client("cloudwatch"), boto3.client("sns")
    alarms = made.properties("AWS::CloudWatch::Alarm")
    for number, one in enumerate(alarms):
        cloudwatch.put_metric_alarm(**{"AlarmName": f"alarm-{number}", **one})
    kept = cloudwatch.describe_alarms()["MetricAlarms"]
    assert len(kept) == len(alarms)
    (topic,) = sns.list_topics()["Topics"]
    assert any(topic["TopicArn"] in one["AlarmActions"] for one in kept)
    (subscription,) = made.properties("AWS::SNS::Subscription")
    sns.subscribe(
        TopicArn=subscription["TopicArn"], Protocol=subscription["Protocol"], Endpoint=subscription["Endpoint"]
    )
    (policy,) = made.properties("AWS::SNS::TopicPolicy")
    for topic_arn in policy["Topics"]:
        sns.set_topic_attributes(
            TopicArn=topic_arn, AttributeName="Policy", AttributeValue=json.dumps(policy["PolicyDocument"])
        )


def test_the_dashboard_and_the_budget_are_there(made: Made) -> None:
    cloudwatch, budgets = boto3.client("cloudwatch"), boto3.client("budgets")
    body = cloudwatch.get_dashboard(DashboardName="clawjob-dev")["DashboardBody"]
    assert json.loads(body)["widgets"]
    (budget,) = made.properties("AWS::Budgets::Budget")
    limit = budget["Budget"]["BudgetLimit"]
    # The template has a number where the call has text.
    limit = {**limit, "Amount": str(limit["Amount"])}
    budgets.create_budget(
        AccountId=ACCOUNT,
        Budget={"BudgetName": "clawjob-dev", **budget["Budget"], "BudgetLimit": limit},
        NotificationsWithSubscribers=budget["NotificationsWithSubscribers"],
    )
    (kept,) = budgets.describe_budgets(AccountId=ACCOUNT)["Budgets"]
    assert kept["BudgetLimit"]["Amount"] == "10"


def test_every_type_of_these_parts_is_created_in_one_of_the_two_ways(made: Made) -> None:
    kinds = {one["Type"] for name, one in made.stack.resources.items() if name.startswith(PARTS)}
    created = {made.stack.resources[name]["Type"] for name in made.names}
    assert kinds - created == BY_CALL


def _with_references(stack: Template) -> set[str]:
    wanted = {name for name in stack.resources if name.startswith(PARTS)}
    waiting = list(wanted)
    while waiting:
        one = stack.resources[waiting.pop()]
        for value in everywhere(one):
            if isinstance(value, dict):
                for other in (value.get("Ref"), (value.get("Fn::GetAtt") or [None])[0]):
                    if other in stack.resources and other not in wanted:
                        wanted.add(other)
                        waiting.append(other)
    return wanted
