"""How a child's end is told: codes, signals, what cannot start, what brought nothing (W-08, W-10, C8)."""

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clawjob.domain.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.children import Runner


@pytest.mark.parametrize(
    ("script", "outcome", "code", "signal"),
    [
        ("exit 0", Outcome.SUCCEEDED, 0, None),
        ("exit 3", Outcome.FAILED, 3, None),
        ("exit 137", Outcome.FAILED, 137, None),
        ("exit 143", Outcome.FAILED, 143, None),
        ("exit 255", Outcome.FAILED, 255, None),
        ("kill -9 $$", Outcome.SIGNALLED, None, "SIGKILL"),
        ("kill -TERM $$", Outcome.SIGNALLED, None, "SIGTERM"),
        ("kill -SEGV $$", Outcome.SIGNALLED, None, "SIGSEGV"),
    ],
)
def test_codes_and_signals_are_told_apart_exactly(
    runner: "Runner", script: str, outcome: Outcome, code: int | None, signal: str | None
) -> None:
    """W-08."""
    end = runner.sh(script)
    assert (end.outcome, end.exit_code, end.signal) == (outcome, code, signal)
    assert bool(end.detail) is (outcome is not Outcome.SUCCEEDED)


def test_exit_256_is_a_success_as_the_kernel_sees_it(runner: "Runner") -> None:
    """W-08."""
    end = runner.python("import os; os._exit(256)")
    assert (end.outcome, end.exit_code) == (Outcome.SUCCEEDED, 0)


def test_sigkill_from_elsewhere_hints_at_memory(runner: "Runner") -> None:
    """W-08, W-17."""
    assert "memory" in runner.sh("kill -9 $$").detail


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/no/such"], "'/no/such' was not found"),
        (["no-such-program-anywhere"], "was not found on PATH"),
        (["/etc/passwd"], "may not be executed"),
        (["/etc"], "may not be executed"),
        (["/etc/passwd/x"], "a part of its path is no folder"),
        (["echo", "a\0b"], "NUL"),
        (["echo", "x" * 200_000], "too long"),
        (["echo", *["x" * 100_000] * 80], "too long"),
        ([], "the command is empty"),
        ([""], "the command is empty"),
        (["./not-there"], "was not found"),
    ],
)
def test_what_cannot_start_has_its_own_outcome_and_a_plain_reason(
    runner: "Runner", argv: list[str], words: str
) -> None:
    """W-10."""
    end = runner.run(*argv)
    assert (end.outcome, end.exit_code, end.signal) == (Outcome.CANNOT_START, None, None)
    assert words in end.detail
    assert runner.sh("exit 0").outcome is Outcome.SUCCEEDED


def test_a_script_without_first_line_is_not_given_to_a_shell(runner: "Runner", root: "Path") -> None:
    """W-10."""
    script = root / "script"
    script.write_text("echo I ran in a shell\n")
    script.chmod(0o755)
    end = runner.run(str(script))
    assert end.outcome is Outcome.CANNOT_START
    assert "#!" in end.detail


def test_a_script_with_a_missing_interpreter_says_so(runner: "Runner", root: "Path") -> None:
    """W-10."""
    script = root / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert "interpreter" in runner.run(str(script)).detail


def test_arguments_reach_the_child_as_they_are(runner: "Runner") -> None:
    odd = ["--date", "", "a b", "$(touch x)", "`x`", "*", "é😀", "-", "\n", '"', "\\", "\udcff"]
    script = "import sys, os; print([os.fsencode(text) for text in sys.argv[1:]])"
    runner.python(script, *odd)
    assert runner.log() == f"{[os.fsencode(text) for text in odd]}\n"


def test_the_program_sees_its_own_name_as_the_job_gave_it(runner: "Runner") -> None:
    runner.run("sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline")
    assert runner.log().startswith("sh -c")


def test_too_few_items_are_empty_and_enough_are_a_success(runner: "Runner") -> None:
    """C8."""
    script = """echo "{\\"items\\": $0, \\"stats\\": {\\"pages\\": 2}}" > "$CLAWJOB_RESULT" """
    end = runner.run("sh", "-c", script, "4", min_items=5)
    assert (end.outcome, end.items, end.outputs) == (Outcome.EMPTY, 4, {"stats": {"pages": 2}})
    assert runner.run("sh", "-c", script, "5", min_items=5).outcome is Outcome.SUCCEEDED


def test_no_result_file_is_empty_where_items_are_expected(runner: "Runner") -> None:
    """C8."""
    end = runner.sh("exit 0", min_items=1)
    assert (end.outcome, end.items) == (Outcome.EMPTY, None)
    assert "no items were reported" in end.detail


def test_an_empty_exit_code_is_empty(runner: "Runner") -> None:
    """C8."""
    assert runner.sh("exit 7", empty_exit_codes=(7,)).outcome is Outcome.EMPTY


def test_a_bad_result_file_is_told_and_the_run_still_counts(runner: "Runner") -> None:
    end = runner.sh('echo "{" > "$CLAWJOB_RESULT"')
    assert end.outcome is Outcome.SUCCEEDED
    assert "the result file was not taken" in end.detail


def test_a_failed_run_has_its_result_too(runner: "Runner") -> None:
    end = runner.sh("""echo '{"items": 3, "values": {"page": 7}}' > "$CLAWJOB_RESULT"; exit 2""")
    assert (end.outcome, end.items, end.outputs) == (Outcome.FAILED, 3, {"values": {"page": 7}})


def test_a_wall_clock_that_jumps_changes_neither_timeout_nor_duration(
    make_runner: "Callable[..., Runner]",
) -> None:
    """W-19."""
    start = datetime(2024, 3, 10, 7, 0, tzinfo=UTC)
    for jump in (timedelta(hours=1), timedelta(hours=-1)):
        readings = iter([start])
        runner = make_runner(f"worker{jump}", clock=lambda readings=readings, jump=jump: next(readings, start + jump))
        end = runner.sh("sleep 0.3", timeout=10)
        assert end.outcome is Outcome.SUCCEEDED
        assert 0.3 <= end.duration_seconds < 5
        assert end.started_at == start
        assert end.ended_at == start + timedelta(seconds=end.duration_seconds)


def test_processor_time_and_memory_are_told(runner: "Runner") -> None:
    end = runner.python("x = b'x' * 50_000_000\nfor _ in range(2_000_000): pass")
    assert end.cpu_seconds > 0.01
    assert end.memory_peak_bytes > 50_000_000


def test_only_a_run_that_failed_has_a_tail(runner: "Runner") -> None:
    assert runner.sh("echo well").log_tail == ""
    assert runner.sh("echo badly; exit 1").log_tail == "badly\n"
