"""The worker's own log: one JSON object for each record, on standard output, with the ids that the record carries."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from clawjob.domain.instants import Clock, to_text
from clawjob.domain.metrics import Metric

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON; line breaks in it are escaped, so no text can forge a record."""

    def __init__(self, clock: Clock, always: Mapping[str, str]) -> None:
        super().__init__()
        self._clock = clock
        self._always = dict(always)

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, Any] = {
            "timestamp": to_text(self._clock()),
            "level": record.levelname,
            "message": record.getMessage(),
            **self._always,
            **{name: value for name, value in record.__dict__.items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stdout(clock: Clock, **always: str) -> None:
    """Send the program's records to standard output, each with the given fields."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines(clock, always))
    root = logging.getLogger("clawjob")
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False


def metrics(values: Mapping[Metric, float], pool: str, namespace: str, at: datetime) -> dict[str, Any]:
    """Fields that make a record a metric of CloudWatch too, in its embedded metric format.

    Args:
        values: by metric, each by pool, all of one component.
        pool: the worker's.
        namespace: of the stage's metrics.
        at: the present instant.
    """
    (component,) = {metric.definition.component for metric in values}
    units = [{"Name": metric.definition.name, "Unit": metric.definition.unit.value} for metric in values]
    directive = {"Namespace": namespace, "Dimensions": [["service", "pool"]], "Metrics": units}
    return {
        "_aws": {"Timestamp": int(at.timestamp() * 1000), "CloudWatchMetrics": [directive]},
        "service": component.value,
        "pool": pool,
        **{metric.definition.name: value for metric, value in values.items()},
    }
