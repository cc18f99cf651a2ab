"""How many workers a pool has: out when runs wait long or in masses, in when there are more workers than work.

Steps by CloudWatch alarms on what the queues tell. The age of a queue's oldest message counts messages of runs in
execution too, so it means something only while others wait. How many workers run is the number of samples of their
processor use in a minute: the metric that says it itself would cost.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from aws_cdk import CfnCondition, Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import PoolConfig, StageConfig

MINUTE: Final = Duration.minutes(1)
_START: Final = Duration.minutes(3)
"""What a new worker may take to begin; until then it counts as added already."""
_BETWEEN_ENDS: Final = Duration.minutes(5)
_OLD_MINUTES: Final = 3
"""Waiting seen at so many minutes in a row is no chance."""
_IDLE_MINUTES: Final = 15


def scale(
    scope: Construct,
    config: StageConfig,
    pool: PoolConfig,
    service: ecs.FargateService,
    cluster: ecs.Cluster,
    queues: Sequence[sqs.Queue],
    has_image: CfnCondition | None,
) -> None:
    """Make what changes the number of a pool's workers.

    Args:
        scope: of the pool.
        config: of the stage.
        pool: its bounds and slots.
        service: whose number of tasks it is.
        cluster: of the service.
        queues: the pool's two.
        has_image: False in the stack: no workers; None: there is an image.
    """
    _Scaling(scope, pool, service, cluster, has_image).add_all(config, queues)


class _Scaling:
    """The target, its steps and their alarms."""

    def __init__(
        self,
        scope: Construct,
        pool: PoolConfig,
        service: ecs.FargateService,
        cluster: ecs.Cluster,
        has_image: CfnCondition | None,
    ) -> None:
        self._scope, self._pool, self._service, self._cluster = scope, pool, service, cluster
        count = service.auto_scale_task_count(min_capacity=pool.minimum, max_capacity=pool.maximum)
        self._target = cast(scaling.ScalableTarget, count.node.find_child("Target"))
        if has_image is not None:
            resource = self._target.node.default_child
            assert isinstance(resource, scaling.CfnScalableTarget)
            for name, number in (("MinCapacity", pool.minimum), ("MaxCapacity", pool.maximum)):
                resource.add_property_override(name, {"Fn::If": [has_image.logical_id, number, 0]})

    def add_all(self, config: StageConfig, queues: Sequence[sqs.Queue]) -> None:
        """Make all steps and alarms."""
        high, low = queues
        backlog = config.scale_out_backlog
        waiting = {"high": _visible(high), "low": _visible(low)}
        out = self._steps("Backlog", _START, {(0, backlog): 1, (backlog, 3 * backlog): 2, (3 * backlog, None): 4})
        self._alarm("BacklogAlarm", out, "FILL(high, 0) + FILL(low, 0)", waiting, backlog)
        one = self._steps("One", _START, {(0, None): 1})
        for name, queue in (("High", high), ("Low", low)):
            # By queue: one that was silent for hours has no metrics, and what is made of them has none either.
            here = {"waiting": _visible(queue)}
            # Nothing in anybody's hands although something waits: there is no worker, or none that works.
            first = {**here, "taken": _taken(queue)}
            self._alarm(f"First{name}Alarm", one, "IF(taken < 1, waiting, 0)", first, 1)
            old = {**here, "age": _age(queue)}
            self._alarm(
                f"Age{name}Alarm",
                one,
                "IF(waiting > 0, age, 0)",
                old,
                config.scale_out_age_seconds,
                minutes=_OLD_MINUTES,
            )
        idle = self._steps("In", _BETWEEN_ENDS, {(0, 3): -1, (3, 7): -3, (7, None): -6})
        # Half of the slots in use is enough to be needed, so that what was taken away is not missed a minute later.
        half = max(1, self._pool.slots // 2)
        in_use = {**waiting, "high_taken": _taken(high), "low_taken": _taken(low), "workers": self._running()}
        expression = f"IF(high + low > 0, 0, workers - CEIL((high_taken + low_taken) / {half}))"
        self._alarm("InAlarm", idle, expression, in_use, 1, minutes=_IDLE_MINUTES)

    def _steps(
        self, name: str, cooldown: Duration, changes: Mapping[tuple[int, int | None], int]
    ) -> scaling.StepScalingAction:
        """Make a policy: changes by how far the alarm's value is over its threshold."""
        policy = scaling.StepScalingAction(
            self._scope,
            name,
            scaling_target=self._target,
            adjustment_type=scaling.AdjustmentType.CHANGE_IN_CAPACITY,
            cooldown=cooldown,
            metric_aggregation_type=scaling.MetricAggregationType.MAXIMUM,
        )
        for (lower, upper), change in changes.items():
            policy.add_adjustment(adjustment=change, lower_bound=lower, upper_bound=upper)
        return policy

    def _alarm(
        self,
        name: str,
        policy: scaling.StepScalingAction,
        expression: str,
        metrics: Mapping[str, cloudwatch.IMetric],
        threshold: int,
        *,
        minutes: int = 1,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self._scope,
            name,
            metric=cloudwatch.MathExpression(expression=expression, using_metrics=dict(metrics), period=MINUTE),
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=minutes,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"Changes the number of workers of pool {self._pool.name}; not a fault.",
        )
        alarm.add_alarm_action(cast(cloudwatch.IAlarmAction, actions.ApplicationScalingAction(policy)))

    def _running(self) -> cloudwatch.IMetric:
        return cloudwatch.Metric(
            namespace="AWS/ECS",
            metric_name="CPUUtilization",
            dimensions_map={
                "ClusterName": self._cluster.cluster_name,
                "ServiceName": self._service.service_name,
            },
            statistic="SampleCount",
            period=MINUTE,
        )


def _visible(queue: sqs.Queue) -> cloudwatch.IMetric:
    return queue.metric_approximate_number_of_messages_visible(period=MINUTE, statistic="Maximum")


def _taken(queue: sqs.Queue) -> cloudwatch.IMetric:
    return queue.metric_approximate_number_of_messages_not_visible(period=MINUTE, statistic="Maximum")


def _age(queue: sqs.Queue) -> cloudwatch.IMetric:
    return queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum")
