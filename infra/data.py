"""What is kept: the table, the queues with their dead letters, the bucket, the runs' log group, the image repository.

Made from the same definition as dev mode and tests use. Nothing has a fixed name, so that stages share an account.
"""

from collections.abc import Mapping
from typing import Any, Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from clawjob.aws import table as layout
from clawjob.domain.priority import QueueClass
from clawjob.domain.times import Times
from infra.config import StageConfig
from infra.log_groups import make_log_group

RESULTS_TIMEOUT: Final = Duration.seconds(30)
"""Of the results function."""
_RETENTION: Final = Duration.days(14)
_LEASE: Final = Duration.seconds(int(Times().lease.total_seconds()))
_IMAGES_KEPT: Final = 20


class Data(Construct):
    """Everything with a state. Its logical ids never change: a changed id is a new, empty resource."""

    def __init__(self, scope: Construct, name: str, config: StageConfig) -> None:
        super().__init__(scope, name)
        self._config = config
        self._removal = RemovalPolicy.RETAIN if config.protect_data else RemovalPolicy.DESTROY
        self.table = self._make_table()
        self.dead_queues: dict[str, sqs.Queue] = {}
        self.run_queues = {
            pool.name: {label: self._make_queue(f"runs-{pool.name}-{label}", _LEASE) for label in QueueClass}
            for pool in config.pools
        }
        self.results_queue = self._make_queue("results", Duration.seconds(6 * int(RESULTS_TIMEOUT.to_seconds())))
        self.dead_queues["ticks"] = self._make_dead_queue("ticks")
        self.bucket = self._make_bucket()
        self.run_log_group = make_log_group(self, "RunLogs", config)
        self.repository = ecr.Repository(
            self,
            "Images",
            image_scan_on_push=True,
            removal_policy=self._removal,
            empty_on_delete=not config.protect_data,
            lifecycle_rules=[ecr.LifecycleRule(max_image_count=_IMAGES_KEPT)],
        )

    def run_queue_urls(self) -> dict[str, dict[str, str]]:
        """URLs by pool and class, as the setting `CLAWJOB_RUN_QUEUES` has them."""
        return {
            pool: {label: queue.queue_url for label, queue in queues.items()}
            for pool, queues in self.run_queues.items()
        }

    def dead_queue_urls(self) -> dict[str, dict[str, str]]:
        """URL of each queue of dead letters and of the queue that they came from; none for those of the tick."""
        sources = {
            f"runs-{pool}-{label}": queue for pool, queues in self.run_queues.items() for label, queue in queues.items()
        }
        sources["results"] = self.results_queue
        return {
            name: {"url": queue.queue_url, "source": sources[name].queue_url if name in sources else ""}
            for name, queue in self.dead_queues.items()
        }

    def _make_table(self) -> dynamodb.Table:
        definition = layout.table_definition("")
        types = {one["AttributeName"]: one["AttributeType"] for one in definition["AttributeDefinitions"]}
        table = dynamodb.Table(
            self,
            "Table",
            **_keys(definition["KeySchema"], types),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=layout.TTL,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            # The key that AWS owns: encrypted at rest, and no request to pay for.
            encryption=dynamodb.TableEncryption.DEFAULT,
            deletion_protection=self._config.protect_data,
            removal_policy=self._removal,
        )
        for index in definition["GlobalSecondaryIndexes"]:
            table.add_global_secondary_index(
                index_name=index["IndexName"],
                **_keys(index["KeySchema"], types),
                projection_type=dynamodb.ProjectionType[index["Projection"]["ProjectionType"]],
            )
        return table

    def _make_queue(self, name: str, visibility: Duration) -> sqs.Queue:
        dead = self._make_dead_queue(name)
        return sqs.Queue(
            self,
            _logical(name),
            visibility_timeout=visibility,
            retention_period=_RETENTION,
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=layout.DEAD_LETTER_RECEIVES),
            removal_policy=self._removal,
        )

    def _make_dead_queue(self, name: str) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            f"{_logical(name)}Dead",
            retention_period=_RETENTION,
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            removal_policy=self._removal,
        )
        self.dead_queues[name] = queue
        return queue

    def _make_bucket(self) -> s3.Bucket:
        days = Duration.days(self._config.output_retention_days)
        return s3.Bucket(
            self,
            "Outputs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=self._removal,
            lifecycle_rules=[
                s3.LifecycleRule(expiration=days, abort_incomplete_multipart_upload_after=Duration.days(7)),
            ],
        )


def _logical(name: str) -> str:
    """`runs-default-high` as `RunsDefaultHigh`."""
    return "".join(part.capitalize() for part in name.split("-"))


def _keys(schema: list[Mapping[str, str]], types: Mapping[str, str]) -> dict[str, Any]:
    roles = {"HASH": "partition_key", "RANGE": "sort_key"}
    return {
        roles[one["KeyType"]]: dynamodb.Attribute(name=one["AttributeName"], type=_TYPES[types[one["AttributeName"]]])
        for one in schema
    }


_TYPES: Final = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}
