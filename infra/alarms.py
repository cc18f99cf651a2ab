"""The alarms: what is measured, when it is too much, and which section of docs/runbook.md says what to do.

An alarm that needs several metrics costs for each of them. Missing data means that nothing happened, but for the tick.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs

from clawjob.aws.deployments import LIVE
from clawjob.domain.metrics import Metric
from clawjob.domain.times import Times
from infra.config import StageConfig
from infra.control import Component, Control
from infra.data import Data

QUEUE_LIMIT: Final = 1000
FAILURE_PERCENT: Final = 5
FAILURE_MINIMUM: Final = 20
"""Runs that must have ended within the hour before their failures count."""
OFFSET_LIMIT: Final = 2
"""Seconds; beyond it the clock is corrected."""
ERROR_LIMIT: Final = 3
_MINUTE: Final = Duration.minutes(1)
_FIVE: Final = Duration.minutes(5)
_OPERATIONS: Final = ("GetItem", "BatchGetItem", "PutItem", "UpdateItem", "Query", "TransactWriteItems")


@dataclass(frozen=True, slots=True)
class AlarmSpec:
    """One alarm before it is made."""

    key: str
    anchor: str
    """Of its section in the runbook."""
    what: str
    metric: cloudwatch.IMetric
    threshold: float
    periods: int = 1
    datapoints: int | None = None
    below: bool = False
    missing_is_bad: bool = False


def metric_of(
    config: StageConfig, metric: Metric, statistic: str, period: Duration = _MINUTE, pool: str = ""
) -> cloudwatch.Metric:
    """One of our metrics, as CloudWatch knows it."""
    definition = metric.definition
    return cloudwatch.Metric(
        namespace=config.stack_name,
        metric_name=definition.name,
        dimensions_map={"service": definition.component.value, **({"pool": pool} if definition.by_pool else {})},
        statistic=statistic,
        period=period,
        label=f"{definition.name} {statistic}",
    )


def alarm_specs(config: StageConfig, data: Data, control: Control) -> Iterator[AlarmSpec]:
    """Describe all alarms of a stage."""
    for pool, queues in data.run_queues.items():
        yield from _pool_alarms(config, pool, [queues[label] for label in queues])
    yield AlarmSpec(
        "no-tick",
        "no-tick",
        "The scheduler has ended no tick for 3 minutes: nothing is dispatched.",
        metric_of(config, Metric.TICK_DURATION, "SampleCount"),
        1,
        periods=3,
        below=True,
        missing_is_bad=True,
    )
    # An alarm takes ten metrics at most, and a pool has two queues.
    dead = list(data.dead_queues.items())
    for number, start in enumerate(range(0, len(dead), 10)):
        yield AlarmSpec(
            f"dead-letters-{number}" if number else "dead-letters",
            "dead-letters",
            "Messages that nobody could handle are kept aside.",
            _sum({f"m{i}": _visible(queue, "Maximum") for i, (_, queue) in enumerate(dead[start : start + 10])}),
            0,
        )
    yield from _table_alarms(data)
    for name, component in functions(control).items():
        yield AlarmSpec(
            f"function-errors-{name}",
            "function-errors",
            f"The {name} function failed {ERROR_LIMIT} times or more in 5 minutes.",
            component.alias.metric_errors(statistic="Sum", period=_FIVE),
            ERROR_LIMIT - 1,
        )
    yield AlarmSpec(
        "api-errors",
        "api-errors",
        f"The API answered 5xx {ERROR_LIMIT} times or more in 5 minutes.",
        metric_of(config, Metric.ERRORS, "Sum", _FIVE),
        ERROR_LIMIT - 1,
    )
    yield AlarmSpec(
        "results-stuck",
        "results-stuck",
        "Reports of workers come again because they cannot be settled.",
        metric_of(config, Metric.RETRIED, "Sum", _FIVE),
        ERROR_LIMIT - 1,
    )
    yield AlarmSpec(
        "clock-offset",
        "clock-offset",
        f"The scheduler's clock is off by more than {OFFSET_LIMIT} s.",
        cloudwatch.MathExpression(
            expression="ABS(offset)",
            using_metrics={"offset": metric_of(config, Metric.CLOCK_OFFSET, "Average")},
            period=_MINUTE,
        ),
        OFFSET_LIMIT,
        periods=5,
        datapoints=3,
    )
    late = Times().tick.total_seconds()
    yield AlarmSpec(
        "lateness",
        "lateness",
        f"One run of a hundred is put on its queue more than {late:.0f} s late.",
        metric_of(config, Metric.LATENESS, "p99"),
        late,
        periods=5,
        datapoints=3,
    )


def new_version_spec(name: str, component: Component) -> AlarmSpec:
    """Describe the alarm that sees a function's new version while it has a share of the calls.

    Of its own failures one is enough: among those of the old version a small share would not be seen.
    """
    function = component.function
    return AlarmSpec(
        f"new-version-errors-{name}",
        "function-errors",
        f"The new version of the {name} function failed while it had a share of the calls.",
        cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name="Errors",
            dimensions_map={
                "FunctionName": function.function_name,
                "Resource": f"{function.function_name}:{LIVE}",
                "ExecutedVersion": function.current_version.version,
            },
            statistic="Sum",
            period=_MINUTE,
        ),
        0,
    )


def functions(control: Control) -> Mapping[str, Component]:
    """The functions that are watched."""
    return {
        "scheduler": control.scheduler,
        "results": control.results,
        "api": control.api,
        "authorizer": control.authorizer,
    }


def _pool_alarms(config: StageConfig, pool: str, queues: list[sqs.Queue]) -> Iterator[AlarmSpec]:
    yield AlarmSpec(
        f"queue-too-long-{pool}",
        "queue-too-long",
        f"More than {QUEUE_LIMIT} runs of pool {pool} have waited for 5 minutes.",
        _sum({f"m{i}": _visible(queue, "Maximum", _MINUTE) for i, queue in enumerate(queues)}, _MINUTE),
        QUEUE_LIMIT,
        periods=5,
    )
    hour = Duration.hours(1)
    yield AlarmSpec(
        f"failures-too-many-{pool}",
        "failures-too-many",
        f"More than {FAILURE_PERCENT} % of the runs of pool {pool} that ended within an hour failed "
        f"(of {FAILURE_MINIMUM} or more).",
        cloudwatch.MathExpression(
            expression=f"IF(failed + succeeded >= {FAILURE_MINIMUM}, 100 * failed / (failed + succeeded), 0)",
            using_metrics={
                "failed": metric_of(config, Metric.RUNS_FAILED, "Sum", hour, pool),
                "succeeded": metric_of(config, Metric.RUNS_SUCCEEDED, "Sum", hour, pool),
            },
            period=hour,
        ),
        FAILURE_PERCENT,
    )
    waiting = {f"m{i}": _visible(queue, "Minimum") for i, queue in enumerate(queues)}
    waits = " + ".join(f"FILL({key}, 0)" for key in waiting)
    yield AlarmSpec(
        f"no-worker-{pool}",
        "no-worker",
        f"Runs of pool {pool} have waited for 10 minutes, and no worker lives.",
        cloudwatch.MathExpression(
            expression=f"IF({waits} > 0 AND FILL(workers, 0) < 1, 1, 0)",
            using_metrics={**waiting, "workers": metric_of(config, Metric.WORKERS, "Sum", _FIVE, pool)},
            period=_FIVE,
        ),
        0,
        periods=2,
    )


def _table_alarms(data: Data) -> Iterator[AlarmSpec]:
    table = data.table.table_name

    def metric(name: str, **more: str) -> cloudwatch.Metric:
        dimensions = {"TableName": table, **more}
        return cloudwatch.Metric(
            namespace="AWS/DynamoDB", metric_name=name, dimensions_map=dimensions, statistic="Sum", period=_FIVE
        )

    yield AlarmSpec(
        "table-errors",
        "table-errors",
        "The table answered with errors of its own.",
        _sum({f"m{i}": metric("SystemErrors", Operation=operation) for i, operation in enumerate(_OPERATIONS)}),
        0,
        periods=2,
    )
    throttles = {"m0": metric("ReadThrottleEvents"), "m1": metric("WriteThrottleEvents")}
    for number, index in enumerate(("due", "list"), 2):
        throttles[f"m{number}"] = metric("WriteThrottleEvents", GlobalSecondaryIndexName=index)
    yield AlarmSpec("table-throttles", "table-errors", "The table or an index throttles.", _sum(throttles), 0, 2)


def _visible(queue: sqs.Queue, statistic: str, period: Duration = _FIVE) -> cloudwatch.IMetric:
    return queue.metric_approximate_number_of_messages_visible(statistic=statistic, period=period)


def _sum(metrics: Mapping[str, cloudwatch.IMetric], period: Duration = _FIVE) -> cloudwatch.MathExpression:
    expression = " + ".join(f"FILL({key}, 0)" for key in metrics)
    return cloudwatch.MathExpression(expression=expression, using_metrics=dict(metrics), period=period)
