"""Zones: only exact names, data of the tzdata package, and the same offsets as the standard library's."""

import itertools
import pkgutil
from datetime import UTC, datetime, timedelta
from io import BytesIO
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawjob.domain.errors import InvalidInputError
from clawjob.domain.schedule import Schedule, ScheduleSpec
from clawjob.domain.zone import FAR_FUTURE, FAR_PAST, Zone, find_zone, zone_names

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def standard_zone(name: str) -> ZoneInfo:
    data = pkgutil.get_data("tzdata", f"zoneinfo/{name}")
    assert data is not None
    return ZoneInfo.from_file(BytesIO(data), key=name)


def standard_offset(zone: ZoneInfo, instant: int) -> int:
    offset = (EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def changes_of(zone: Zone, start: int, end: int) -> list[int]:
    changes = []
    change = zone.segment_at(start).end
    while change < end:
        changes.append(change)
        change = zone.segment_at(change).end
    return changes


@pytest.mark.parametrize(
    "name",
    [
        "America",
        "localtime",
        "Factory",
        "europe/berlin",
        "EUROPE/BERLIN",
        " Europe/Berlin",
        "Europe/Berlin ",
        "Europe/Berlin\n",
        "Europe/Berlin\x00",
        "/etc/localtime",
        "../../etc/passwd",
        "..",
        ".",
        "/",
        "",
        "\x00",
        "A" * 300,
        "UTC+8",
        "+08:00",
        "PST",
        "Europe/Budapesst",
        "Europe\\Berlin",
        "zones",
        "__init__.py",
        "tzdata.zi",
        "zone.tab",
        "posixrules",
        "\ud800",
        "\u0415urope/Berlin",
    ],
)
def test_what_is_no_exact_zone_name_is_refused_by_its_field(name: str) -> None:
    """CRON-22, TZ-01 to TZ-13."""
    with pytest.raises(InvalidInputError) as caught:
        Schedule(ScheduleSpec(cron="0 0 * * *", timezone=name), "job")
    (problem,) = caught.value.problems
    assert problem.field == "schedule.timezone"
    assert "Europe/Berlin" in problem.remedy
    assert str(problem).isascii()
    assert str(problem).isprintable()
    assert len(str(problem)) < 250


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Budapesst", "Europe/Budapest"),
        ("europe/berlin", "Europe/Berlin"),
        ("UTC+8", "Etc/GMT-8"),
        ("-03:00", "Etc/GMT+3"),
        ("New York", None),
    ],
)
def test_a_refusal_offers_the_nearest_name(name: str, near: str | None) -> None:
    with pytest.raises(InvalidInputError) as caught:
        find_zone(name)
    remedy = caught.value.problems[0].remedy
    assert (f"did you mean {near}?" in remedy) if near else ("did you mean" not in remedy)


def test_two_wrong_fields_are_both_named() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Schedule(ScheduleSpec(cron="61 * * * *", timezone="PST"), "job")
    assert {problem.field for problem in caught.value.problems} == {"schedule.cron", "schedule.timezone"}


@pytest.mark.parametrize(("alias", "name"), [("US/Pacific", "America/Los_Angeles"), ("Europe/Kiev", "Europe/Kyiv")])
def test_a_legacy_alias_is_the_zone_that_it_stands_for(alias: str, name: str) -> None:
    """CRON-22, CR-34, CR-120."""
    instants = range(1_700_000_000, 1_800_000_000, 1_000_000)
    assert [find_zone(alias).offset_at(n) for n in instants] == [find_zone(name).offset_at(n) for n in instants]


@pytest.mark.parametrize(
    ("name", "text", "start", "expected"),
    [
        ("America/Asuncion", "0 12 * * *", "2025-04-01T00:00:00Z", "2025-04-01T15:00:00Z"),
        ("America/Mexico_City", "0 9 * * *", "2023-06-01T00:00:00Z", "2023-06-01T15:00:00Z"),
    ],
)
def test_the_zone_data_is_not_stale(name: str, text: str, start: str, expected: str) -> None:
    """CRON-23: Paraguay's change of 2024 and Mexico's of 2022 are known; if not, renew the tzdata package."""
    schedule = Schedule(ScheduleSpec(cron=text, timezone=name), "job")
    found = next(schedule.after(datetime.fromisoformat(start)))
    assert found.scheduled_at == datetime.fromisoformat(expected)


@pytest.mark.parametrize("start", [FAR_PAST, 4_000_000_000])
def test_every_zone_has_the_standard_librarys_offset_on_both_sides_of_every_change(start: int) -> None:
    end = start + 200 * 365 * 86_400
    checked = 0
    for name in sorted(zone_names()):
        zone, standard = find_zone(name), standard_zone(name)
        for change in changes_of(zone, start, end)[:: 3 if start == FAR_PAST else 15]:
            for instant in (change - 1, change):
                assert zone.offset_at(instant) == standard_offset(standard, instant), (name, instant)
            checked += 1
    assert checked > 5_000


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(zone_names())), st.integers(FAR_PAST, FAR_FUTURE - 1))
def test_any_zone_has_the_standard_librarys_offset_at_any_instant(name: str, instant: int) -> None:
    zone = find_zone(name)
    assert zone.offset_at(instant) == standard_offset(standard_zone(name), instant)
    segment = zone.segment_at(instant)
    assert segment.start <= instant < segment.end


def test_no_zone_changes_twice_within_the_time_that_the_search_takes_for_granted() -> None:
    """The search for instants looks at neighbouring changes only; this is the fact that it rests on."""
    for name in zone_names():
        zone = find_zone(name)
        changes = changes_of(zone, FAR_PAST, 4_200_000_000)
        sizes = [abs(segment.offset - segment.offset_before) for segment in map(zone.segment_at, changes)]
        assert max(sizes, default=0) <= 24 * 3600
        assert all(b - a > 3 * 86_400 for a, b in itertools.pairwise(changes)), name


def test_asking_far_ahead_first_does_not_change_what_is_said_of_today() -> None:
    data = pkgutil.get_data("tzdata", "zoneinfo/Europe/Berlin")
    assert data is not None
    near_first, far_first = Zone("a", data), Zone("b", data)
    far_first.offset_at(FAR_FUTURE - 1)
    instants = range(0, 5_000_000_000, 7_654_321)
    answers = [near_first.segment_at(instant) for instant in instants]
    assert answers == [far_first.segment_at(instant) for instant in instants]
