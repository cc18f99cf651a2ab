"""Schedules near clock changes against a slow, plain reading of the rules, minute by minute with `zoneinfo`."""

import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawjob.domain.schedule import Missing, Occurrence, Repeated, Schedule, ScheduleSpec

MINUTE = timedelta(minutes=1)

CHANGES = {
    "America/New_York": ["2024-03-10T07:00", "2024-11-03T06:00"],
    "Europe/Dublin": ["2024-03-31T01:00", "2024-10-27T01:00"],
    "Australia/Lord_Howe": ["2024-04-06T15:00", "2024-10-05T15:30"],
    "Antarctica/Troll": ["2024-03-31T01:00", "2024-10-27T01:00"],
    "Antarctica/Casey": ["2020-10-03T16:01", "2021-03-13T13:00"],
    "Antarctica/Vostok": ["1994-01-31T17:00", "1994-11-01T00:00", "2023-12-17T19:00"],
    "Pacific/Apia": ["2011-12-30T10:00", "2012-03-31T14:00"],
    "Pacific/Kwajalein": ["1993-08-21T12:00"],
    "America/Sao_Paulo": ["2018-11-04T03:00", "2019-02-17T02:00"],
    "Africa/Casablanca": ["2024-03-10T02:00", "2024-04-14T02:00"],
    "America/St_Johns": ["2010-03-14T03:31", "2010-11-07T02:31"],
    "Asia/Pyongyang": ["2018-05-04T15:00"],
    "America/Havana": ["2024-03-10T05:00", "2024-11-03T05:00"],
    "Pacific/Chatham": ["2024-04-06T14:00", "2024-09-28T14:00"],
    "Europe/Volgograd": ["2020-12-26T23:00"],
    "UTC": ["2024-03-31T01:00"],
}


@lru_cache
def standard_zone(name: str) -> ZoneInfo:
    data = pkgutil.get_data("tzdata", f"zoneinfo/{name}")
    assert data is not None
    return ZoneInfo.from_file(BytesIO(data), key=name)


