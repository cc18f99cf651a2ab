"""Reading cron expressions: what each form means and how each wrong one is refused (CRON-13 to CRON-20)."""

import time
from datetime import UTC, datetime
from itertools import islice, pairwise

import pytest

from clawjob.domain.cron import Cron, parse
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.schedule import Schedule, ScheduleSpec


def numbers(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def refusal(text: str, job_name: str = "") -> str:
    with pytest.raises(InvalidInputError) as caught:
        parse(text, job_name)
    (problem,) = caught.value.problems
    assert problem.field == "schedule.cron"
    assert problem.message
    assert problem.remedy
    return str(problem)


def fire_times(text: str, after: str, count: int, timezone: str = "UTC") -> list[str]:
    schedule = Schedule(ScheduleSpec(cron=text, timezone=timezone), "job")
    found = islice(schedule.after(datetime.fromisoformat(after)), count)
    return [f"{occurrence.scheduled_at:%Y-%m-%dT%H:%MZ}" for occurrence in found]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("5-5", [5]),
        ("5-5/7", [5]),
        ("59/15", [59]),
        ("5/15", [5, 20, 35, 50]),
        ("55-5/5", [0, 5, 55]),
        ("57-4/3", [0, 3, 57]),
        ("*/20,7", [0, 7, 20, 40]),
        ("*/60", [0]),
        ("00,09", [0, 9]),
    ],
)
def test_a_minute_field_means_these_minutes(field: str, expected: list[int]) -> None:
    """CRON-17, CRON-18, S9; stepped ranges go on counting over the wrap."""
    assert list(parse(f"{field} * * * *").minutes) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("7", [0]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("7-2", [0, 1, 2]),
        ("5-7", [0, 5, 6]),
        ("sat-Tue", [0, 1, 2, 6]),
        ("FRI-SUN/2", [0, 5]),
        ("6-2/2", [1, 6]),
        ("7/3", [0, 3, 6]),
        ("1-1", [1]),
    ],
)
def test_a_weekday_field_means_these_days_with_0_and_7_as_sunday(field: str, expected: list[int]) -> None:
    """S9, CRON-17, CRON-18."""
    assert numbers(parse(f"0 0 * * {field}").weekdays) == expected


def test_month_names_ranges_and_wraps_are_read() -> None:
    assert numbers(parse("0 0 1 nov-FEB *").months) == [1, 2, 11, 12]
    assert numbers(parse("0 0 1 JAN-JAN *").months) == [1]
    assert numbers(parse("0 0 1 apr-jan/3 *").months) == [1, 4, 7, 10]


@pytest.mark.parametrize(
    ("alias", "text"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        (" @hourly\t", "0 * * * *"),
    ],
)
def test_an_alias_means_its_five_fields_whatever_the_job_is_called(alias: str, text: str) -> None:
    """CRON-20: never hashed."""

    def meaning(cron: Cron) -> list[object]:
        return [getattr(cron, name) for name in Cron.__slots__ if name != "text"]

    assert meaning(parse(alias, "some job")) == meaning(parse(text))


def test_blanks_and_tabs_around_and_between_fields_do_not_matter() -> None:
    assert parse("  0\t2  * * *  ").hours == (2,)


@pytest.mark.parametrize(
    ("text", "is_wildcard"),
    [
        ("* * * * *", True),
        ("*/20 2 * * *", True),
        ("0 */2 * * *", True),
        ("*,5 2 * * *", True),
        ("0 0-23 * * *", False),
        ("0-59 2 * * *", False),
        ("5,* 2 * * *", False),
        ("H/15 2 * * *", False),
        ("0 2 * * *", False),
        ("@hourly", True),
        ("@daily", False),
    ],
)
def test_the_text_of_minute_and_hour_decides_whether_a_job_is_a_wildcard(text: str, is_wildcard: bool) -> None:
    """S2."""
    assert parse(text, "job").is_wildcard is is_wildcard


def test_both_day_fields_restricted_means_either_and_a_star_in_one_means_both() -> None:
    """S8, CRON-15."""
    start = "2024-06-01T12:00:00Z"
    assert fire_times("0 0 15 * 1", start, 3) == [f"2024-06-{day:02}T00:00Z" for day in (3, 10, 15)]
    assert fire_times("0 0 15 * */3", start, 2) == ["2024-06-15T00:00Z", "2024-09-15T00:00Z"]
    assert fire_times("0 0 */2 * 1", start, 2) == ["2024-06-03T00:00Z", "2024-06-17T00:00Z"]
    assert fire_times("0 0 ? * MON", start, 2) == ["2024-06-03T00:00Z", "2024-06-10T00:00Z"]
    assert fire_times("0 0 15 * ?", start, 1) == ["2024-06-15T00:00Z"]
    assert fire_times("0 0 L * 5", start, 2) == ["2024-06-07T00:00Z", "2024-06-14T00:00Z"]


