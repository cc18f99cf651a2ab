"""W-08, W-17, C8: each kind of end is its own outcome."""

import signal

import pytest

from clawjob.domain.run import Outcome
from clawjob.runner.outcome import Cause, Facts, Rules, Verdict, judge, name_signal

MIB = 2**20


def exited(code: int, **more: object) -> Facts:
    return Facts(status=code << 8, **more)  # type: ignore[arg-type]  # the tests name only real fields


def killed(number: int, **more: object) -> Facts:
    return Facts(status=number, **more)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("code", [1, 3, 128, 137, 143, 255])
def test_an_exit_code_is_a_code_and_never_a_signal(code: int) -> None:
    assert judge(exited(code), Rules()) == Verdict(Outcome.FAILED, code, None, f"exit code {code}")


@pytest.mark.parametrize(("number", "name"), [(15, "SIGTERM"), (11, "SIGSEGV"), (6, "SIGABRT")])
def test_a_signal_is_a_signal_and_never_a_code(number: int, name: str) -> None:
    assert judge(killed(number), Rules()) == Verdict(Outcome.SIGNALLED, None, name, f"killed by {name}")


def test_a_core_dump_does_not_change_the_signal() -> None:
    assert judge(killed(11 | 0x80), Rules()).signal == "SIGSEGV"


def test_real_time_signals_have_names_too() -> None:
    assert name_signal(signal.SIGRTMIN + 3) == "SIGRTMIN+3"


def test_sigkill_without_evidence_is_signalled_with_a_hint_at_memory() -> None:
    verdict = judge(killed(9), Rules())
    assert (verdict.outcome, verdict.signal) == (Outcome.SIGNALLED, "SIGKILL")
    assert "memory" in verdict.detail


def test_sigkill_with_the_kernels_count_is_out_of_memory() -> None:
    assert judge(killed(9, killed_for_memory=True), Rules()).outcome is Outcome.OUT_OF_MEMORY


def test_sigkill_at_the_jobs_limit_is_out_of_memory() -> None:
    verdict = judge(killed(9, memory_peak_bytes=99 * MIB), Rules(memory_bytes=100 * MIB))
    assert verdict.outcome is Outcome.OUT_OF_MEMORY
    assert "99 MiB" in verdict.detail
    assert judge(killed(9, memory_peak_bytes=50 * MIB), Rules(memory_bytes=100 * MIB)).outcome is Outcome.SIGNALLED


def test_another_signal_is_not_out_of_memory_even_when_the_kernel_killed_something_meanwhile() -> None:
    assert judge(killed(15, killed_for_memory=True), Rules()).outcome is Outcome.SIGNALLED


def test_an_exit_at_the_memory_limit_is_failed_and_says_it() -> None:
    verdict = judge(exited(1, memory_peak_bytes=100 * MIB), Rules(memory_bytes=100 * MIB))
    assert verdict.outcome is Outcome.FAILED
    assert verdict.detail == "exit code 1; its memory came to 100 MiB, the limit is 100 MiB"


def test_success_codes_are_the_jobs() -> None:
    rules = Rules(success_exit_codes=(0, 4))
    assert judge(exited(4), rules) == Verdict(Outcome.SUCCEEDED, 4, None, "")
    assert judge(exited(0), Rules(success_exit_codes=(4,))).outcome is Outcome.FAILED


def test_an_empty_exit_code_is_empty_even_when_it_is_a_success_code_too() -> None:
    verdict = judge(exited(3), Rules(success_exit_codes=(0, 3), empty_exit_codes=(3,)))
    assert (verdict.outcome, verdict.exit_code) == (Outcome.EMPTY, 3)


@pytest.mark.parametrize(
    ("items", "least", "outcome"),
    [
        (None, 1, Outcome.EMPTY),
        (0, 1, Outcome.EMPTY),
        (4, 5, Outcome.EMPTY),
        (5, 5, Outcome.SUCCEEDED),
        (None, 0, Outcome.SUCCEEDED),
        (None, None, Outcome.SUCCEEDED),
        (0, None, Outcome.SUCCEEDED),
    ],
)
def test_too_few_items_make_a_success_empty(items: int | None, least: int | None, outcome: Outcome) -> None:
    assert judge(exited(0, items=items), Rules(min_items=least)).outcome is outcome


def test_too_few_items_change_no_failure() -> None:
    assert judge(exited(1, items=0), Rules(min_items=5)).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("cause", "outcome"),
    [
        (Cause.TIMED_OUT, Outcome.TIMED_OUT),
        (Cause.CANCELLED, Outcome.CANCELLED),
        (Cause.INTERRUPTED, Outcome.INTERRUPTED),
        (Cause.LEASE_LOST, Outcome.LOST),
        (Cause.OVER_MEMORY, Outcome.OUT_OF_MEMORY),
        (Cause.WARDEN_LOST, Outcome.FAILED),
    ],
)
@pytest.mark.parametrize("status", [None, 0, 15, 9, 256])
def test_what_ended_the_tree_is_the_outcome_whatever_the_child_says(
    cause: Cause, outcome: Outcome, status: int | None
) -> None:
    verdict = judge(Facts(status=status, cause=cause, why="because"), Rules(min_items=3))
    assert (verdict.outcome, verdict.detail) == (outcome, "because")


def test_an_end_that_nobody_saw_is_failed() -> None:
    verdict = judge(Facts(), Rules())
    assert (verdict.outcome, verdict.exit_code, verdict.signal) == (Outcome.FAILED, None, None)


def test_the_processor_time_limit_is_named() -> None:
    verdict = judge(killed(signal.SIGXCPU), Rules(cpu_seconds=5))
    assert verdict.detail == "killed by SIGXCPU: over 5 s of processor time"


def test_what_else_is_odd_stands_in_the_detail_and_the_detail_is_bounded() -> None:
    facts = exited(0, left_behind=2, result_problem="the result file was not taken: it is empty")
    assert judge(facts, Rules()).detail == (
        "the result file was not taken: it is empty; processes left behind and ended: 2"
    )
    assert judge(exited(0, stuck=1, left_behind=1), Rules()).detail == "processes that could not be ended: 1"
    assert len(judge(exited(0, result_problem="x" * 5000), Rules()).detail) == 300