@dataclass(frozen=True)
class Job:
    """A job as the test knows it: texts of the fields and the numbers that they mean."""

    minute: tuple[str, frozenset[int]]
    hour: tuple[str, frozenset[int]]
    day: tuple[str, frozenset[int]]
    zone: str
    missing: Missing
    repeated: Repeated

    @property
    def schedule(self) -> Schedule:
        text = f"{self.minute[0]} {self.hour[0]} {self.day[0]} * *"
        return Schedule(
            ScheduleSpec(cron=text, timezone=self.zone, missing=self.missing, repeated=self.repeated), "job"
        )

    def names(self, wall: datetime) -> bool:
        return wall.minute in self.minute[1] and wall.hour in self.hour[1] and wall.day in self.day[1]

    def plain_occurrences(self, start: datetime, end: datetime) -> list[tuple[datetime, datetime, bool]]:
        """Instant, civil time, and whether it was moved, for all minutes after `start` up to `end`."""
        is_wildcard = self.minute[0].startswith("*") or self.hour[0].startswith("*")
        zone = standard_zone(self.zone)
        found = []
        instant, before = start, start.astimezone(zone).replace(tzinfo=None)
        while instant < end:
            instant += MINUTE
            local = instant.astimezone(zone)
            wall = local.replace(tzinfo=None)
            jump = wall - before - MINUTE
            if self.names(wall) and (is_wildcard or self.is_wanted_pass(local)):
                found.append((instant, wall, False))
            elif not is_wildcard and timedelta(0) < jump <= timedelta(hours=3) and self.missing is Missing.SHIFT:
                passed = [before + MINUTE * n for n in range(1, jump // MINUTE + 1)]
                named = [missed for missed in passed if self.names(missed)]
                found += [(instant, named[0], True)] if named else []
            before = wall
        return found

    def is_wanted_pass(self, local: datetime) -> bool:
        is_repeated = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
        if self.repeated is Repeated.BOTH or not is_repeated:
            return True
        return local.fold == (1 if self.repeated is Repeated.SECOND else 0)


def field(low: int, high: int, *common: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    everything = frozenset(range(low, high + 1))
    values = st.frozensets(st.one_of(st.sampled_from(common), st.integers(low, high)), min_size=1, max_size=4)
    return st.one_of(
        values.map(lambda chosen: (",".join(map(str, sorted(chosen))), chosen)),
        st.integers(2, 20).map(lambda step: (f"*/{min(step, high)}", frozenset(range(low, high + 1, min(step, high))))),
        st.just((f"{low}-{high}", everything)),
        st.just(("*", everything)),
    )


zones = st.sampled_from(sorted(CHANGES))
jobs = st.builds(
    Job,
    minute=field(0, 59, 0, 15, 30, 45),
    hour=field(0, 23, 0, 1, 2, 3, 23),
    day=st.one_of(st.just(("*", frozenset(range(1, 32)))), field(1, 31, 3, 10, 27, 31)),
    zone=zones,
    missing=st.sampled_from(Missing),
    repeated=st.sampled_from(Repeated),
)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Job, datetime, datetime]:
    job = draw(jobs)
    change = datetime.fromisoformat(draw(st.sampled_from(CHANGES[job.zone]))).replace(tzinfo=UTC)
    start = change - MINUTE * draw(st.integers(0, 2000))
    return job, start, start + MINUTE * draw(st.integers(1, 4000))


def between(schedule: Schedule, start: datetime, end: datetime) -> Iterator[Occurrence]:
    for occurrence in schedule.after(start):
        if occurrence.scheduled_at > end:
            return
        yield occurrence


@settings(max_examples=150, deadline=None)
@given(windows())
def test_a_schedule_has_exactly_the_occurrences_that_the_rules_give(found: tuple[Job, datetime, datetime]) -> None:
    """S1 to S7, CRON-01 to CRON-11."""
    job, start, end = found
    ours = [
        (occurrence.scheduled_at, occurrence.nominal_local, occurrence.moved is not None)
        for occurrence in between(job.schedule, start, end)
    ]
    assert ours == job.plain_occurrences(start, end)


@settings(max_examples=80, deadline=None)
@given(windows(), st.data())
def test_all_questions_to_a_schedule_are_answered_from_the_same_set(
    found: tuple[Job, datetime, datetime], data: st.DataObject
) -> None:
    """SCH-03: jumping finds what listing finds."""
    job, start, end = found
    schedule = job.schedule
    all_found = list(between(schedule, start, end))
    instants = [occurrence.scheduled_at for occurrence in all_found]
    assert instants == sorted(set(instants))
    assert all(start < instant <= end for instant in instants)
    assert all(schedule.occurrence_at(occurrence.scheduled_at) == occurrence for occurrence in all_found)
    seconds = (end - start) // timedelta(seconds=1)
    for _ in range(5):
        low = start + timedelta(seconds=data.draw(st.integers(0, seconds)))
        high = low + timedelta(seconds=data.draw(st.integers(-100, seconds)))
        high = min(high, end)
        part = [occurrence for occurrence in all_found if low < occurrence.scheduled_at <= high]
        assert schedule.count(low, high) == len(part)
        assert schedule.latest(low, high) == (part[-1] if part else None)
        assert (schedule.occurrence_at(high) is not None) == (high in instants) or high <= start
        assert list(between(schedule, low, high)) == part
        assert schedule.count(start, low) + schedule.count(low, end) == len(all_found)


@settings(max_examples=60, deadline=None)
@given(
    job=jobs,
    seconds=st.integers(0, 4_000_000_000),
    days=st.integers(1, 2000),
    every=st.one_of(st.none(), st.integers(3600, 10_000_000)),
    windowed=st.booleans(),
)
def test_counting_and_the_latest_agree_with_listing_over_years(
    job: Job, seconds: int, days: int, every: int | None, windowed: bool
) -> None:
    start = datetime.fromtimestamp(seconds, UTC)
    end = start + timedelta(days=days)
    spec = job.schedule.spec
    if every is not None:
        spec = ScheduleSpec(every=timedelta(seconds=every), offset=timedelta(seconds=every // 3), timezone=job.zone)
    if windowed:
        spec = ScheduleSpec(
            **{name: getattr(spec, name) for name in ("cron", "every", "offset", "timezone", "missing", "repeated")},
            start_at=start + timedelta(days=days / 4),
            end_at=end - timedelta(days=days / 4),
        )
    schedule = Schedule(spec, "job")
    first_thousand = list(islice(between(schedule, start, end), 1000))
    if len(first_thousand) == 1000:
        end = first_thousand[-1].scheduled_at
    assert schedule.count(start, end) == len(first_thousand)
    assert schedule.latest(start, end) == (first_thousand[-1] if first_thousand else None)
    instants = [occurrence.scheduled_at for occurrence in first_thousand]
    assert instants == sorted(set(instants))


def test_each_occurrence_before_the_next_is_found_by_looking_back_over_years() -> None:
    for zone in CHANGES:
        schedule = Schedule(ScheduleSpec(cron="30 0,1,2,23 * * 0,6", timezone=zone), "job")
        start = datetime(2010, 6, 1, tzinfo=UTC)
        listed = list(between(schedule, start, datetime(2013, 1, 1, tzinfo=UTC)))
        back = []
        until = datetime(2013, 1, 1, tzinfo=UTC)
        while found := schedule.latest(start, until):
            back.append(found)
            until = found.scheduled_at - timedelta(seconds=1)
        assert back[::-1] == listed


PROGRAM = """
from datetime import datetime
from itertools import islice
from clawjob.domain.schedule import Schedule, ScheduleSpec
for cron, zone in [("30 1 * * *", "UTC"), ("30 2 * * *", "Europe/Berlin"), ("H * * * *", "Australia/Sydney")]:
    schedule = Schedule(ScheduleSpec(cron=cron, timezone=zone), "job")
    for found in islice(schedule.after(datetime.fromisoformat("2022-10-29T12:00:00Z")), 5):
        print(found, schedule.due_at(found.scheduled_at), schedule.local_time(found.scheduled_at))
"""


@pytest.fixture(scope="module")
def in_utc() -> str:
    return run_under("UTC")


def run_under(process_zone: str) -> str:
    environment = {**os.environ, "TZ": process_zone, "PYTHONTZPATH": "", "PYTHONHASHSEED": str(len(process_zone))}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("process_zone", ["Europe/London", "Australia/Sydney"])
def test_the_zone_of_the_process_changes_nothing(process_zone: str, in_utc: str) -> None:
    """CRON-24, CR-59, CRON-20."""
    assert "2022, 10, 30, 1, 30" in in_utc
    assert run_under(process_zone) == in_utc
