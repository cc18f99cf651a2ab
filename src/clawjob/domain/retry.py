"""Whether an attempt that ended badly is followed by another, and after how long.

Promise: never more than `max_retry` retries, never a delay above the cap, whatever the numbers.
"""

from datetime import timedelta
from typing import Final

from clawjob.domain.definition import Definition, RetryPolicy
from clawjob.domain.run import Outcome

LONGEST_DELAY: Final = timedelta(days=7)
"""The cap of a policy that names none, and the highest that it may name."""

_USUAL: Final = frozenset(
    {Outcome.FAILED, Outcome.SIGNALLED, Outcome.OUT_OF_MEMORY, Outcome.TIMED_OUT, Outcome.STALLED}
)
"""Retried without `retry_on`. A command that cannot start will not start later either."""
SELECTABLE: Final = (
    Outcome.FAILED,
    Outcome.SIGNALLED,
    Outcome.OUT_OF_MEMORY,
    Outcome.TIMED_OUT,
    Outcome.CANNOT_START,
    Outcome.EMPTY,
)
"""Outcomes that `retry_on` and `fail_on` may name: those that a worker reports today and a policy may decide on."""
_DECIDED_ELSEWHERE: Final = frozenset({Outcome.SUCCEEDED, Outcome.CANCELLED, Outcome.LOST, Outcome.INTERRUPTED})
_EXITED: Final = frozenset({Outcome.FAILED, Outcome.EMPTY})


def next_delay(policy: RetryPolicy, retry: int, chance: float) -> timedelta:
    """Tell how long to wait before a retry.

    The wait is `min(cap, delay * factor ** (retry - 1))`, the capped exponential backoff of "Exponential Backoff And
    Jitter" (Marc Brooker, AWS Architecture Blog, 2015); with a list of delays it is the retry's own, the last one again
    and again. The article spreads the wait from 0 on ("full jitter"), which here would make a promised pause of 5
    minutes a pause of none; ours is spread evenly over `wait * (1 - jitter)` to `min(cap, wait * (1 + jitter))`, so it
    is never above the cap, and waits at the cap are spread too.

    Examples:
        delay 30 s, factor 2, cap 900 s, jitter 0: 30, 60, 120, 240, 480, 900, 900, 900 s.
        delay 300 s, jitter 0.1: 270 s for chance 0, 300 s for 0.5, just under 330 s for nearly 1.

    Args:
        policy: the job's.
        retry: which retry, from 1.
        chance: from 0 to below 1; where in the spread it falls.
    """
    if retry < 1:
        raise ValueError(f"retries count from 1, not {retry}")
    cap = (LONGEST_DELAY if policy.cap is None else policy.cap).total_seconds()
    delay = policy.delays[min(retry, len(policy.delays)) - 1].total_seconds()
    wait = min(cap, delay * _growth(policy.factor, retry - 1)) if delay else 0.0
    low, high = wait * (1 - policy.jitter), min(cap, wait * (1 + policy.jitter))
    return timedelta(seconds=low + chance * (high - low))


def wants_retry(definition: Definition, outcome: str, exit_code: int | None, retries_used: int) -> bool:
    """Tell whether the job's policy gives this end of an attempt another try.

    In this order: no retry left: no. A success, a cancelled attempt, a lost or interrupted worker: no, others decide on
    those. Named by `fail_on`: no. With `retry_on`: only what it names. Without: every failure but `cannot_start`.

    Args:
        definition: the version that ran.
        outcome: how the attempt ended.
        exit_code: of the process, where it exited by itself.
        retries_used: tries that the policy gave so far.
    """
    if retries_used >= definition.max_retry or outcome in _DECIDED_ELSEWHERE:
        return False
    ends: set[int | str] = {str(outcome)}
    if exit_code is not None and outcome in _EXITED:
        ends.add(exit_code)
    policy = definition.retry
    if not ends.isdisjoint(policy.fail_on):
        return False
    if policy.retry_on:
        return not ends.isdisjoint(policy.retry_on)
    return outcome in _USUAL


def _growth(factor: float, steps: int) -> float:
    try:
        # An int would be raised exactly, digit by digit.
        return float(factor) ** steps
    except OverflowError:
        return float("inf")
