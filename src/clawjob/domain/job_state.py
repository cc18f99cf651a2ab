"""A job's state row: the little that changes often, kept apart from the immutable definitions."""

from dataclasses import dataclass
from datetime import datetime

from clawjob.domain.run import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """The last thing that the service decided about a job."""

    reason: Reason
    at: datetime
    scheduled_at: datetime | None = None
    """The instant that it speaks of: the last one dispatched, the end of a gap."""
    count: int = 0
    """How many instants it speaks of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Where a job is. `version` names the definition in force and rises with each change by a user."""

    uid: str
    name: str
    version: int
    enabled: bool
    planned_until: datetime
    """All instants up to here are dispatched, recorded as missed, or none of the schedule's."""
    created_at: datetime
    changed_at: datetime
    due_at: datetime | None = None
    """When a tick must look at it: look-ahead before the next due instant; none when nothing will come."""
    active: str | None = None
    """The run that took the overlap slot last; the slot is free when that run is final."""
    decision: JobDecision | None = None
    deleted_at: datetime | None = None
    invalid: str | None = None
    """Why a tick could not read the row or its definition; the next edit heals it."""
