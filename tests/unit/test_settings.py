"""Settings: what is read, what is refused with the variable's name."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clawjob.domain.errors import InvalidInputError
from clawjob.domain.times import Times
from clawjob.services import clock_of, services_from
from clawjob.settings import ApiSettings, ClockSetting, SchedulerSettings, WorkerSettings, times_text
from support.service import Service

LEAST = {
    "CLAWJOB_TABLE": "clawjob",
    "CLAWJOB_RUN_QUEUES": '{"default": {"high": "https://queue/dh", "low": "https://queue/dl"},'
    ' "big": {"high": "https://queue/bh", "low": "https://queue/bl"}}',
    "CLAWJOB_RESULTS_QUEUE": "https://queue/results",
}


def wrong(**changes: str) -> list[str]:
    """The variables that are refused."""
    with pytest.raises(InvalidInputError) as caught:
        WorkerSettings.from_environment({**LEAST, **changes})
    return [problem.field for problem in caught.value.problems]


def test_a_worker_gets_its_defaults() -> None:
    settings = WorkerSettings.from_environment(LEAST)
    assert settings.table == "clawjob"
    assert settings.pools == {"default", "big"}
    assert (settings.pool, settings.slots, settings.uid_base, settings.log_group) == ("default", 5, None, "")
    assert settings.times == Times()
    assert settings.drain == timedelta(seconds=90)
    assert settings.name
    assert settings.work_dir.is_absolute()


def test_everything_can_be_set() -> None:
    settings = WorkerSettings.from_environment(
        {
            **LEAST,
            "CLAWJOB_POOL": "big",
            "CLAWJOB_SLOTS": "12",
            "CLAWJOB_WORKER_NAME": "worker-1",
            "CLAWJOB_WORK_DIR": "/data/work",
            "CLAWJOB_UID_BASE": "20000",
            "CLAWJOB_MEMORY_RESERVE": "256MiB",
            "CLAWJOB_SLOT_MEMORY": "1073741824",
            "CLAWJOB_DRAIN_SECONDS": "2.5",
            "CLAWJOB_LOG_GROUP": "/clawjob/runs",
            "CLAWJOB_TIMES": '{"tick": 5, "look_ahead": 12, "check": 20, "max_losses": 4, "pace": 2}',
            "CLAWJOB_CLOCK": "1000:2000:60",
        }
    )
    assert (settings.pool, settings.slots, settings.name, settings.uid_base) == ("big", 12, "worker-1", 20000)
    assert settings.work_dir == Path("/data/work")
    assert (settings.memory_reserve, settings.slot_memory) == (256 * 2**20, 2**30)
    assert settings.drain == timedelta(seconds=2.5)
    assert settings.times.tick == timedelta(seconds=5)
    assert (settings.times.max_losses, settings.times.pace) == (4, 2.0)
    assert settings.clock == ClockSetting(1000, 2000, 60)


def test_what_is_missing_or_wrong_is_named_all_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        WorkerSettings.from_environment({"CLAWJOB_SLOTS": "0", "CLAWJOB_TABLE": " "})
    named = {problem.field for problem in caught.value.problems}
    assert named == {"CLAWJOB_TABLE", "CLAWJOB_RUN_QUEUES", "CLAWJOB_RESULTS_QUEUE", "CLAWJOB_SLOTS"}
    assert "CLAWJOB_SLOTS: It is '0'. Set it to a whole number from 1 to 100." in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "values"),
    [
        (
            "CLAWJOB_RUN_QUEUES",
            (
                "{",
                "[]",
                "{}",
                '{"Big": {"high": "x", "low": "y"}}',
                '{"default": "https://queue"}',
                '{"default": {"high": "x"}}',
                '{"default": {"high": "x", "low": ""}}',
                '{"default": {"high": "x", "low": "y", "mid": "z"}}',
                "[" * 100_000,
            ),
        ),
        ("CLAWJOB_SLOTS", ("0", "101", "five", "5.0", "-1", "\u0665", "9" * 5000)),
        ("CLAWJOB_UID_BASE", ("0", "root", "-1")),
        ("CLAWJOB_WORK_DIR", ("relative", "a/b")),
        ("CLAWJOB_WORKER_NAME", ("a b", "x" * 101, "é")),
        ("CLAWJOB_MEMORY_RESERVE", ("1.5GiB", "-1", "256MB", "lots")),
        ("CLAWJOB_DRAIN_SECONDS", ("-1", "nan", "inf", "1e9", "soon")),
        ("CLAWJOB_CLOCK", ("1:2", "1:2:0", "1:2:-1", "a:b:c", "1:2:nan", "1:2:3:4")),
        ("CLAWJOB_TIMES", ("{", "[]", "5")),
        ("CLAWJOB_POOL", ("other",)),
    ],
)
def test_values_that_cannot_be_used_are_refused_by_their_variable(variable: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert wrong(**{variable: value}) == [variable], value


@pytest.mark.parametrize(
    ("times", "field"),
    [
        ({"tik": 5}, "CLAWJOB_TIMES.tik"),
        ({"tick": "5"}, "CLAWJOB_TIMES.tick"),
        ({"tick": True}, "CLAWJOB_TIMES.tick"),
        ({"keep": 31}, "CLAWJOB_TIMES.keep"),
        ({"look_ahead": 100}, "CLAWJOB_TIMES.look_ahead"),
    ],
)
def test_times_that_could_lose_runs_are_refused(times: dict[str, object], field: str) -> None:
    assert wrong(CLAWJOB_TIMES=json.dumps(times)) == [field]


def test_not_a_number_is_no_time() -> None:
    assert wrong(CLAWJOB_TIMES='{"tick": NaN}') == ["CLAWJOB_TIMES.tick"]
    assert wrong(CLAWJOB_TIMES='{"tick": 1e300}') == ["CLAWJOB_TIMES"]


def test_times_are_written_so_that_they_are_read_back() -> None:
    times = Times(tick=timedelta(seconds=5), keep=timedelta(seconds=2.5), max_losses=7, pace=60.0)
    environment = {**LEAST, "CLAWJOB_TIMES": times_text(times)}
    assert SchedulerSettings.from_environment(environment).times == times
    assert times_text(Times()) == ""


def test_functions_do_without_the_results_queue() -> None:
    least = {name: value for name, value in LEAST.items() if name != "CLAWJOB_RESULTS_QUEUE"}
    assert SchedulerSettings.from_environment(least).results_queue == ""
    assert ApiSettings.from_environment({**least, "CLAWJOB_LOG_GROUP": "/x"}).log_group == "/x"
    assert ApiSettings.from_environment({**least, "CLAWJOB_DEAD_TICKS": "https://q/t"}).dead_ticks == "https://q/t"


def test_a_moved_clock_runs_from_its_anchor() -> None:
    setting = ClockSetting(1000, 5000, 60)
    assert setting.at(1001) == 5060
    assert clock_of(ClockSetting(0, 86_400, 1))() > datetime.now(UTC) + timedelta(hours=23)
    assert abs(clock_of(ClockSetting())() - datetime.now(UTC)) < timedelta(seconds=5)


def test_services_are_wired_to_the_table_with_a_guarded_clock(service: Service) -> None:
    settings = SchedulerSettings(table="clawjob-test", run_queues=service.urls.run)
    made = services_from(settings)
    assert made.guard.offset() is None
    assert made.context.jobs.last_tick() == {}
    assert made.guard.offset() is not None
    first, second = made.context.new_uid(), made.context.new_uid()
    assert first != second
    assert len(first) == 12
    assert 0 <= made.context.chance() < 1
