from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.domain.definition import Definition, RetryPolicy
from clawjob.domain.retry import LONGEST_DELAY, SELECTABLE, next_delay, wants_retry
from clawjob.domain.run import Outcome


def _policy(*seconds: int, cap: int | None = None, factor: float = 1.0, jitter: float = 0.0) -> RetryPolicy:
    return RetryPolicy(
        delays=tuple(timedelta(seconds=delay) for delay in seconds),
        factor=factor,
        cap=None if cap is None else timedelta(seconds=cap),
        jitter=jitter,
    )


def _waits(policy: RetryPolicy, count: int, chance: float = 0.5) -> list[float]:
    return [next_delay(policy, retry, chance).total_seconds() for retry in range(1, count + 1)]


def _job(max_retry: int = 3, retry_on: tuple[int | str, ...] = (), fail_on: tuple[int | str, ...] = ()) -> Definition:
    return Definition(name="a", command="b", max_retry=max_retry, retry=RetryPolicy(retry_on=retry_on, fail_on=fail_on))


def test_exponential_waits_double_up_to_the_cap() -> None:
    """Q-08."""
    assert _waits(_policy(30, factor=2, cap=900), 8) == [30, 60, 120, 240, 480, 900, 900, 900]


def test_waits_beyond_the_queues_fifteen_minutes_are_given_as_they_are() -> None:
    """Q-07."""
    assert _waits(_policy(600, factor=2), 6) == [600, 1_200, 2_400, 4_800, 9_600, 19_200]


def test_thousands_of_retries_do_not_overflow() -> None:
    """Q-08: 2.0 ** 1024 is no float."""
    assert next_delay(_policy(30, factor=2, cap=900), 2_000, 0.9) == timedelta(seconds=900)
    assert next_delay(_policy(30, factor=10), 10**9, 0.9) == LONGEST_DELAY


def test_a_base_of_nothing_waits_nothing() -> None:
    """Q-08."""
    assert _waits(_policy(0, factor=2, cap=900, jitter=1), 3) == [0, 0, 0]
    assert next_delay(_policy(0, factor=10), 2_000, 0.0) == timedelta(0)
    assert next_delay(_policy(30, cap=0), 1, 0.5) == timedelta(0)


def test_a_list_gives_each_retry_its_own_wait_and_the_last_one_repeats() -> None:
    assert _waits(_policy(60, 300, 600), 5) == [60, 300, 600, 600, 600]


def test_jitter_spreads_the_wait_evenly_both_ways() -> None:
    policy = _policy(300, jitter=0.1)
    assert next_delay(policy, 1, 0.0) == timedelta(seconds=270)
    assert next_delay(policy, 1, 0.5) == timedelta(seconds=300)
    assert next_delay(policy, 1, 0.999_999) < timedelta(seconds=330)


def test_waits_at_the_cap_are_spread_below_it() -> None:
    policy = _policy(30, factor=2, cap=900, jitter=0.1)
    assert next_delay(policy, 8, 0.0) == timedelta(seconds=810)
    assert next_delay(policy, 8, 0.5) == timedelta(seconds=855)


def test_the_default_policy_waits_five_minutes_with_ten_percent_jitter() -> None:
    assert _waits(RetryPolicy(), 3, chance=0.0) == [270, 270, 270]
    assert _waits(RetryPolicy(), 3) == [300, 300, 300]


@given(
    st.integers(0, 604_800),
    st.floats(1, 10),
    st.none() | st.integers(0, 604_800),
    st.floats(0, 1),
    st.integers(1, 5_000),
    st.floats(0, 1, exclude_max=True),
)
def test_no_wait_is_negative_or_above_the_cap(
    base: int, factor: float, cap: int | None, jitter: float, retry: int, chance: float
) -> None:
    policy = _policy(base, factor=factor, cap=cap, jitter=jitter)
    highest = LONGEST_DELAY if cap is None else timedelta(seconds=cap)
    assert timedelta(0) <= next_delay(policy, retry, chance) <= highest


def test_retries_count_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        next_delay(RetryPolicy(), 0, 0.5)


def test_no_retries_means_exactly_one_attempt() -> None:
    """Q-08."""
    assert not wants_retry(_job(max_retry=0), "failed", 1, 0)


@pytest.mark.parametrize("max_retry", [1, 2, 8])
def test_there_are_never_more_attempts_than_retries_and_one(max_retry: int) -> None:
    """Q-08."""
    job = _job(max_retry=max_retry, retry_on=("failed", 1))
    attempts = 1
    while wants_retry(job, Outcome.FAILED, 1, attempts - 1):
        attempts += 1
    assert attempts == max_retry + 1


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("failed", True),
        ("signalled", True),
        ("out_of_memory", True),
        ("timed_out", True),
        ("stalled", True),
        ("cannot_start", False),
        ("empty", False),
        ("succeeded", False),
        ("cancelled", False),
        ("lost", False),
        ("interrupted", False),
        ("something_new", False),
    ],
)
def test_without_rules_every_failure_of_a_started_process_is_retried(outcome: str, expected: bool) -> None:
    assert wants_retry(_job(), outcome, 1 if outcome == "failed" else None, 0) is expected


def test_without_rules_every_exit_code_is_retried() -> None:
    assert all(wants_retry(_job(), "failed", code, 0) for code in range(1, 256))


def test_retry_on_takes_the_place_of_the_usual_outcomes() -> None:
    job = _job(retry_on=(2, "timed_out"))
    assert wants_retry(job, "failed", 2, 0)
    assert wants_retry(job, "timed_out", None, 0)
    assert not wants_retry(job, "failed", 1, 0)
    assert not wants_retry(job, "signalled", None, 0)


def test_an_exit_code_speaks_only_of_a_process_that_ended_by_itself() -> None:
    """A child that answers the request to end with code 2 timed out all the same."""
    assert not wants_retry(_job(retry_on=(2,)), "timed_out", 2, 0)
    assert wants_retry(_job(fail_on=(2,)), "timed_out", 2, 0)
    assert wants_retry(_job(retry_on=(4,)), "empty", 4, 0)


def test_fail_on_wins_over_retry_on() -> None:
    job = _job(retry_on=("failed", 1), fail_on=(1,))
    assert not wants_retry(job, "failed", 1, 0)
    assert wants_retry(job, "failed", 2, 0)
    assert not wants_retry(_job(retry_on=(3,), fail_on=("failed",)), "failed", 3, 0)


def test_empty_and_cannot_start_are_retried_only_when_named() -> None:
    assert wants_retry(_job(retry_on=("empty",)), "empty", 0, 0)
    assert wants_retry(_job(retry_on=("cannot_start",)), "cannot_start", None, 0)
    assert not wants_retry(_job(retry_on=("failed",)), "empty", 0, 0)


@pytest.mark.parametrize("outcome", ["succeeded", "cancelled", "lost", "interrupted"])
def test_what_others_decide_is_never_retried_here(outcome: str) -> None:
    assert not wants_retry(_job(retry_on=(outcome, 0, 1)), outcome, 0, 0)
    assert outcome not in SELECTABLE
