import contextlib
import locale
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawjob.domain.date_format import DIRECTIVES
from clawjob.domain.definition import Definition
from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.schedule import Schedule, ScheduleSpec
from clawjob.domain.template import MAX_RENDERED_BYTES, MAX_TOTAL_BYTES, RenderValues, check, render, render_command

AT = datetime(2023, 10, 27, 0, 0, tzinfo=UTC)


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def _values(**more: Any) -> RenderValues:
    usual: dict[str, Any] = {
        "run_id": "7k2m0x9c4b1d-20231027T000000Z",
        "job_name": "news",
        "attempt": 2,
        "scheduled_at": AT,
        "timezone": "Europe/Berlin",
        "now": AT + timedelta(minutes=5, microseconds=7),
        "params": {"page": 3, "q": "a b", "share": 1.5, "deep": True},
    }
    return RenderValues(**{**usual, **more})


def _refusal(text: str, params: tuple[str, ...] = ("page",)) -> Problem:
    with pytest.raises(InvalidInputError) as refused:
        check(text, params, "args[1]")
    (problem,) = refused.value.problems
    assert problem.field == "args[1]"
    assert problem.remedy
    return problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{.Yesterday}}", "2023-10-26"),
        ("{{.YESTERDAY}}", "2023-10-26"),
        ("{{.Today}}", "2023-10-27"),
        ("{{.Tomorrow}}", "2023-10-28"),
        ("{{.ScheduledAt}}", "2023-10-27T02:00:00+02:00"),
        ("{{.Now}}", "2023-10-27T02:05:00+02:00"),
        ("{{.RunID}}", "7k2m0x9c4b1d-20231027T000000Z"),
        ("{{.Attempt}}", "2"),
        ("{{.JobName}}", "news"),
        ("{{.params.page}}", "3"),
        ("{{.page}}", "3"),
        ("{{.q}}", "a b"),
        ("{{.share}} {{.deep}}", "1.5 true"),
        ("{{ .Today }}|{{\t.Today\t}}", "2023-10-27|2023-10-27"),
        ("--date={{.Yesterday}}.json", "--date=2023-10-26.json"),
        ("", ""),
    ],
)
def test_every_name_has_its_value(text: str, expected: str) -> None:
    assert render(text, _values()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ .ScheduledAt | shift "-1d" | date "%Y%m%d" }}', "20231026"),
        ("{{ .ScheduledAt | shift '-1d' | date '%Y%m%d' }}", "20231026"),
        ('{{.ScheduledAt|shift "-90m"}}', "2023-10-27T00:30:00+02:00"),
        ('{{.ScheduledAt|shift "45s"}}', "2023-10-27T02:00:45+02:00"),
        ('{{.ScheduledAt|shift "+2w"|shift "-3h"}}', "2023-11-09T23:00:00+01:00"),
        ('{{.Yesterday|date "%d.%m.%y"}}', "26.10.23"),
        ('{{.Today|shift "-1w"}}', "2023-10-20"),
        ('{{.Tomorrow|shift "-1d"|date "%F"}}', "2023-10-27"),
        ('{{.Now|date "%H:%M:%S %z"}}', "02:05:00 +0200"),
        ('{{.ScheduledAt|date "%s %T"}}', "1698364800 02:00:00"),
        ('{{.Today|date "%a %A %b %B %u %j %G-W%V 100%%"}}', "Fri Friday Oct October 5 300 2023-W43 100%"),
        ('{{.Today|date "no directive"}}', "no directive"),
    ],
)
def test_dates_can_be_shifted_and_written_in_a_form(text: str, expected: str) -> None:
    assert render(text, _values()) == expected


@settings(max_examples=50)
@given(st.integers(0, 13_500_000_000).map(lambda second: datetime.fromtimestamp(second, UTC)))
def test_directives_mean_what_they_mean_to_strftime(moment: datetime) -> None:
    assert locale.setlocale(locale.LC_TIME) == "C"
    values = _values(now=moment, timezone="UTC")
    rendered = render(f"{{{{.Now|date '{' '.join(DIRECTIVES)}'}}}}", values)
    expected = " ".join("SECONDS" if directive == "%s" else directive for directive in DIRECTIVES)
    assert rendered == moment.strftime(expected).replace("SECONDS", str(int(moment.timestamp())))


@pytest.mark.parametrize(
    ("zone", "scheduled", "today"),
    [
        ("Europe/Amsterdam", "2022-04-30T23:30", "2022-05-01"),
        ("Pacific/Kiritimati", "2024-12-31T10:00", "2025-01-01"),
        ("Pacific/Auckland", "2024-06-30T12:00", "2024-07-01"),
        ("UTC", "2022-04-30T23:30", "2022-04-30"),
        ("America/Los_Angeles", "2024-01-01T07:59", "2023-12-31"),
    ],
)
def test_dates_are_those_of_the_jobs_zone(zone: str, scheduled: str, today: str) -> None:
    """T-04."""
    values = _values(timezone=zone, scheduled_at=_utc(scheduled))
    assert render("{{.Today}}", values) == today


