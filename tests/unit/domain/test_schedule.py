"""Schedules: `every`, `at`, window, policy, jitter, what is refused when saved, and the stored form."""

import time
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest

from clawjob.domain.errors import InvalidInputError, UnreadableRecordError
from clawjob.domain.schedule import Missing, Repeated, Schedule, ScheduleSpec

NOW = datetime(2024, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def texts(spec: ScheduleSpec, after: str, count: int = 3) -> list[str]:
    found = islice(Schedule(spec, "job").after(at(after)), count)
    return [f"{occurrence.scheduled_at:%Y-%m-%dT%H:%M:%SZ}" for occurrence in found]


def refused_fields(spec: ScheduleSpec, now: datetime = NOW) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        Schedule(spec, "job").validate(now)
    assert all(problem.message and problem.remedy for problem in caught.value.problems)
    return [problem.field for problem in caught.value.problems]


def test_every_is_counted_from_the_epoch_and_not_from_the_asking() -> None:
    spec = ScheduleSpec(every=timedelta(minutes=7), offset=timedelta(seconds=10))
    first = texts(spec, "2024-01-01T00:00:00Z", 1)
    assert first == texts(spec, "2024-01-01T00:00:01.5Z", 1)
    assert (at(first[0]).timestamp() - 10) % 420 == 0
    assert texts(ScheduleSpec(every=timedelta(seconds=15)), "2024-01-01T00:00:00Z") == [
        "2024-01-01T00:00:15Z",
        "2024-01-01T00:00:30Z",
        "2024-01-01T00:00:45Z",
    ]


def test_an_interval_keeps_its_pace_through_a_clock_change_and_shows_local_dates() -> None:
    """CRON-04."""
    schedule = Schedule(ScheduleSpec(every=HOUR, timezone="Europe/Berlin"), "job")
    found = list(islice(schedule.after(at("2024-10-26T23:30:00Z")), 3))
    assert [occurrence.nominal_local.hour for occurrence in found] == [2, 2, 3]
    assert all(occurrence.moved is None for occurrence in found)


def test_at_fires_once() -> None:
    instant = at("2024-03-01T10:00:00+02:00")
    schedule = Schedule(ScheduleSpec(at=instant, timezone="Europe/Helsinki"), "job")
    schedule.validate(NOW)
    (found,) = schedule.after(NOW)
    assert found.scheduled_at == instant
    assert found.scheduled_at.tzinfo is UTC
    assert found.nominal_local == at("2024-03-01T10:00:00")
    assert list(schedule.after(instant)) == []
    assert schedule.count(NOW, instant) == 1
    assert schedule.latest(NOW, instant) == found
    assert schedule.latest(instant, instant + HOUR) is None
    assert schedule.occurrence_at(instant) == found
    assert schedule.occurrence_at(instant + SECOND) is None


@pytest.mark.parametrize(("seconds", "is_taken"), [(59, True), (60, True), (60.5, False), (61, False), (-5, True)])
def test_at_may_lie_a_minute_in_the_past_but_no_more(seconds: float, is_taken: bool) -> None:
    spec = ScheduleSpec(at=NOW)
    now = NOW + timedelta(seconds=seconds)
    if is_taken:
        Schedule(spec, "job").validate(now)
    else:
        assert refused_fields(spec, now) == ["schedule.at"]


def test_a_gap_is_made_up_for_or_skipped_as_the_job_says() -> None:
    start = "2024-03-09T12:00:00Z"
    shift = ScheduleSpec(cron="30 2 * * *", timezone="America/New_York")
    skip = ScheduleSpec(cron="30 2 * * *", timezone="America/New_York", missing=Missing.SKIP)
    assert texts(shift, start, 2) == ["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"]
    assert texts(skip, start, 2) == ["2024-03-11T06:30:00Z", "2024-03-12T06:30:00Z"]


def test_a_moved_run_keeps_its_civil_time_and_says_why_it_moved() -> None:
    """A run in a gap stands for its nominal date, also where the gap ends on the next day (CR-25)."""
    schedule = Schedule(ScheduleSpec(cron="30 2 * * *", timezone="America/New_York"), "job")
    found = next(schedule.after(at("2024-03-09T12:00:00Z")))
    assert found.nominal_local == at("2024-03-10T02:30:00")
    assert found.moved == "02:30 does not exist on 2024-03-10 in America/New_York; first instant after the gap"
    pyongyang = Schedule(ScheduleSpec(cron="45 23 * * *", timezone="Asia/Pyongyang"), "job")
    found = next(pyongyang.after(at("2018-05-03T20:00:00Z")))
    assert found.nominal_local == at("2018-05-04T23:45:00")
    assert pyongyang.local_time(found.scheduled_at).isoformat() == "2018-05-05T00:00:00+09:00"


def test_several_missed_times_collapse_into_one_run_for_the_first_of_them() -> None:
    """S3, CR-03."""
    schedule = Schedule(ScheduleSpec(cron="10,30 2 * * *", timezone="America/New_York"), "job")
    found = next(schedule.after(at("2024-03-09T12:00:00Z")))
    assert found.nominal_local == at("2024-03-10T02:10:00")
    regular = Schedule(ScheduleSpec(cron="0 2,3 * * *", timezone="America/New_York"), "job")
    found = next(regular.after(at("2024-03-09T12:00:00Z")))
    assert (found.nominal_local, found.moved) == (at("2024-03-10T03:00:00"), None)


@pytest.mark.parametrize(
    ("repeated", "expected"),
    [
        (Repeated.FIRST, ["2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"]),
        (Repeated.SECOND, ["2024-11-03T06:30:00Z", "2024-11-04T06:30:00Z"]),
        (Repeated.BOTH, ["2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z"]),
    ],
)
def test_a_time_that_comes_twice_runs_as_the_job_says(repeated: Repeated, expected: list[str]) -> None:
    spec = ScheduleSpec(cron="30 1 * * *", timezone="America/New_York", repeated=repeated)
    assert texts(spec, "2024-11-02T12:00:00Z", 2) == expected


def test_the_policies_do_not_touch_wildcard_jobs() -> None:
    """S4, S6."""
    for start in ("2024-03-10T04:30:00Z", "2024-11-03T04:30:00Z"):
        answers = {
            tuple(
                texts(
                    ScheduleSpec(
                        cron="*/30 1,2 * * *",
                        timezone="America/New_York",
                        missing=missing,
                        repeated=repeated,
                    ),
                    start,
                    8,
                )
            )
            for missing in Missing
            for repeated in Repeated
        }
        assert len(answers) == 1


def test_a_gap_of_three_hours_is_made_up_for() -> None:
    """S7, Casey 2020-10-04: 00:01 to 03:01."""
    spec = ScheduleSpec(cron="0 2 * * *", timezone="Antarctica/Casey")
    assert texts(spec, "2020-10-03T00:00:00Z", 1) == ["2020-10-03T16:01:00Z"]


@pytest.mark.parametrize("zone", ["Pacific/Apia", "Pacific/Fakaofo"])
def test_a_day_that_a_zone_leaves_out_gets_no_run(zone: str) -> None:
    """S7, CRON-11."""
    schedule = Schedule(ScheduleSpec(cron="0 12 * * *", timezone=zone), "job")
    days = [found.nominal_local.day for found in islice(schedule.after(at("2011-12-28T00:00:00Z")), 5)]
    assert 30 not in days
    assert {29, 31} <= set(days)


def test_a_time_that_only_ever_falls_into_gaps_and_skips_them_is_refused() -> None:
    spec = ScheduleSpec(cron="30 2 8-14 3 */7", timezone="America/New_York", missing=Missing.SKIP)
    started = time.perf_counter()
    assert refused_fields(spec) == ["schedule.cron"]
    assert time.perf_counter() - started < 0.1
    assert list(Schedule(spec, "job").after(NOW)) == []


def test_start_and_end_are_inclusive() -> None:
    spec = ScheduleSpec(cron="0 * * * *", start_at=at("2024-01-01T02:00:00Z"), end_at=at("2024-01-01T04:00:00Z"))
    schedule = Schedule(spec, "job")
    schedule.validate(NOW)
    hours = [found.scheduled_at.hour for found in schedule.after(NOW)]
    assert hours == [2, 3, 4]
    assert schedule.count(NOW, NOW + 24 * HOUR) == 3
    latest = schedule.latest(NOW, NOW + 24 * HOUR)
    assert latest is not None
    assert latest.scheduled_at.hour == 4
    assert schedule.occurrence_at(NOW + HOUR) is None
    assert schedule.occurrence_at(NOW + 5 * HOUR) is None
    half = ScheduleSpec(
        every=SECOND, start_at=NOW + timedelta(milliseconds=500), end_at=NOW + timedelta(milliseconds=2500)
    )
    assert texts(half, "2023-12-31T00:00:00Z", 9) == ["2024-01-01T00:00:01Z", "2024-01-01T00:00:02Z"]


def test_the_instant_that_was_asked_for_is_not_in_the_answer_but_a_moment_before_it_is() -> None:
    """S1."""
    schedule = Schedule(ScheduleSpec(cron="0 * * * *"), "job")
    first = next(schedule.after(NOW)).scheduled_at
    assert first == NOW + HOUR
    assert next(schedule.after(first)).scheduled_at == NOW + 2 * HOUR
    assert next(schedule.after(first - timedelta(microseconds=1))).scheduled_at == first
    assert schedule.occurrence_at(first + timedelta(microseconds=1)) is None
    assert schedule.count(NOW, first - timedelta(microseconds=1)) == 0
    assert schedule.count(first, NOW) == 0
    assert schedule.latest(first, NOW) is None


def test_instants_may_be_given_in_any_zone() -> None:
    schedule = Schedule(ScheduleSpec(cron="0 12 * * *"), "job")
    tokyo = timezone(timedelta(hours=9))
    instant = NOW.replace(hour=12).astimezone(tokyo)
    found = schedule.occurrence_at(instant)
    assert found is not None
    assert found.scheduled_at.tzinfo is UTC
    assert schedule.count(instant - SECOND, instant) == 1


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_a_year_of_minutes_is_counted_and_its_last_found_without_listing_it(zone: str) -> None:
    """SCH-03: 525,600 instants, well under a tenth of a second."""
    schedule = Schedule(ScheduleSpec(cron="* * * * *", timezone=zone), "job")
    until = NOW + timedelta(days=365)
    started = time.perf_counter()
    assert schedule.count(NOW, until) == 525_600
    latest = schedule.latest(NOW, until + SECOND)
    assert latest is not None
    assert latest.scheduled_at == until
    assert time.perf_counter() - started < 0.1


def test_jitter_is_the_same_at_every_asking_and_spreads_jobs_and_instants() -> None:
    jitter = timedelta(seconds=20)
    spec = ScheduleSpec(cron="* * * * *", jitter=jitter)
    schedule = Schedule(spec, "job")
    instants = [found.scheduled_at for found in islice(schedule.after(NOW), 200)]
    delays = [schedule.due_at(instant) - instant for instant in instants]
    assert delays == [Schedule(spec, "job").due_at(instant) - instant for instant in instants]
    assert all(timedelta(0) <= delay <= jitter for delay in delays)
    assert len(set(delays)) > 150
    assert max(delays) > jitter * 0.9
    assert delays != [Schedule(spec, "other").due_at(instant) - instant for instant in instants]
    assert schedule.due_at(at("2024-01-01T00:01:00Z")) == at("2024-01-01T00:01:00.261Z")


def test_without_jitter_a_run_is_due_at_its_nominal_instant() -> None:
    assert Schedule(ScheduleSpec(cron="* * * * *"), "job").due_at(NOW) == NOW


@pytest.mark.parametrize(
    ("spec", "largest"),
    [
        (ScheduleSpec(every=timedelta(seconds=15)), 7),
        (ScheduleSpec(every=timedelta(seconds=2)), 0),
        (ScheduleSpec(cron="* * * * *"), 29),
        (ScheduleSpec(cron="0,10 * * * *"), 299),
        (ScheduleSpec(cron="0,55 3,4 * * *"), 149),
        (ScheduleSpec(cron="0 0 * * *"), 43_199),
        (ScheduleSpec(cron="0 0 * * 1"), 302_399),
        (ScheduleSpec(cron="0 0 1 * *"), 14 * 86_400 - 1),
        (ScheduleSpec(cron="0 23,1 * * 1,3"), 3_600 * 11 - 1 + 3_600 * 0),
        (ScheduleSpec(cron="0 0 * * *", timezone="Europe/Berlin"), 41_399),
        (ScheduleSpec(cron="59 1,3 * * *", timezone="America/New_York"), 1_799),
        (ScheduleSpec(cron="59 0,2 * * *", timezone="America/New_York"), 1_829),
    ],
)
def test_jitter_is_less_than_half_the_shortest_time_between_two_runs(spec: ScheduleSpec, largest: int) -> None:
    def with_jitter(seconds: int) -> ScheduleSpec:
        names = ("cron", "every", "timezone")
        return ScheduleSpec(**{name: getattr(spec, name) for name in names}, jitter=timedelta(seconds=seconds))

    Schedule(with_jitter(largest), "job").validate(NOW)
    assert refused_fields(with_jitter(largest + 1)) == ["schedule.jitter"]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (ScheduleSpec(), ["schedule"]),
        (ScheduleSpec(cron="0 0 * * *", every=HOUR), ["schedule"]),
        (ScheduleSpec(every=HOUR, at=NOW + HOUR), ["schedule"]),
        (ScheduleSpec(every=timedelta(0)), ["schedule.every"]),
        (ScheduleSpec(every=-HOUR), ["schedule.every", "schedule.every"]),
        (ScheduleSpec(every=timedelta(seconds=1.5)), ["schedule.every"]),
        (ScheduleSpec(every=timedelta(days=100 * 365)), ["schedule.every"]),
        (ScheduleSpec(every=HOUR, offset=HOUR), ["schedule.offset"]),
        (ScheduleSpec(every=HOUR, offset=-SECOND), ["schedule.offset"]),
        (ScheduleSpec(cron="0 0 * * *", offset=SECOND), ["schedule.offset"]),
        (ScheduleSpec(cron="0 0 * * *", jitter=-SECOND), ["schedule.jitter"]),
        (ScheduleSpec(at=at("2024-02-01T00:00:00")), ["schedule.at"]),
        (ScheduleSpec(at=NOW + timedelta(seconds=9.5)), ["schedule.at"]),
        (ScheduleSpec(at=at("2099-01-01T00:00:00Z")), ["schedule.at"]),
        (ScheduleSpec(at=at("9999-01-01T00:00:00Z")), ["schedule.at"]),
        (ScheduleSpec(at=NOW + HOUR, end_at=NOW), ["schedule.at"]),
        (ScheduleSpec(every=HOUR, start_at=at("2024-02-01T00:00:00")), ["schedule.start_at"]),
        (ScheduleSpec(every=HOUR, end_at=at("2024-02-01T00:00:00")), ["schedule.end_at"]),
        (ScheduleSpec(every=HOUR, start_at=NOW + HOUR, end_at=NOW), ["schedule.end_at"]),
        (ScheduleSpec(every=HOUR, end_at=NOW), ["schedule.end_at"]),
        (ScheduleSpec(cron="0 0 1 * *", start_at=NOW + HOUR, end_at=NOW + 2 * HOUR), ["schedule.end_at"]),
        (ScheduleSpec(every=HOUR, start_at=at("2060-01-01T00:00:00Z")), ["schedule.start_at"]),
        (ScheduleSpec(every=timedelta(0), timezone="Nowhere"), ["schedule.every", "schedule.timezone"]),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(spec: ScheduleSpec, fields: list[str]) -> None:
    assert refused_fields(spec) == fields


def test_the_ends_of_time_break_nothing() -> None:
    schedule = Schedule(ScheduleSpec(cron="0 0 * * *", timezone="Pacific/Apia", jitter=SECOND), "job")
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert schedule.count(first, last) > 200_000
    assert next(schedule.after(first)).scheduled_at.year == 1900
    latest = schedule.latest(first, last)
    assert latest is not None
    assert latest.scheduled_at.year == 2499
    assert list(schedule.after(latest.scheduled_at)) == []
    assert list(schedule.after(last)) == []
    assert schedule.occurrence_at(first) is None
    assert schedule.occurrence_at(last) is None
    with pytest.raises(InvalidInputError):
        schedule.validate(last)
    schedule.validate(NOW)


FULL = ScheduleSpec(
    every=timedelta(hours=6),
    offset=timedelta(minutes=5),
    timezone="Europe/Berlin",
    missing=Missing.SKIP,
    repeated=Repeated.BOTH,
    start_at=NOW,
    end_at=NOW + HOUR,
    jitter=timedelta(seconds=30),
)


@pytest.mark.parametrize("spec", [FULL, ScheduleSpec(cron="0 2 * * *"), ScheduleSpec(at=NOW), ScheduleSpec()])
def test_the_stored_form_gives_the_same_specification_back(spec: ScheduleSpec) -> None:
    assert ScheduleSpec.from_stored(spec.to_stored()) == spec


def test_the_stored_form_leaves_defaults_out() -> None:
    assert ScheduleSpec(cron="0 2 * * *").to_stored() == {"cron": "0 2 * * *"}
    assert FULL.to_stored() == {
        "every_seconds": 21_600,
        "offset_seconds": 300,
        "jitter_seconds": 30,
        "timezone": "Europe/Berlin",
        "missing": "skip",
        "repeated": "both",
        "start_at": "2024-01-01T00:00:00.000Z",
        "end_at": "2024-01-01T01:00:00.000Z",
    }


@pytest.mark.parametrize(
    "stored",
    [
        {"cron": 5},
        {"cron": None},
        {"cron": "0 2 * * *", "timezone": None},
        {"every_seconds": "60"},
        {"every_seconds": True},
        {"every_seconds": 60.0},
        {"every_seconds": 10**20},
        {"at": "tomorrow"},
        {"at": 1_700_000_000},
        {"cron": "0 2 * * *", "missing": "later"},
        {"cron": "0 2 * * *", "repeated": "shift"},
        {"cron": "0 2 * * *", "color": "red"},
    ],
)
def test_another_stored_form_is_unreadable(stored: dict[str, object]) -> None:
    """CRON-21: the row is named, nothing is guessed."""
    with pytest.raises(UnreadableRecordError, match="schedule"):
        ScheduleSpec.from_stored(stored)


@pytest.mark.parametrize("stored", [{}, {"cron": "*/0 * * * *"}, {"cron": "0 0 * * *", "timezone": "Europe/Budapesst"}])
def test_a_stored_schedule_that_means_nothing_is_refused_when_it_is_made(stored: dict[str, object]) -> None:
    """CRON-21."""
    with pytest.raises(InvalidInputError):
        Schedule(ScheduleSpec.from_stored(stored), "job")
