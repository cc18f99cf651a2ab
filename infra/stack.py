"""One stack for each stage: wiring only."""

from aws_cdk import CfnOutput, Environment, Stack, Tags
from constructs import Construct

from infra.canary import Canary
from infra.config import StageConfig
from infra.control import Control
from infra.data import Data
from infra.monitoring import Monitoring
from infra.network import Network
from infra.workers import Workers


class ClawjobStack(Stack):
    """The whole service."""

    def __init__(self, scope: Construct, config: StageConfig) -> None:
        super().__init__(
            scope,
            config.stack_name,
            env=Environment(region=config.region or None),
            description="clawjob: schedules and runs crawl jobs",
            termination_protection=config.protect_data,
        )
        Tags.of(self).add("clawjob:stage", config.stage)
        data = Data(self, "Data", config)
        control = Control(self, "Control", config, data)
        workers = None
        if config.workers:
            workers = Workers(self, "Workers", config, data, Network(self, "Network", config))
            self._show(WorkerCluster=workers.cluster.cluster_name)
        if config.monitoring:
            monitoring = Monitoring(self, "Monitoring", config, data, control, workers)
            if config.canary:
                Canary(self, "Canary", config, control, monitoring)
        self._show(
            ApiUrl=control.http_api.api_endpoint,
            TableName=data.table.table_name,
            ResultsQueueUrl=data.results_queue.queue_url,
            RunQueues=self.to_json_string(data.run_queue_urls()),
            DeadQueues=self.to_json_string(data.dead_queue_urls()),
            RunLogGroup=data.run_log_group.log_group_name,
            SchedulerFunction=control.scheduler.function.function_name,
            RepositoryUri=data.repository.repository_uri,
            Region=self.region,
        )

    def _show(self, **values: str) -> None:
        for name, value in values.items():
            CfnOutput(self, name, value=value)