@pytest.mark.parametrize("late", [timedelta(minutes=30), timedelta(days=2), timedelta(days=400)])
def test_a_retry_on_another_day_renders_the_same_date(late: timedelta) -> None:
    """T-06."""
    scheduled = datetime(2024, 5, 31, 23, 50, tzinfo=UTC)
    text = '{{.Today}} {{.Yesterday}} {{.ScheduledAt}} {{.ScheduledAt|shift "-1h"}} {{.RunID}}'
    first = render(text, _values(scheduled_at=scheduled, timezone="UTC", now=scheduled, attempt=1))
    later = render(text, _values(scheduled_at=scheduled, timezone="UTC", now=scheduled + late, attempt=2))
    assert first == later
    assert first.startswith("2024-05-31 2024-05-30 2024-05-31T23:50:00+00:00 2024-05-31T22:50:00+00:00")


def test_only_now_is_the_start_of_the_attempt() -> None:
    """T-06."""
    scheduled = datetime(2024, 5, 31, 23, 50, tzinfo=UTC)
    started = scheduled + timedelta(minutes=30)
    assert render('{{.Now|date "%F"}}', _values(scheduled_at=scheduled, now=started, timezone="UTC")) == "2024-06-01"


@pytest.mark.parametrize(
    ("cron", "zone", "after", "scheduled", "today"),
    [
        ("45 23 * * *", "Asia/Pyongyang", "2018-05-04T01:00", "2018-05-04T15:00", "2018-05-04"),
        ("30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00", "2018-11-04"),
        ("30 2 * * *", "America/New_York", "2024-03-09T12:00", "2024-03-10T07:00", "2024-03-10"),
    ],
)
def test_a_run_in_a_gap_has_the_date_that_it_stands_for(
    cron: str, zone: str, after: str, scheduled: str, today: str
) -> None:
    """T-07."""
    schedule = Schedule(ScheduleSpec(cron=cron, timezone=zone), "news")
    occurrence = next(schedule.after(_utc(after)))
    assert occurrence.scheduled_at == _utc(scheduled)
    assert occurrence.moved
    values = _values(timezone=zone, scheduled_at=occurrence.scheduled_at, nominal_local=occurrence.nominal_local)
    assert render("{{.Today}}", values) == today
    assert render('{{.ScheduledAt|date "%F %H:%M"}}', values) == f"{occurrence.nominal_local:%Y-%m-%d %H:%M}"


def test_the_plain_scheduled_instant_is_the_one_at_which_a_moved_run_starts() -> None:
    moved = _values(
        timezone="America/New_York",
        scheduled_at=datetime(2024, 3, 10, 7, tzinfo=UTC),
        nominal_local=datetime.fromisoformat("2024-03-10T02:30"),
    )
    assert render("{{.ScheduledAt}}", moved) == "2024-03-10T03:00:00-04:00"
    assert render('{{.ScheduledAt|shift "-1h"}}', moved) == "2024-03-10T01:30:00-05:00"
    assert render('{{.ScheduledAt|shift "-1d"}}', moved) == "2024-03-09T02:30:00-05:00"


@pytest.mark.parametrize(("hour", "offset"), [(5, "-04:00"), (6, "-05:00")])
def test_each_pass_of_a_repeated_hour_keeps_its_offset(hour: int, offset: str) -> None:
    values = _values(
        timezone="America/New_York",
        scheduled_at=datetime(2024, 11, 3, hour, 30, tzinfo=UTC),
        nominal_local=datetime.fromisoformat("2024-11-03T01:30"),
    )
    assert render("{{.ScheduledAt}}", values) == f"2024-11-03T01:30:00{offset}"
    assert render('{{.ScheduledAt|shift "0s"}}', values) == f"2024-11-03T01:30:00{offset}"


def test_days_keep_the_time_of_day_and_hours_are_time_that_passes() -> None:
    values = _values(scheduled_at=datetime(2024, 3, 31, 10, tzinfo=UTC))
    assert render("{{.ScheduledAt}}", values) == "2024-03-31T12:00:00+02:00"
    assert render('{{.ScheduledAt|shift "-1d"}}', values) == "2024-03-30T12:00:00+01:00"
    assert render('{{.ScheduledAt|shift "-24h"}}', values) == "2024-03-30T11:00:00+01:00"


