"""What the ticks to come will decide about a job or a run, told before: by the functions that a tick decides with.

Pure. Two versions of the service that decide alike tell the same lines of the same job.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Final

from clawjob.domain.definition import Definition
from clawjob.domain.ids import gap_id, scheduled_run_id
from clawjob.domain.instants import to_text
from clawjob.domain.job_state import JobState
from clawjob.domain.planning import JobPlan, plan_job, rests
from clawjob.domain.priority import queue_class_of
from clawjob.domain.rescuing import AskToStop, CloseOverdue, Lose, MoveCheck, SendThenMove, decide_rescue
from clawjob.domain.run import Reason, Run
from clawjob.domain.schedule import Schedule
from clawjob.domain.times import Times

FORM: Final = 1
"""Of the lines; those of two forms cannot be compared."""
LEFT_TO_NEWER: Final = "left to a newer version"
"""In place of decisions about what cannot be read because a newer version wrote it."""
_STEP: Final = timedelta(days=30)
_STEPS: Final = 12


class Choice(StrEnum):
    """What a tick does about a job."""

    RUN = "run"
    MISS = "miss"
    """An instant, or several as one gap."""
    REST = "rest"
    END = "end"
    LATER = "later"
    """One far instant as a sample: the calendar of the coming year, with its changes of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One decision about a job."""

    choice: Choice
    run_id: str = ""
    scheduled_at: datetime | None = None
    due_at: datetime | None = None
    """When the run may start; of what is missed, its last instant."""
    count: int = 0
    """Instants that are missed."""
    reason: Reason | None = None
    queue: str = ""
    """Pool and class."""

    @property
    def line(self) -> str:
        """Everything as one short text."""
        parts = (
            self.choice.value,
            self.run_id,
            to_text(self.scheduled_at) if self.scheduled_at and not self.run_id else "",
            f"due {to_text(self.due_at)}" if self.due_at else "",
            f"count {self.count}" if self.count else "",
            self.reason.value if self.reason else "",
            self.queue,
        )
        return " ".join(part for part in parts if part)


def foresee_job(
    state: JobState, definition: Definition, schedule: Schedule | None, now: datetime, times: Times, most: int
) -> list[Foreseen]:
    """Tell the next decisions about a job, and a sample of the year after.

    Args:
        state: where the job is.
        definition: the one in force.
        schedule: its schedule.
        now: from when on; each tick is taken to come when it must look.
        times: look-ahead, tick, and how many instants a pass may plan.
        most: decisions, without those of the sample.
    """
    reason = rests(state, definition)
    if reason is not None or schedule is None:
        return [Foreseen(choice=Choice.REST, reason=reason)]
    near = list(islice(_near(state, definition, schedule, now, times), most))
    return [*near, *_far(state, schedule, now)]


def _near(
    state: JobState, definition: Definition, schedule: Schedule, now: datetime, times: Times
) -> Iterator[Foreseen]:
    planned_until, look_at = state.planned_until, state.due_at or now
    while True:
        plan = plan_job(schedule, definition.catch_up, planned_until, max(look_at, now), times)
        yield from _of_plan(plan, state, definition)
        if plan.gap is not None:
            planned_until = plan.gap.to_at
            continue
        if plan.runs:
            planned_until = plan.runs[-1].occurrence.scheduled_at
        if plan.look_at is None:
            yield Foreseen(choice=Choice.END)
            return
        look_at = plan.look_at


def _of_plan(plan: JobPlan, state: JobState, definition: Definition) -> Iterator[Foreseen]:
    gap = plan.gap
    if gap is not None:
        yield Foreseen(
            choice=Choice.MISS,
            run_id=gap_id(state.uid, gap.from_at),
            scheduled_at=gap.from_at,
            due_at=gap.to_at,
            count=gap.count,
            reason=gap.reason,
        )
    queue = f"{definition.pool}/{queue_class_of(definition.priority).value}"
    for planned in plan.runs:
        instant = planned.occurrence.scheduled_at
        yield Foreseen(
            choice=Choice.RUN if planned.missed is None else Choice.MISS,
            run_id=scheduled_run_id(state.uid, instant),
            scheduled_at=instant,
            due_at=planned.not_before if planned.missed is None else instant,
            count=0 if planned.missed is None else 1,
            reason=planned.missed,
            queue=queue if planned.missed is None else "",
        )


def _far(state: JobState, schedule: Schedule, now: datetime) -> Iterator[Foreseen]:
    for step in range(1, _STEPS + 1):
        found = next(schedule.after(max(state.planned_until, now) + step * _STEP), None)
        if found is None:
            return
        due = schedule.due_at(found.scheduled_at)
        yield Foreseen(choice=Choice.LATER, scheduled_at=found.scheduled_at, due_at=due)


def foresee_run(run: Run, now: datetime, times: Times) -> list[str]:
    """Tell what a tick that looks at an open run does, with an empty queue and with one in which messages wait.

    Args:
        run: as it is now.
        now: from when on.
        times: the checks.
    """
    at = max(now, run.due_at) if run.due_at else now
    return [
        f"queue {name}: {_rescue_line(decide_rescue(run, waiting, at, times))}"
        for name, waiting in (("empty", 0), ("waits", 1))
    ]


def _rescue_line(decision: object) -> str:
    what = type(decision).__name__
    match decision:
        case MoveCheck(after) | CloseOverdue(after):
            return f"{what} {_after(after)}"
        case SendThenMove(after, delay_seconds):
            return f"{what} in {delay_seconds} s {_after(after)}"
        case Lose(after, send):
            return f"{what} {'and send ' if send else ''}{_after(after)}"
        case AskToStop(_, look_at):
            return f"{what} look {to_text(look_at)}"
    return what


def _after(run: Run) -> str:
    look = to_text(run.due_at) if run.due_at else "never"
    return f"{run.state.value} checks {run.checks} losses {run.losses} look {look}"
