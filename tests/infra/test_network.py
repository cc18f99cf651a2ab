"""The workers' network: small and without NAT, or somebody else's."""

import pytest

from infra.config import ConfigError, stage_config
from support.stacks import template

THEIRS = {"vpc_id": "vpc-0abc", "subnet_ids": ["subnet-0a", "subnet-0b"]}


def test_it_has_two_public_subnets_no_nat_and_the_two_free_endpoints() -> None:
    stack = template()
    assert len(stack.properties("AWS::EC2::Subnet")) == 2
    assert not stack.of_type("AWS::EC2::NatGateway")
    assert [one["VpcEndpointType"] for one in stack.properties("AWS::EC2::VPCEndpoint")] == ["Gateway", "Gateway"]


def test_nothing_comes_in() -> None:
    stack = template()
    assert "SecurityGroupIngress" not in stack.one("AWS::EC2::SecurityGroup")
    assert not stack.of_type("AWS::EC2::SecurityGroupIngress")


def test_private_ways_are_made_when_asked_for() -> None:
    kinds = [one["VpcEndpointType"] for one in template(interface_endpoints=True).properties("AWS::EC2::VPCEndpoint")]
    assert kinds.count("Interface") == 4


def test_an_existing_network_is_used_as_it_is() -> None:
    stack = template(**THEIRS, public_ip=False)
    assert not stack.of_type("AWS::EC2::VPC")
    (one,) = stack.properties("AWS::ECS::Service")
    network = one["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert (network["Subnets"], network["AssignPublicIp"]) == (["subnet-0a", "subnet-0b"], "DISABLED")


@pytest.mark.parametrize("context", [{"vpc_id": "vpc-0abc"}, {"subnet_ids": '["subnet-0a"]'}, {"public_ip": False}])
def test_half_a_network_is_refused(context: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="vpc_id"):
        stage_config(context)
