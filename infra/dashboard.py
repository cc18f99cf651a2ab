"""The dashboard: a row each for scheduler, queues, runs, workers, API and table. Axes carry the metrics' units."""

from collections.abc import Sequence
from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from clawjob.domain.metrics import Metric
from infra.alarms import metric_of
from infra.config import StageConfig
from infra.control import Control
from infra.data import Data
from infra.workers import Workers

_MINUTE: Final = Duration.minutes(1)
_WIDTH: Final = 6


def make_dashboard(
    scope: Construct, config: StageConfig, data: Data, control: Control, workers: Workers | None
) -> cloudwatch.Dashboard:
    """Make it; `workers` is None where a stage has none."""
    dashboard = cloudwatch.Dashboard(scope, "Dashboard", dashboard_name=config.stack_name)
    rows = (
        _scheduler(config),
        _queues(data),
        _runs(config, data),
        _workers(config, data, workers),
        _api(config, control),
        _table(data),
    )
    for row in rows:
        dashboard.add_widgets(*row)
    return dashboard


def _graph(title: str, unit: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    axis = cloudwatch.YAxisProps(label=unit, show_units=False)
    return cloudwatch.GraphWidget(title=title, left=list(metrics), left_y_axis=axis, width=_WIDTH, height=6)


def _own(config: StageConfig, title: str, *parts: tuple[Metric, str], pools: Sequence[str] = ("",)) -> Any:
    """A graph of our metrics, which all have one unit."""
    metrics = []
    for pool in pools:
        for metric, statistic in parts:
            one = metric_of(config, metric, statistic, pool=pool)
            metrics.append(one.with_(label=f"{pool} {metric.definition.name} {statistic}".strip()))
    (unit,) = {metric.definition.unit.value for metric, _ in parts}
    return _graph(title, unit, metrics)


def _scheduler(config: StageConfig) -> list[cloudwatch.IWidget]:
    m = Metric
    done = (m.DUE, m.DISPATCHED, m.CAUGHT_UP, m.MISSED, m.RESCUED, m.LOST)
    wrong = (m.INVALID, m.FAILED, m.UNFINISHED)
    return [
        _own(config, "Scheduler: active jobs", (m.ACTIVE_JOBS, "Maximum")),
        _own(config, "Scheduler: due and done", *((one, "Sum") for one in done)),
        _own(config, "Scheduler: went wrong", *((one, "Sum") for one in wrong)),
        _own(config, "Scheduler: tick", (m.TICK_DURATION, "Maximum")),
        _own(
            config,
            "Scheduler: lateness and clock",
            (m.LATENESS, "p50"),
            (m.LATENESS, "p99"),
            (m.CLOCK_OFFSET, "Average"),
        ),
    ]


def _queues(data: Data) -> list[cloudwatch.IWidget]:
    queues = {f"{pool} {label}": one for pool, some in data.run_queues.items() for label, one in some.items()}
    queues["results"] = data.results_queue
    depth, age, rate = [], [], []
    for name, queue in queues.items():
        depth.append(
            queue.metric_approximate_number_of_messages_visible(label=name, statistic="Maximum", period=_MINUTE)
        )
        age.append(queue.metric_approximate_age_of_oldest_message(label=name, statistic="Maximum", period=_MINUTE))
        rate.append(queue.metric_number_of_messages_sent(label=f"{name} in", statistic="Sum", period=_MINUTE))
        rate.append(queue.metric_number_of_messages_deleted(label=f"{name} out", statistic="Sum", period=_MINUTE))
    dead = [
        queue.metric_approximate_number_of_messages_visible(label=name, statistic="Maximum", period=_MINUTE)
        for name, queue in data.dead_queues.items()
    ]
    return [
        _graph("Queues: waiting", "Count", depth),
        _graph("Queues: age of the oldest", "Seconds", age),
        _graph("Queues: in and out", "Count", rate),
        _graph("Queues: dead letters", "Count", dead),
    ]


def _runs(config: StageConfig, data: Data) -> list[cloudwatch.IWidget]:
    pools, m = list(data.run_queues), Metric
    ends = (m.RUNS_SUCCEEDED, m.RUNS_FAILED, m.RUNS_CANCELLED)
    reports = (m.SETTLED, m.IGNORED, m.MALFORMED, m.RETRIED)
    return [
        _own(config, "Runs: running", (m.SLOTS_IN_USE, "Sum"), pools=pools),
        _own(config, "Runs: ends", *((one, "Sum") for one in ends), pools=pools),
        _own(config, "Runs: duration", (m.ATTEMPT_DURATION, "p90"), (m.ATTEMPT_DURATION, "p99"), pools=pools),
        _own(config, "Runs: reports", *((one, "Sum") for one in reports)),
    ]


def _workers(config: StageConfig, data: Data, workers: Workers | None) -> list[cloudwatch.IWidget]:
    pools, m = list(data.run_queues), Metric
    widgets = [
        _own(config, "Workers: living, slots", (m.WORKERS, "Sum"), (m.SLOTS, "Sum"), pools=pools),
        _own(config, "Workers: memory limit", (m.MEMORY_LIMIT, "Minimum"), pools=pools),
    ]
    if workers is None:
        return widgets
    for title, name in (("processor", "CPUUtilization"), ("memory", "MemoryUtilization")):
        metrics = [
            cloudwatch.Metric(
                namespace="AWS/ECS",
                metric_name=name,
                dimensions_map={"ClusterName": workers.cluster.cluster_name, "ServiceName": service.service_name},
                statistic="Maximum",
                period=_MINUTE,
                label=pool,
            )
            for pool, service in workers.services.items()
        ]
        widgets.append(_graph(f"Workers: {title}", "Percent", metrics))
    return widgets


def _api(config: StageConfig, control: Control) -> list[cloudwatch.IWidget]:
    m, http = Metric, control.http_api
    return [
        _own(config, "API: answers", *((one, "Sum") for one in (m.REQUESTS, m.REFUSED, m.ERRORS))),
        _own(config, "API: in the function", (m.REQUEST_DURATION, "p50"), (m.REQUEST_DURATION, "p99")),
        _graph("API: at the gateway", "Milliseconds", [http.metric_latency(statistic="p99", period=_MINUTE)]),
        _graph("API: 5xx at the gateway", "Count", [http.metric_server_error(statistic="Sum", period=_MINUTE)]),
    ]


def _table(data: Data) -> list[cloudwatch.IWidget]:
    def metric(name: str) -> cloudwatch.IMetric:
        return data.table.metric(name, statistic="Sum", period=_MINUTE)

    return [
        _graph("Table: units", "Count", [metric("ConsumedReadCapacityUnits"), metric("ConsumedWriteCapacityUnits")]),
        _graph("Table: throttles", "Count", [metric("ReadThrottleEvents"), metric("WriteThrottleEvents")]),
    ]
