"""One attempt as the worker's loop hands it over, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clawjob.domain.definition import Resources
from clawjob.domain.run import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One attempt to execute."""

    argv: list[str]
    env: Mapping[str, str]
    run_id: str
    attempt: int
    job_name: str
    scheduled_at: datetime
    timeout: timedelta
    grace: timedelta
    resources: Resources
    success_exit_codes: tuple[int, ...] = (0,)
    empty_exit_codes: tuple[int, ...] = ()
    min_items: int | None = None
    slot: int = 0
    uid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended."""

    outcome: Outcome
    started_at: datetime
    ended_at: datetime
    duration_seconds: float
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""
    items: int | None = None
    outputs: dict[str, object] = field(default_factory=dict)
    log_tail: str = ""
    log_bytes: int = 0
    log_dropped_bytes: int = 0
    cpu_seconds: float = 0.0
    memory_peak_bytes: int = 0
    lease_lost: bool = False
    """The run belongs to another worker now: nothing may be reported."""