def test_the_zone_of_the_process_has_no_say() -> None:
    code = (
        "from datetime import datetime, UTC\n"
        "from clawjob.domain.template import RenderValues, render\n"
        "at = datetime(2022, 4, 30, 23, 30, tzinfo=UTC)\n"
        "values = RenderValues(run_id='r', job_name='j', attempt=1, scheduled_at=at, now=at, params={},\n"
        "                      timezone='Europe/Amsterdam')\n"
        "print(render('{{.Today}} {{.ScheduledAt}} {{.Now|date \"%s\"}}', values))\n"
    )
    for zone in ("UTC", "Pacific/Kiritimati"):
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"TZ": zone})
        assert ran.stdout.strip() == "2022-05-01 2022-05-01T01:30:00+02:00 1651361400"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "}}",
        "{}",
        "%s",
        "%(date)s",
        "${HOME}",
        "$(id)",
        "`id`",
        "{0:>999999999}",
        "{params.__class__.__init__.__globals__}",
        "{% for x in y %}",
        '{"a": {"b": 1}}',
        "{ {.Today}}",
        "漢字 \n\t'\" \\",
    ],
)
def test_other_braces_and_signs_stay_as_they_are(text: str) -> None:
    """T-02."""
    check(text, (), "args[0]")
    assert render(text, _values()) == text


def test_two_braces_are_written_as_a_quoted_text() -> None:
    assert render('{{"{{"}}.Today}}', _values()) == "{{.Today}}"
    assert render("{{ '{{ }}' }}", _values()) == "{{ }}"
    assert render('{"day": "{{.Today}}", "page": {{.page}}}', _values()) == '{"day": "2023-10-27", "page": 3}'


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{.params.__class__}}",
        "{{.params.page.__class__}}",
        "{{.params['page']}}",
        "{{.Today.__class__}}",
        "{{.Today.year}}",
        "{{.__class__}}",
        "{{.params}}",
        "{{.params.}}",
        "{{.}}",
        "{{}}",
        "{{ }}",
        "{{{.page}}}",
        "{{.page + 1}}",
        "{{.page | upper}}",
        '{{.page | upper "x"}}',
        "{{.Today | date}}",
        "{{.Today | date %Y}}",
        "{{.Today || date '%Y'}}",
        "{{.Today date '%Y'}}",
        "{{.Today | date '%Y' | shift '1d'}}",
        "{{.Today | date '%Y' '%m'}}",
        "{{.Today | date '%Y }}",
        "{{.Today\n}}",
        "{{.Today\0}}",
        "{{.T\u03bfday}}",
        "{{'a' | date '%Y'}}",
        "{{printf '%s' .page}}",
        "{{range .params}}",
        '{{.ScheduledAt | date "%Q"}}',
        '{{.ScheduledAt | date "%-d"}}',
        '{{.ScheduledAt | date "%"}}',
        '{{.ScheduledAt | date ""}}',
        f'{{{{.ScheduledAt | date "{"x" * 101}"}}}}',
        '{{.Today | date "%H"}}',
        '{{.Today | shift "-1h"}}',
        '{{.Today | shift "-1y"}}',
        '{{.Today | shift "1.5d"}}',
        '{{.Today | shift "d"}}',
        '{{.Today | shift "99999d"}}',
        '{{.Now | shift "999999999w"}}',
        '{{.page | shift "-1d"}}',
        '{{.RunID | date "%Y"}}',
        "{{.Now " + "| shift '1d' " * 9 + "}}",
    ],
)
def test_what_is_no_placeholder_is_refused_when_saved_and_when_rendered(text: str) -> None:
    """T-02."""
    _refusal(text)
    with pytest.raises(InvalidInputError):
        render(text, _values())


@pytest.mark.parametrize(
    "text", ["{{", "a {{ b", "{{.Today", "{{.Today}", "{{.Today}} {{", '{{"{{"', "{{.Today | date '%Y'"]
)
def test_braces_without_an_end_are_refused_with_the_way_to_write_them(text: str) -> None:
    """T-02."""
    problem = _refusal(text)
    assert "no closing }}" in problem.message
    assert '{{"{{"}}' in problem.remedy