def test_15w_is_the_nearest_weekday_within_the_month() -> None:
    days = [fire_times("0 9 15W * *", f"2024-{month:02}-01T00:00:00Z", 1)[0][:10] for month in (6, 9, 10)]
    assert days == ["2024-06-14", "2024-09-16", "2024-10-15"]
    assert fire_times("0 9 1W * *", "2024-06-01T00:00:00Z", 1) == ["2024-06-03T09:00Z"]
    assert fire_times("0 9 30W * *", "2024-06-01T00:00:00Z", 1) == ["2024-06-28T09:00Z"]


def test_31w_means_only_months_with_a_31st() -> None:
    """CRON-16: croniter would take the last weekday of shorter months."""
    found = fire_times("0 9 31W * *", "2024-01-01T00:00:00Z", 3)
    assert found == ["2024-01-31T09:00Z", "2024-03-29T09:00Z", "2024-05-31T09:00Z"]


def test_nth_and_last_weekdays_and_the_last_day_are_read() -> None:
    start = "2024-01-01T12:00:00Z"
    assert fire_times("0 9 * * 1#5", start, 2) == ["2024-01-29T09:00Z", "2024-04-29T09:00Z"]
    assert fire_times("0 9 * * mon#2,7#1", start, 2) == ["2024-01-07T09:00Z", "2024-01-08T09:00Z"]
    assert fire_times("0 9 * * L5", start, 2) == ["2024-01-26T09:00Z", "2024-02-23T09:00Z"]
    assert fire_times("0 9 L * *", start, 2) == ["2024-01-31T09:00Z", "2024-02-29T09:00Z"]
    assert fire_times("0 9 15,L * *", start, 2) == ["2024-01-15T09:00Z", "2024-01-31T09:00Z"]


def test_h_gives_the_same_numbers_in_every_process_and_others_for_other_jobs() -> None:
    """CRON-20: these numbers may never change, jobs run at them."""
    news = parse("H H H H H", "daily_news_crawl")
    assert (news.minutes, news.hours) == ((1,), (16,))
    assert (numbers(news.days), numbers(news.months), numbers(news.weekdays)) == ([16], [3], [1])
    minutes = {parse("H * * * *", f"job-{n}").minutes for n in range(500)}
    assert len(minutes) == 60
    assert {numbers(parse("0 0 H * *", f"job-{n}").days)[0] for n in range(500)} == set(range(1, 29))


def test_h_keeps_to_its_range_and_step() -> None:
    assert {parse("H(10-19) * * * *", f"job-{n}").minutes[0] for n in range(200)} == set(range(10, 20))
    for n in range(50):
        minutes = parse("H/15 * * * *", f"job-{n}").minutes
        assert len(minutes) == 4
        assert {later - earlier for earlier, later in pairwise(minutes)} == {15}
        assert parse("H(0-29)/10,45 * * * *", f"job-{n}").minutes[:-1] == tuple(range(minutes_of_ten(n), 30, 10))


def minutes_of_ten(n: int) -> int:
    return parse("H(0-29)/10 * * * *", f"job-{n}").minutes[0]


def test_h_without_a_name_is_refused() -> None:
    assert "name" in refusal("H H * * *")


@pytest.mark.parametrize("text", ["H(30-10) * * * *", "H/0 * * * *", "H(0-99) * * * *", "H-5 * * * *", "H#2 * * * *"])
def test_a_wrong_h_is_refused(text: str) -> None:
    refusal(text, "job")


@pytest.mark.parametrize("text", ["R R * * *", "0 R(1-5) * * *", "* * R/0 * *", "R/5 * * * *"])
def test_r_is_refused_with_h_as_the_remedy(text: str) -> None:
    """CRON-20."""
    assert "Use H" in refusal(text, "job")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("0 0 12 * * 1", "'0 12 * * 1' if the first field is seconds, '0 0 12 * *' if the last is"),
        ("*/30 * * * * *", "'* * * * *'; for less than a minute use `every`"),
        ("* * * * * *", "'* * * * *'; for less than a minute use `every`"),
        ("0 0 1 1 * 0 2025", "Without seconds and year it is '0 1 1 * 0'"),
    ],
)
def test_six_and_seven_fields_are_refused_with_the_five_field_form(text: str, remedy: str) -> None:
    """CRON-19."""
    message = refusal(text)
    assert "five-field form" in message
    assert remedy in message


