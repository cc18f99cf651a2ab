from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.authority import ClockGuard
from support.clock import START, ManualClock
from support.service import make_clients


@pytest.mark.parametrize("behind", [-90.0, 0.0, 0.9, 90.0])
def test_a_wrong_clock_is_corrected_by_the_services_own(aws: Any, clock: ManualClock, behind: float) -> None:
    """SCH-12: the emulator answers with the date of its clock."""
    dynamodb, _, _ = make_clients()
    guard = ClockGuard(lambda: clock() - timedelta(seconds=behind))
    guard.watch(dynamodb)
    assert not guard.measured.is_set()
    for _ in range(25):
        dynamodb.list_tables()
        clock.advance(timedelta(seconds=0.37))
    assert guard.measured.is_set()
    offset = guard.offset()
    assert offset is not None
    assert abs(offset.total_seconds() - behind) < 0.5
    error = abs((guard.now() - clock()).total_seconds())
    assert error < (0.5 if abs(behind) > 2 else 1.0)


def test_before_any_answer_nothing_is_corrected(clock: ManualClock) -> None:
    guard = ClockGuard(clock)
    assert guard.offset() is None
    assert guard.now() == START


@pytest.mark.parametrize("date", [None, "", "yesterday", "Tue, 99 Foo 2026"])
def test_an_answer_without_a_readable_date_changes_nothing(clock: ManualClock, date: str | None) -> None:
    guard = ClockGuard(clock)
    guard._created()
    guard._received({"headers": {"Date": date}})
    guard._received(None)
    assert not guard.measured.is_set()
