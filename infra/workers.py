"""The workers: of each pool one Fargate service, without a health check, so that nothing ends a busy worker.

How many there are is the business of `scaling.py`: a deploy never says it. While the stack has not been told the tag of
an image, it has pools without workers; so it can be made before there is an image, and told later.
"""

import re
from typing import Final

from aws_cdk import CfnCondition, CfnParameter, Duration, Fn, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.authority import worker_statements
from infra.config import PoolConfig, StageConfig
from infra.data import Data
from infra.log_groups import make_log_group
from infra.network import Network
from infra.scaling import scale

PROGRAM: Final = "/opt/clawjob/bin/clawjob"
"""Where an image has the runner; its own entry point may be anything, so that of the service goes before it."""
USER: Final = "10001:10001"
FOLDERS: Final = {"work": "/work", "tmp": "/tmp"}  # noqa: S108 - the container's own
"""What can be written to, by volume; an image declares them as its volumes, so that they belong to its user."""
STOP_TIMEOUT: Final = Duration.seconds(120)
"""The most that Fargate gives, and as much as Spot does."""
DRAIN_SECONDS: Final = 80
"""Until runs are handed back; the worker needs up to 35 s more for that."""
_FIRST_TAG: Final = "none"
_ECR_URI: Final = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<name>[^:@]+)[:@](?P<version>.+)"
)


class Workers(Construct):
    """Cluster and services."""

    def __init__(self, scope: Construct, name: str, config: StageConfig, data: Data, network: Network) -> None:
        super().__init__(scope, name)
        self._config, self._data, self._network = config, data, network
        self._tag: CfnParameter | None = None
        self._has_image: CfnCondition | None = None
        if not all(pool.image for pool in config.pools):
            self._ask_for_tag()
        # The cluster has no insights: they cost more than a small pool.
        self.cluster = ecs.Cluster(
            self,
            "Cluster",
            vpc=network.vpc,
            enable_fargate_capacity_providers=True,
            container_insights_v2=ecs.ContainerInsights.DISABLED,
        )
        self.services: dict[str, ecs.FargateService] = {}
        self.task_roles: dict[str, iam.Role] = {}
        for pool in config.pools:
            self._make(pool)

    def _ask_for_tag(self) -> None:
        self._tag = CfnParameter(
            Stack.of(self),
            "ImageTag",
            default="",
            allowed_pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$",
            description="Tag of the workers' image in the stack's repository. Empty: no image yet, so no workers.",
        )
        self._has_image = CfnCondition(
            Stack.of(self),
            "HasImage",
            expression=Fn.condition_not(Fn.condition_equals(self._tag.value_as_string, "")),
        )

    def _make(self, pool: PoolConfig) -> None:
        scope = Construct(self, f"Pool-{pool.name}")
        role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        for statement in worker_statements(pool.name, self._data, self._tasks_arn()):
            role.add_to_policy(statement)
        service = ecs.FargateService(
            scope,
            "Service",
            cluster=self.cluster,
            task_definition=self._task(scope, pool, role),
            capacity_provider_strategies=_strategies(pool),
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC),
            security_groups=[self._network.security_group],
            assign_public_ip=self._config.public_ip,
            # New workers first; old ones go when they are idle, or hand their runs back.
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            # Stopping a worker only to start it in the other zone is worth nothing.
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.DISABLED,
            enable_ecs_managed_tags=True,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )
        has_image = None if pool.image else self._has_image
        if has_image is not None:
            # A new service begins with one worker unless it is told otherwise; that one would find no image.
            resource = service.node.default_child
            assert isinstance(resource, ecs.CfnService)
            count = {"Fn::If": [has_image.logical_id, {"Ref": "AWS::NoValue"}, 0]}
            resource.add_property_override("DesiredCount", count)
        queues = list(self._data.run_queues[pool.name].values())
        scale(scope, self._config, pool, service, self.cluster, queues, has_image)
        self.services[pool.name] = service
        self.task_roles[pool.name] = role

    def _task(self, scope: Construct, pool: PoolConfig, role: iam.Role) -> ecs.FargateTaskDefinition:
        task = ecs.FargateTaskDefinition(
            scope,
            "Task",
            cpu=pool.cpu,
            memory_limit_mib=pool.memory_mib,
            task_role=role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
            volumes=[ecs.Volume(name=name) for name in FOLDERS],
        )
        container = task.add_container(
            "Worker",
            image=self._image(scope, pool),
            entry_point=[PROGRAM],
            command=["worker"],
            user=USER,
            readonly_root_filesystem=True,
            stop_timeout=STOP_TIMEOUT,
            linux_parameters=ecs.LinuxParameters(scope, "Linux", init_process_enabled=True),
            environment=self._environment(pool),
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="worker",
                log_group=make_log_group(scope, "Logs", self._config),
                # A log service that does not answer must not hold a worker up.
                mode=ecs.AwsLogDriverMode.NON_BLOCKING,
            ),
        )
        for name, folder in FOLDERS.items():
            container.add_mount_points(ecs.MountPoint(container_path=folder, source_volume=name, read_only=False))
        return task

    def _environment(self, pool: PoolConfig) -> dict[str, str]:
        data, stack = self._data, Stack.of(self)
        return {
            "CLAWJOB_TABLE": data.table.table_name,
            # Of its own pool only: it may do nothing with the others.
            "CLAWJOB_RUN_QUEUES": stack.to_json_string({pool.name: data.run_queue_urls()[pool.name]}),
            "CLAWJOB_RESULTS_QUEUE": data.results_queue.queue_url,
            "CLAWJOB_LOG_GROUP": data.run_log_group.log_group_name,
            "CLAWJOB_NAMESPACE": self._config.stack_name,
            **self._config.times_variables,
            "CLAWJOB_POOL": pool.name,
            "CLAWJOB_SLOTS": str(pool.slots),
            "CLAWJOB_WORK_DIR": FOLDERS["work"],
            "CLAWJOB_DRAIN_SECONDS": str(DRAIN_SECONDS),
        }

    def _image(self, scope: Construct, pool: PoolConfig) -> ecs.ContainerImage:
        if not pool.image:
            assert self._tag is not None
            assert self._has_image is not None
            tag = Fn.condition_if(self._has_image.logical_id, self._tag.value_as_string, _FIRST_TAG).to_string()
            return ecs.ContainerImage.from_ecr_repository(self._data.repository, tag)
        found = _ECR_URI.fullmatch(pool.image)
        if found is None:
            return ecs.ContainerImage.from_registry(pool.image)
        # A private repository of the account: whoever starts the worker must be allowed to read it.
        arn = f"arn:{Stack.of(self).partition}:ecr:{found['region']}:{found['account']}:repository/{found['name']}"
        repository = ecr.Repository.from_repository_attributes(
            scope, "Repository", repository_arn=arn, repository_name=found["name"]
        )
        return ecs.ContainerImage.from_ecr_repository(repository, found["version"])

    def _tasks_arn(self) -> str:
        return Stack.of(self).format_arn(service="ecs", resource="task", resource_name=f"{self.cluster.cluster_name}/*")


def _strategies(pool: PoolConfig) -> list[ecs.CapacityProviderStrategy]:
    """Workers up to the minimum are always on Fargate, what comes above is shared with Spot."""
    spot = [ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT", weight=pool.spot_share)]
    own = ecs.CapacityProviderStrategy(capacity_provider="FARGATE", base=pool.minimum, weight=100 - pool.spot_share)
    if not pool.spot_share:
        return [own]
    return spot if pool.spot_share == 100 and not pool.minimum else [own, *spot]
