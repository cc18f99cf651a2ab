"""What the handlers count and measure, and where it goes: CloudWatch through the log (EMF), or nowhere.

Names are few and fixed, and the only dimension is the component, so that the bill stays small.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

NAMESPACE: Final = "clawjob"


@dataclass(frozen=True, slots=True)
class Measure:
    """One value; several of one name in one call make a distribution."""

    name: str
    value: float
    unit: str = "Count"
    """`Count`, `Seconds` or `Milliseconds`."""


Publish: TypeAlias = Callable[[Sequence[Measure]], None]


def nowhere(measures: Sequence[Measure]) -> None:
    """Forget the measures."""
    del measures


def embedded_metrics(component: str) -> Publish:
    """Publish by writing lines of the embedded metric format to stdout, which Lambda gives to CloudWatch."""
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=NAMESPACE, service=component)

    def publish(measures: Sequence[Measure]) -> None:
        for measure in measures:
            metrics.add_metric(measure.name, measure.unit, measure.value)
        # A hundred values of one name are published by themselves.
        if metrics.metric_set:
            metrics.flush_metrics()

    return publish