@pytest.mark.parametrize("text", ["", "   ", "0 2 * *", "0 2 * * * * * *", "2", "every 5 minutess"])
def test_another_number_of_fields_is_refused_with_the_five_names_or_an_example(text: str) -> None:
    assert "0 2 * * *" in refusal(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("*/0 * * * *", "1 to 60"),
        ("*/61 * * * *", "1 to 60"),
        ("*/90 * * * *", "`every`"),
        ("0-59/100 * * * *", "1 to 60"),
        ("0 */25 * * *", "1 to 24"),
        ("60 * * * *", "numbers 0-59"),
        ("0 24 * * *", "numbers 0-23"),
        ("0 0 0 * *", "numbers 1-31"),
        ("0 0 32 * *", "numbers 1-31"),
        ("0 0 32W * *", "numbers 1-31"),
        ("0 0 * 0 *", "JAN"),
        ("0 0 * 13 *", "numbers 1-12"),
        ("0 0 * * 8", "numbers 0-7"),
        ("0 0 * * L8", "numbers 0-7"),
        ("0 0 * * 1#6", "#1 to #5"),
        ("0 0 * * 1#0", "#1 to #5"),
        ("-5 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("30/* * * * *", "minute"),
        ("1- * * * *", "minute"),
        ("1-2-3 * * * *", "minute"),
        ("1/2/3 * * * *", "minute"),
        ("5,,10 * * * *", "minute"),
        ("1.5 * * * *", "minute"),
        ("+1 * * * *", "minute"),
        ("0x1 * * * *", "minute"),
        ("0 0 99999999999999999999 * *", "day of month"),
        (f"0 0 {'9' * 500} * *", "day of month"),
        ("0 0 LW * *", "cannot be computed"),
        ("0 0 L-3 * *", "cannot be computed"),
        ("0 0 * * Monday", "Use MON"),
        ("0 0 * * foo", "SUN, MON"),
        ("0 0 * * 5L", "Use L5"),
        ("0 0 * * L", "day of week"),
        ("? ? ? ? ?", "minute"),
        ("0 0 ?,5 * *", "day of month"),
        ("@every 5m", "every"),
        ("@reboot", "@daily"),
        ("@daily x", "@daily"),
    ],
)
def test_what_no_field_can_mean_is_refused_with_a_remedy(text: str, hint: str) -> None:
    assert hint in refusal(text)


@pytest.mark.parametrize("text", ["0 0 15 * 5#3", "0 0 15W * 1", "0 9 31W * 1-5", "0 0 1,15 * L5"])
def test_a_special_day_with_another_restricted_day_field_is_refused(text: str) -> None:
    """CRON-16."""
    assert "combined" in refusal(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\u0665 * * * *", "U+0665"),
        ("\uff10 * * * *", "U+FF10"),
        ("0\u00a02 * * *", "U+00A0"),
        ("0 2 * * *\n", "U+000A"),
        ("0 2 * * *\r", "U+000D"),
        ("0 0 * * Mon\nrm -rf /", "U+000A"),
        ("0 2 * * \x00", "U+0000"),
        ("0 2 * * \u202e1", "U+202E"),
        ("0 2 * * \ud800", "U+D800"),
        ("0 2 * * \U0001f600", "U+1F600"),
        ("0\x0b2 * * *", "U+000B"),
        ("0 2 * * \u0131", "U+0131"),
    ],
)
def test_other_characters_than_plain_ones_are_refused_by_their_code(text: str, code: str) -> None:
    message = refusal(text)
    assert code in message
    assert message.isascii()
    assert message.isprintable()


def test_a_long_expression_is_refused_at_once() -> None:
    assert "512" in refusal(f"{'0,' * 20_000}0 * * * *")
    assert parse(f"{'0,' * 251}0 * * * *").minutes == (0,)


@pytest.mark.parametrize("text", ["0 0 31 2 *", "* * 30 2 *", "0 0 31 4,6,9,11 *", "0 9 31W 2 *", "0 0 30 2 */7"])
def test_a_date_that_never_comes_is_refused_within_a_tenth_of_a_second(text: str) -> None:
    """CRON-13."""
    schedule = Schedule(ScheduleSpec(cron=text, timezone="Europe/Berlin"), "job")
    now = datetime(2024, 1, 1, tzinfo=UTC)
    started = time.perf_counter()
    with pytest.raises(InvalidInputError, match=r"schedule\.cron: .*28 years"):
        schedule.validate(now)
    assert time.perf_counter() - started < 0.1
    assert list(schedule.after(now)) == []
    assert schedule.latest(now, datetime(2400, 1, 1, tzinfo=UTC)) is None
    assert schedule.count(now, datetime(2400, 1, 1, tzinfo=UTC)) == 0


def test_a_date_that_comes_rarely_is_taken() -> None:
    """CRON-13, CRON-14."""
    assert fire_times("0 0 29-31 2 *", "2025-01-01T00:00:00Z", 1) == ["2028-02-29T00:00Z"]
    assert fire_times("0 0 29 2 */7", "2024-01-01T00:00:00Z", 2) == ["2032-02-29T00:00Z", "2060-02-29T00:00Z"]
    Schedule(ScheduleSpec(cron="0 0 29 2 */7"), "").validate(datetime(2032, 2, 29, tzinfo=UTC))
