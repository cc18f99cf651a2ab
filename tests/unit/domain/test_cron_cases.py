"""All of tests/cron_cases.json, through the schedule that the scheduler uses."""

import json
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from clawjob.domain.errors import InvalidInputError
from clawjob.domain.schedule import Schedule, ScheduleSpec

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "cron_cases.json").read_text("utf-8"))
FIRING = [case for case in CASES if case["kind"] == "fire"]
REFUSED = [case for case in CASES if case["kind"] != "fire"]


def by_id(case: dict[str, Any]) -> str:
    return str(case["id"])


def schedule_of(case: dict[str, Any]) -> Schedule:
    return Schedule(ScheduleSpec(cron=case["expr"], timezone=case["tz"]), "")


def test_all_cases_are_there() -> None:
    assert len(CASES) == 115
    assert len({case["id"] for case in CASES}) == 115


@pytest.mark.parametrize("case", FIRING, ids=by_id)
def test_a_case_fires_at_exactly_these_instants(case: dict[str, Any]) -> None:
    """CRON-01 to CRON-12, CRON-14, CRON-15, CRON-17, CRON-18, CRON-23."""
    start = datetime.fromisoformat(case["start_utc"])
    expected = [datetime.fromisoformat(text) for text in case["expected"]]
    schedule = schedule_of(case)
    schedule.validate(start)
    assert [found.scheduled_at for found in islice(schedule.after(start), len(expected))] == expected
    assert all(instant > start for instant in expected)


@pytest.mark.parametrize("case", FIRING, ids=by_id)
def test_counting_and_looking_back_agree_with_a_case(case: dict[str, Any]) -> None:
    """CRON-03: every question is answered from the same set of instants."""
    start = datetime.fromisoformat(case["start_utc"])
    expected = [datetime.fromisoformat(text) for text in case["expected"]]
    schedule = schedule_of(case)
    assert schedule.count(start, expected[-1]) == len(expected)
    assert schedule.count(start, expected[-1] - timedelta(seconds=1)) == len(expected) - 1
    for number, instant in enumerate(expected):
        before = schedule.latest(start, instant - timedelta(seconds=1))
        assert (before and before.scheduled_at) == (expected[number - 1] if number else None)
        found = schedule.latest(start, instant)
        assert found == schedule.occurrence_at(instant)
        assert found is not None
        assert found.scheduled_at == instant


@pytest.mark.parametrize("case", REFUSED, ids=by_id)
def test_a_case_is_refused_with_the_field_and_a_remedy(case: dict[str, Any]) -> None:
    """CRON-13, CRON-16, CRON-19, CRON-20, CRON-22."""
    with pytest.raises(InvalidInputError) as caught:
        schedule_of(case).validate(datetime.fromisoformat(case["start_utc"]))
    (problem,) = caught.value.problems
    assert problem.field == ("schedule.timezone" if case["id"].startswith("TZ") else "schedule.cron")
    assert problem.message
    assert problem.remedy
