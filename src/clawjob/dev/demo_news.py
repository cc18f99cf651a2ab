"""What changed between two looks at a run, in plain words."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

Run = Mapping[str, Any]
Attempt = Mapping[str, Any]


def news(before: Run | None, after: Run) -> Iterator[str]:
    """Say what happened to a run since the last look, oldest first; `before` is None at the first look."""
    if before is None:
        yield _queued(after)
    seen: dict[int, Attempt] = {} if before is None else {one["number"]: one for one in before["attempts"]}
    for attempt in after["attempts"]:
        old = seen.get(attempt["number"])
        if old is None:
            yield _started(after, attempt)
        if attempt["outcome"] is not None and (old is None or old["outcome"] is None):
            yield _ended(after, attempt)


def lateness(run: Run) -> float | None:
    """Seconds from a run's nominal instant to its first attempt; None when it has not started."""
    if not run["attempts"]:
        return None
    first, nominal = (datetime.fromisoformat(text) for text in (run["attempts"][0]["started_at"], run["scheduled_at"]))
    return max(0.0, (first - nominal).total_seconds())


def in_words(seconds: float) -> str:
    """Write a short time: `14 ms`, `3.2 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _queued(run: Run) -> str:
    if run["kind"] == "manual":
        return "A run is on the queue."
    ahead = (datetime.fromisoformat(run["scheduled_at"]) - datetime.fromisoformat(run["queued_at"])).total_seconds()
    when = f"{run['scheduled_at'][11:19]} UTC"
    return f"Its run of {when} is on the queue" + (f", {ahead:.1f} s ahead." if ahead > 0 else ".")


def _started(run: Run, attempt: Attempt) -> str:
    number, worker = attempt["number"], attempt["worker"]
    earlier = {one["number"]: one for one in run["attempts"]}.get(number - 1)
    if earlier is None:
        late = lateness(run) or 0.0
        return f"{worker} takes it, {in_words(late)} after its instant."
    if earlier["outcome"] == "lost":
        return f"{worker} takes the run over: attempt {number}."
    return f"{worker} starts attempt {number}."


def _ended(run: Run, attempt: Attempt) -> str:
    number = attempt["number"]
    took = in_words(attempt["duration_seconds"] or 0.0)
    match attempt["outcome"]:
        case "succeeded":
            items = "" if attempt["items"] is None else f" with {attempt['items']} items"
            return f"Succeeded{items} after {took}."
        case "lost":
            return f"Attempt {number} is lost: nobody renewed its lease, so it ran out."
        case "timed_out":
            return f"Timed out: its whole process tree was ended, {took} after its start."
        case "failed":
            again = " It is tried again." if _follows(run, number) else " It is not tried again."
            return f"Attempt {number} failed with exit code {attempt['exit_code']}.{again}"
        case outcome:
            return f"Attempt {number} ended: {outcome}. {attempt['detail'] or ''}".rstrip()


def _follows(run: Run, number: int) -> bool:
    return not run["is_final"] or run["attempts"][-1]["number"] > number