@pytest.mark.parametrize(
    ("text", "named", "nearest"),
    [
        ("{{.Yestarday}}", ".Yestarday", "{{.Yesterday}}"),
        ("{{.yesterday}}", ".yesterday", "{{.Yesterday}}"),
        ("{{.today}}", ".today", "{{.Today}}"),
        ("{{.RunId}}", ".RunId", "{{.RunID}}"),
        ("{{.run_id}}", ".run_id", "{{.RunID}}"),
        ("{{.scheduled_at}}", ".scheduled_at", "{{.ScheduledAt}}"),
        ("{{.pgae}}", ".pgae", "{{.page}}"),
        ("{{.params.pages}}", ".params.pages", "{{.params.page}}"),
        ("{{.param.page}}", ".param.page", "{{.params.page}}"),
        ("{{.dat}}", ".dat", ".Today"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_right_one(text: str, named: str, nearest: str) -> None:
    """T-03."""
    problem = _refusal(f"--d {text}")
    assert named in problem.message
    assert nearest in problem.remedy


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("{{Today}}", "Write {{.Today}}."),
        ("{{page}}", "Write {{.page}}."),
        ("{{yesterday}}", "{{.Yesterday}}"),
        ("{{params.page}}", "{{.params.page}}"),
        ("{{date}}", ".Today"),
    ],
)
def test_a_name_without_its_dot_is_refused_with_the_dot(text: str, remedy: str) -> None:
    problem = _refusal(text)
    assert "no dot" in problem.message
    assert remedy in problem.remedy


def test_built_in_names_win_over_params_of_the_same_name() -> None:
    values = _values(params={"Today": "mine"})
    assert render("{{.Today}} {{.params.Today}}", values) == "2023-10-27 mine"


def test_names_with_dots_and_dashes_work() -> None:
    values = _values(params={"a.b-c": 1, "2nd": 2})
    assert render("{{.params.a.b-c}}{{.a.b-c}}{{.2nd}}", values) == "112"


@pytest.mark.parametrize(
    "value",
    [
        "x; touch pwned.txt",
        "$(id)",
        "`id`",
        "a b",
        "'",
        '"',
        "\n",
        "--config=/etc/passwd",
        '""',
        "",
        "漢😀",
        "{{.Today}}",
    ],
)
def test_a_value_is_one_argument_byte_for_byte(value: str) -> None:
    """T-01; a value is not rendered again."""
    job = Definition(name="news", command="/bin/echo", args=("--q", "{{.params.q}}", "", "x{{.q}}y"), params={"q": "?"})
    argv, env = render_command(job, _values(params={"q": value}))
    assert argv == ["/bin/echo", "--q", value, "", f"x{value}y"]
    assert env == {}


def test_templates_work_in_args_and_env_values_only() -> None:
    """T-12."""
    job = Definition(name="n", command="{{.Today}}", args=("{{.Today}}",), env={"DAY": "{{.Today}}"})
    argv, env = render_command(job, _values())
    assert argv == ["{{.Today}}", "2023-10-27"]
    assert env == {"DAY": "2023-10-27"}


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_a_value_that_no_process_can_be_given_is_refused(value: str) -> None:
    job = Definition(name="n", command="c", args=("x", "{{.q}}"), params={"q": ""})
    with pytest.raises(InvalidInputError) as refused:
        render_command(job, _values(params={"q": value}))
    assert refused.value.problems[0].field == "args[1]"


def test_a_param_that_has_gone_is_refused_and_not_passed_on_as_nothing() -> None:
    with pytest.raises(InvalidInputError):
        render("{{.params.gone}}", _values())


def test_what_a_value_makes_too_long_is_refused() -> None:
    """T-02: no string without bound."""
    values = _values(params={"q": "x" * 16_000})
    assert len(render("{{.q}}" * 4, values)) == 64_000
    with pytest.raises(InvalidInputError, match=f"{MAX_RENDERED_BYTES:,}"):
        render("{{.q}}" * 5_000, values)
    job = Definition(name="n", command="c", args=("{{.q}}" * 4,) * 9)
    with pytest.raises(InvalidInputError, match=f"{MAX_TOTAL_BYTES:,}"):
        render_command(job, values)


def test_an_unknown_zone_is_an_error_of_the_job() -> None:
    for zone in ("Mars/Olympus", "../../etc/passwd", "", "europe/berlin"):
        with pytest.raises(InvalidInputError):
            render("{{.Today}}", _values(timezone=zone))


@pytest.mark.parametrize(
    "piece", ["{{", "{{.Today}}", '{{"', "{{.Today|", "{{ ", '{{"{{"}}', "}}", "{", '{{.Today|date "']
)
def test_a_very_long_text_is_read_in_one_pass(piece: str) -> None:
    """T-02; reading it once takes under a second, a pass for each piece would take minutes."""
    started = time.perf_counter()
    with contextlib.suppress(InvalidInputError):
        check(piece * 60_000, (), "args[0]")
    assert time.perf_counter() - started < 10


@given(st.text("{}.|\"' ToNowdaysp%Y-1h\n", max_size=40))
def test_any_text_is_taken_or_refused_and_what_is_taken_can_be_rendered(text: str) -> None:
    try:
        rendered = render(text, _values())
    except InvalidInputError as error:
        problems = error.problems
        with pytest.raises(InvalidInputError):
            check(text, ("page", "q", "share", "deep"), "args[0]")
    else:
        problems = ()
        check(text, ("page", "q", "share", "deep"), "args[0]")
        assert "{{" in text or rendered == text
    assert all(len(str(problem)) < 400 for problem in problems)
