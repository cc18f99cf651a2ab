"""The scheduler function: one tick for each event. Extra, late or repeated events do no harm.

Two events are no ticks: `{"count": true}` counts the active jobs, `{"dry": true, "at": "..."}` tells what ticks will
decide, as of an instant, and writes nothing.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from clawjob.domain.foresight import FORM
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.metrics import Metric
from clawjob.handlers.measures import Measure, Publish, measures_of_end, nowhere
from clawjob.operations.dry_tick import DryReport, dry_tick
from clawjob.operations.tick import TickReport, tick
from clawjob.services import Services
from clawjob.settings import CoreSettings

log = logging.getLogger(__name__)

_RESERVE: Final = timedelta(seconds=10)
"""Left at the end of the function's time for the page in hand."""


@dataclass(frozen=True, slots=True)
class SchedulerHandler:
    """Takes the events of the one-minute rule."""

    settings: CoreSettings
    services: Services
    publish: Publish = nowhere
    monotonic: Callable[[], float] = time.monotonic

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Make one pass, whatever else the event says."""
        if event.get("count") is True:
            active = self.services.context.jobs.count_active()
            self.publish([Measure(Metric.ACTIVE_JOBS, active)])
            return {"active_jobs": active}
        begun = self.monotonic()

        def remaining() -> timedelta:
            return timedelta(milliseconds=context.get_remaining_time_in_millis())

        reserve = min(_RESERVE, remaining() / 4)
        if event.get("dry") is True:
            at = from_text(event["at"]) if "at" in event else self.services.context.clock()
            return _told(dry_tick(self.services.context, at, remaining, reserve))
        report = tick(self.services.context, remaining, reserve, context.function_version)
        seconds = self.monotonic() - begun
        summary = _summary(report, seconds)
        log.info("tick ended", extra=summary)
        self.publish(self._measures(report, seconds))
        return summary

    def _measures(self, report: TickReport, seconds: float) -> list[Measure]:
        dispatch, rescue = report.dispatch, report.rescue
        measures = [
            Measure(Metric.DISPATCHED, dispatch.dispatched),
            Measure(Metric.CAUGHT_UP, dispatch.caught_up),
            Measure(Metric.MISSED, dispatch.missed),
            Measure(Metric.RESCUED, rescue.sent + rescue.ended),
            Measure(Metric.LOST, rescue.lost),
            Measure(Metric.INVALID, dispatch.invalid + rescue.invalid),
            Measure(Metric.FAILED, dispatch.failed + rescue.failed + report.failed_shards),
            Measure(Metric.UNFINISHED, not report.finished),
            Measure(Metric.DUE, report.items_read),
            Measure(Metric.TICK_DURATION, round(seconds * 1000, 1)),
        ]
        offset = self.services.guard.offset()
        if offset is not None:
            measures.append(Measure(Metric.CLOCK_OFFSET, round(offset.total_seconds(), 3)))
        for run in rescue.ends:
            measures += measures_of_end(run)
        return measures + [Measure(Metric.LATENESS, round(late, 3)) for late in dispatch.late_seconds]


def _told(report: DryReport) -> dict[str, Any]:
    log.info("dry tick ended", extra={"subjects": len(report.subjects), "finished": report.finished})
    return {
        "dry": FORM,
        "at": to_text(report.at),
        "finished": report.finished,
        "subjects": [
            {"id": one.id, "name": one.name, "seen": one.seen, "decisions": list(one.decisions)}
            for one in report.subjects
        ],
    }


def _summary(report: TickReport, seconds: float) -> dict[str, Any]:
    dispatch, rescue = report.dispatch, report.rescue
    return {
        "dispatched": dispatch.dispatched,
        "caught_up": dispatch.caught_up,
        "missed": dispatch.missed,
        "rescued": rescue.sent + rescue.ended,
        "lost": rescue.lost,
        "invalid": dispatch.invalid + rescue.invalid,
        "failed": dispatch.failed + rescue.failed + report.failed_shards,
        "items_read": report.items_read,
        "finished": report.finished,
        "duration_seconds": round(seconds, 3),
    }
