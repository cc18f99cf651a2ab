"""What the demo must have shown. Each thing that is not as expected is said in one sentence."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clawjob.dev.demo_jobs import BOOKS, BOOKS_IN_THE_SHOP, FLAKY, STUCK

Run = Mapping[str, Any]


def surprises(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """Compare the runs of each job, oldest first, with what must come out."""
    found: list[str] = []
    if len(runs[BOOKS]) == 2:
        first, second = runs[BOOKS]
        found += _differences(first, "SUCCEEDED", ["succeeded"], items=BOOKS_IN_THE_SHOP)
        found += _differences(second, "SUCCEEDED", ["lost", "succeeded"], items=BOOKS_IN_THE_SHOP)
        found += _same_worker(second)
    else:
        found.append(f"{BOOKS} has {len(runs[BOOKS])} runs instead of 2")
    for name, state, outcomes in (
        (FLAKY, "SUCCEEDED", ["failed", "failed", "succeeded"]),
        (STUCK, "TIMED_OUT", ["timed_out"]),
    ):
        if len(runs[name]) == 1:
            found += _differences(runs[name][0], state, outcomes)
        else:
            found.append(f"{name} has {len(runs[name])} runs instead of 1")
    if len(runs[FLAKY]) == 1:
        codes = [attempt["exit_code"] for attempt in runs[FLAKY][0]["attempts"]]
        if codes != [2, 2, 0]:
            found.append(f"{FLAKY} ended with the exit codes {codes} instead of [2, 2, 0]")
    return found


def _differences(run: Run, state: str, outcomes: list[str], items: int | None = None) -> Iterator[str]:
    about = f"the {run['kind']} run of {run['job']}"
    if run["state"] != state:
        yield f"{about} is {run['state']} instead of {state} ({run['explanation']})"
    seen = [attempt["outcome"] for attempt in run["attempts"]]
    if seen != outcomes:
        yield f"the attempts of {about} ended {seen} instead of {outcomes}"
    if items is not None and run["items"] != items:
        yield f"{about} brought {run['items']} items instead of {items}"


def _same_worker(run: Run) -> Iterator[str]:
    workers = [attempt["worker"] for attempt in run["attempts"]]
    if len(set(workers)) < len(workers):
        yield f"the run of {run['job']} was not taken over by another worker: {workers}"
