"""What the handlers count and measure, and where it goes: CloudWatch through the log (EMF), or nowhere.

Names, units and dimensions are those of `domain/metrics.py`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clawjob.domain.metrics import Metric, counts_of_end
from clawjob.domain.run import Run


@dataclass(frozen=True, slots=True)
class Measure:
    """One value; several of one metric in one call make a distribution."""

    metric: Metric
    value: float
    pool: str = ""
    """Of a metric by pool."""

    @property
    def name(self) -> str:
        """Its metric's name."""
        return self.metric.definition.name


Publish: TypeAlias = Callable[[Sequence[Measure]], None]


def nowhere(measures: Sequence[Measure]) -> None:
    """Forget the measures."""
    del measures


def measures_of_end(run: Run) -> list[Measure]:
    """Count a run that has just ended; nothing for one that goes on."""
    return [Measure(metric, count, run.pool) for metric, count in counts_of_end(run.state).items()]


def embedded_metrics(namespace: str) -> Publish:
    """Publish by writing lines of the embedded metric format to stdout, which Lambda gives to CloudWatch."""
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=namespace)

    def publish(measures: Sequence[Measure]) -> None:
        by_dimensions: dict[tuple[str, str], list[Measure]] = defaultdict(list)
        for measure in measures:
            by_dimensions[measure.metric.definition.component.value, measure.pool].append(measure)
        for (component, pool), some in by_dimensions.items():
            metrics.add_dimension("service", component)
            if pool:
                metrics.add_dimension("pool", pool)
            for measure in some:
                metrics.add_metric(measure.name, measure.metric.definition.unit, measure.value)
            # A hundred values of one name are published by themselves.
            if metrics.metric_set:
                metrics.flush_metrics()
            else:
                metrics.clear_metrics()

    return publish
