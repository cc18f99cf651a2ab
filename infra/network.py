"""Where workers run: a small network of public subnets without NAT, or subnets of an existing one.

Nothing can be called from outside: the workers' security group lets nothing in. The default group of a network of our
own is used by nothing; to empty it would take a custom resource.
"""

from typing import Final

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.config import StageConfig

ZONES: Final = 2
_INTERFACES: Final = {
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Registry": ec2.InterfaceVpcEndpointAwsService.ECR,
    "Images": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
}


class Network(Construct):
    """The workers' network."""

    def __init__(self, scope: Construct, name: str, config: StageConfig) -> None:
        super().__init__(scope, name)
        self.vpc: ec2.IVpc = self._existing(config) if config.vpc_id else self._own()
        self.security_group = ec2.SecurityGroup(self, "Workers", vpc=self.vpc, description="Workers: nothing comes in")
        if config.interface_endpoints:
            self._add_interfaces()

    def _own(self) -> ec2.Vpc:
        service = ec2.GatewayVpcEndpointAwsService
        return ec2.Vpc(
            self,
            "Vpc",
            max_azs=ZONES,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20)
            ],
            # These two cost nothing, and what crawlers store does not leave the region's network.
            gateway_endpoints={
                "Table": ec2.GatewayVpcEndpointOptions(service=service.DYNAMODB),
                "Bucket": ec2.GatewayVpcEndpointOptions(service=service.S3),
            },
            restrict_default_security_group=False,
        )

    def _existing(self, config: StageConfig) -> ec2.IVpc:
        # Nobody is asked about it, so that templates are made without an account. The zones' names are never written.
        return ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=config.vpc_id,
            availability_zones=[f"zone-{number}" for number, _ in enumerate(config.subnet_ids)],
            public_subnet_ids=list(config.subnet_ids),
        )

    def _add_interfaces(self) -> None:
        group = ec2.SecurityGroup(self, "Endpoints", vpc=self.vpc, description="Endpoints: workers come in")
        group.add_ingress_rule(self.security_group, ec2.Port.tcp(443))
        for name, service in _INTERFACES.items():
            ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=self.vpc,
                service=service,
                subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC),
                security_groups=[group],
                open=False,
            )
