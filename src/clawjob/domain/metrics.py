"""Every metric of the service, defined once: name, unit, component, meaning.

Handlers and workers publish by it, the stack's dashboard and alarms are made of it, docs/metrics.md is checked with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from clawjob.domain.run import State


class Unit(StrEnum):
    """As CloudWatch spells them."""

    COUNT = "Count"
    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    BYTES = "Bytes"


class Component(StrEnum):
    """Who publishes, or for `runs` of what: the dimension `service`."""

    SCHEDULER = "scheduler"
    RESULTS = "results"
    API = "api"
    WORKER = "worker"
    RUNS = "runs"
    """The ends of runs, published by whoever ends them."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a metric is."""

    name: str
    unit: Unit
    component: Component
    meaning: str
    by_pool: bool = False
    """Whether `pool` is its second dimension."""


def _scheduler(name: str, meaning: str, unit: Unit = Unit.COUNT) -> Definition:
    return Definition(name, unit, Component.SCHEDULER, meaning)


def _results(name: str, meaning: str, unit: Unit = Unit.COUNT, *, by_pool: bool = False) -> Definition:
    return Definition(name, unit, Component.RESULTS, meaning, by_pool)


def _runs(name: str, meaning: str) -> Definition:
    return Definition(name, Unit.COUNT, Component.RUNS, meaning, by_pool=True)


def _api(name: str, meaning: str, unit: Unit = Unit.COUNT) -> Definition:
    return Definition(name, unit, Component.API, meaning)


def _worker(name: str, meaning: str, unit: Unit = Unit.COUNT) -> Definition:
    return Definition(name, unit, Component.WORKER, meaning, by_pool=True)


class Metric(Enum):
    """All metrics. Two dimensions at most, and never a job or a run: each combination costs."""

    ACTIVE_JOBS = _scheduler("ActiveJobs", "jobs with an instant to come, counted once an hour")
    DUE = _scheduler("Due", "jobs and runs that a tick found due")
    DISPATCHED = _scheduler("Dispatched", "runs put on their queues")
    CAUGHT_UP = _scheduler("CaughtUp", "of these, runs whose instant had passed")
    MISSED = _scheduler("Missed", "instants recorded as missed")
    RESCUED = _scheduler("Rescued", "runs sent again or closed by the rescue")
    LOST = _scheduler("Lost", "attempts whose worker was lost")
    INVALID = _scheduler("Invalid", "jobs and runs that could not be read and were put aside")
    FAILED = _scheduler(
        "Failed", "jobs, runs and shards left for a later tick: a service refused, or a newer version wrote them"
    )
    UNFINISHED = _scheduler("Unfinished", "ticks that ended before everything due was seen")
    TICK_DURATION = _scheduler("TickDuration", "of a tick", Unit.MILLISECONDS)
    CLOCK_OFFSET = _scheduler("ClockOffset", "AWS's clock minus ours", Unit.SECONDS)
    LATENESS = _scheduler("Lateness", "of a run: put on its queue after it was due; 0 in time", Unit.SECONDS)

    SETTLED = _results("Settled", "reports that changed a run")
    IGNORED = _results("Ignored", "reports that came again or too late")
    MALFORMED = _results("Malformed", "messages that are no reports")
    RETRIED = _results("Retried", "messages that come again because they could not be settled")
    ATTEMPT_DURATION = _results("AttemptDuration", "of an attempt that was settled", Unit.SECONDS, by_pool=True)

    RUNS_SUCCEEDED = _runs("RunsSucceeded", "runs that ended SUCCEEDED")
    RUNS_FAILED = _runs("RunsFailed", "runs that ended FAILED, TIMED_OUT, LOST or EXPIRED, whoever ended them")
    RUNS_CANCELLED = _runs("RunsCancelled", "runs that ended CANCELLED, but not those cancelled while they waited")

    REQUESTS = _api("Requests", "requests answered")
    REFUSED = _api("Refused", "answers 4xx")
    ERRORS = _api("Errors", "answers 5xx")
    REQUEST_DURATION = _api("RequestDuration", "of a request, in the function", Unit.MILLISECONDS)

    WORKERS = _worker("Workers", "1 a minute from each living worker: its heartbeat")
    SLOTS = _worker("Slots", "runs that a worker can execute at once")
    SLOTS_IN_USE = _worker("SlotsInUse", "runs that a worker executes now")
    MEMORY_LIMIT = _worker("MemoryLimit", "memory that a worker and its runs may use", Unit.BYTES)

    @property
    def definition(self) -> Definition:
        """What it is."""
        return self.value


_ENDS: Final = {
    State.SUCCEEDED: Metric.RUNS_SUCCEEDED,
    State.FAILED: Metric.RUNS_FAILED,
    State.TIMED_OUT: Metric.RUNS_FAILED,
    State.LOST: Metric.RUNS_FAILED,
    State.EXPIRED: Metric.RUNS_FAILED,
    State.CANCELLED: Metric.RUNS_CANCELLED,
}


def counts_of_end(state: State) -> Mapping[Metric, int]:
    """Count a run that came to a state: empty when it has not ended, or did not run by the job's own policy."""
    if state not in _ENDS:
        return {}
    # All of them, so that a rate can be computed of a pool in which everything fails.
    return {metric: int(metric is _ENDS[state]) for metric in _ENDS.values()}
