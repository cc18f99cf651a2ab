"""Decisions in plain words: one sentence for every reason, the same on every page, command and answer."""

from datetime import datetime
from zoneinfo import ZoneInfo

from clawjob.domain.job_state import JobDecision
from clawjob.domain.run import Reason, Run


def sentence_of_decision(decision: JobDecision, zone: ZoneInfo) -> str:
    """Say what was last decided about a job.

    Args:
        decision: as stored on the job's state row.
        zone: the job's, for the instants in the sentence.
    """
    at = _when(decision.scheduled_at, zone)
    many = decision.count > 1
    match decision.reason:
        case Reason.CREATED:
            return "The job was created; nothing was due yet."
        case Reason.CHANGED:
            return "The job was changed; nothing was due yet."
        case Reason.DISPATCHED:
            return (
                f"{decision.count} runs up to {at} were put on the queue."
                if many
                else f"The run of {at} was put on the queue."
            )
        case Reason.CAUGHT_UP:
            what = f"{decision.count} runs up to {at} were" if many else f"The run of {at} was"
            return f"{what} put on the queue late, because the scheduler had not been running."
        case Reason.MISSED:
            what = f"{decision.count} instants up to {at} were" if many else f"The instant {at} was"
            return f"{what} missed and not made up, as the job's catch-up policy says."
        case Reason.SCHEDULE_ENDED:
            return "The schedule has no more instants."
        case Reason.NO_SCHEDULE:
            return "The job has no schedule; it runs only when it is triggered."
        case Reason.PAUSED:
            return "The job is paused; it runs again after it is resumed."
        case Reason.INVALID:
            return "The job's record cannot be read; save the job again to heal it."
        case _:
            return f"Decided: {decision.reason.value}."


def sentence_of_run(run: Run, zone: ZoneInfo) -> str:
    """Say why a run is where it is; empty where its state alone says it."""
    if run.reason is None:
        return ""
    if run.reason in _POLICY:
        return _gap(run, zone)
    if run.reason is Reason.RETRY_PLANNED:
        return f"Attempt {run.token} ended badly; the next starts at {_when(run.not_before, zone)}."
    return _OF_RUNS[run.reason].format(
        about=f" ({run.why})" if run.why else "",
        attempts="1 attempt" if run.token == 1 else f"{run.token} attempts",
        losses=run.losses,
    )


_OF_RUNS = {
    Reason.PAUSED: "It did not run: the job was paused at its instant.",
    Reason.DELETED: "It did not go on: the job was deleted.",
    Reason.SUPERSEDED: "It did not run: the schedule was changed, and this instant is none of the new one.",
    Reason.OVERLAP: "It did not run: another run of the job had not ended{about}.",
    Reason.QUEUE_DEADLINE: "It did not run: it waited in the queue longer than the job's queue_deadline.",
    Reason.COMPLETED: "It ended well.",
    Reason.NOT_RETRIED: "It ended badly after {attempts}, and the job's retry rules give this end no further one.",
    Reason.RETRIES_USED_UP: "It ended badly after {attempts}; no retry is left.",
    Reason.CANCEL_REQUESTED: "It was cancelled{about}.",
    Reason.OVERDUE: "It was ended by the scheduler: its worker kept it long past its deadline.",
    Reason.WORKER_LOST: "Its workers vanished {losses} times; it is not tried again.",
    Reason.HANDED_BACK: "Its worker was told to stop and handed it back; another worker takes it.",
}

_POLICY = {
    Reason.CATCH_UP_NONE: "its catch-up policy is none",
    Reason.CATCH_UP_LAST: "its catch-up policy runs only the last one",
    Reason.CATCH_UP_WINDOW: "they lay before its catch-up window",
    Reason.CATCH_UP_MAX: "its catch-up policy allows no more at once",
}


def _gap(run: Run, zone: ZoneInfo) -> str:
    policy = _POLICY[run.reason] if run.reason else ""
    first, last = _when(run.scheduled_at, zone), _when(run.gap_until, zone)
    span = f"The instant {first} was" if run.gap_count == 1 else f"{run.gap_count} instants from {first} to {last} were"
    return f"{span} missed while the scheduler was not running, and not made up: {policy}."


def _when(instant: datetime | None, zone: ZoneInfo) -> str:
    return "" if instant is None else instant.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")
