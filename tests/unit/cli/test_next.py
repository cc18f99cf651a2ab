"""`clawjob next`: the table and JSON for people, and the batch that answers line by line."""

import io
import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from clawjob.cli.next import CLOCK, next_command
from clawjob.cli.next_batch import MAX_COUNT, MAX_LINE_BYTES, answer, answer_lines
from clawjob.domain.schedule import Schedule, ScheduleSpec

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "cron_cases.json").read_text("utf-8"))
NOW = datetime(2024, 3, 30, 12, tzinfo=UTC)
BERLIN = ("30 2 * * *", "--timezone", "Europe/Berlin")


def clock() -> datetime:
    return NOW


@click.group()
@click.pass_context
def program(context: click.Context) -> None:
    context.meta[CLOCK] = clock


program.add_command(next_command)


def run(*arguments: str, stdin: bytes | str = "", **options: Any) -> Result:
    return CliRunner().invoke(program, ["next", *arguments], input=stdin, **options)


def answers(*lines: bytes) -> list[dict[str, Any]]:
    written = io.BytesIO()
    answer_lines(io.BytesIO(b"\n".join(lines) + b"\n"), written, clock)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def ask(**request: object) -> dict[str, Any]:
    return dict(answer(json.dumps(request).encode(), clock))


def test_the_table_shows_local_time_utc_and_why_a_run_was_moved() -> None:
    result = run(*BERLIN, "--count", "5")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "30 2 * * *" in lines[0]
    assert "2024-03-30 12:00:00Z" in lines[0]
    first, second = (next(line for line in lines if line.split()[:1] == [number]) for number in "12")
    assert "Sun 2024-03-31 03:00:00 +0200" in first
    assert "2024-03-31 01:00:00Z" in first
    assert "moved" in first
    assert "Mon 2024-04-01 02:30:00 +0200" in second
    assert "moved" not in second
    said = " ".join(" ".join(lines).split())
    assert "1: 02:30 does not exist on 2024-03-31 in Europe/Berlin; first instant after the gap" in said


def test_the_table_fits_80_columns_and_has_no_colour_off_a_terminal() -> None:
    result = run("30 2 * * *", "--timezone", "America/Argentina/ComodRivadavia", "--count", "200")
    assert result.exit_code == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "\x1b" not in result.stdout
    assert "…" not in result.stdout
    assert len([line for line in result.stdout.splitlines() if "02:30:00" in line]) == 200


def test_json_gives_programs_the_same_with_the_civil_time() -> None:
    result = run(*BERLIN, "--output", "json", "--count", "2")
    document = json.loads(result.stdout)
    assert document["after"] == "2024-03-30T12:00:00.000Z"
    assert document["occurrences"] == [
        {
            "scheduled_at": "2024-03-31T01:00:00.000Z",
            "local": "2024-03-31T03:00:00+02:00",
            "nominal_local": "2024-03-31T02:30:00",
            "moved": "02:30 does not exist on 2024-03-31 in Europe/Berlin; first instant after the gap",
        },
        {
            "scheduled_at": "2024-04-01T00:30:00.000Z",
            "local": "2024-04-01T02:30:00+02:00",
            "nominal_local": "2024-04-01T02:30:00",
            "moved": None,
        },
    ]


def instants(*arguments: str) -> list[str]:
    result = run(*arguments, "--output", "json")
    assert result.exit_code == 0, result.output
    return [found["scheduled_at"][:16] for found in json.loads(result.stdout)["occurrences"]]


def test_the_options_reach_the_schedule() -> None:
    assert instants(*BERLIN, "--missing", "skip", "-n", "1") == ["2024-04-01T00:30"]
    autumn = (*BERLIN, "--after", "2024-10-26T12:00:00+02:00", "-n", "2")
    assert instants(*autumn) == ["2024-10-27T00:30", "2024-10-28T01:30"]
    assert instants(*autumn, "--repeated", "second") == ["2024-10-27T01:30", "2024-10-28T01:30"]
    assert instants(*autumn, "--repeated", "both") == ["2024-10-27T00:30", "2024-10-27T01:30"]
    assert len(instants("@daily")) == 5
    named = instants("H H * * *", "--name", "a", "-n", "1")
    assert named == instants("H H * * *", "--name", "a", "-n", "1")
    assert named != instants("H H * * *", "--name", "b", "-n", "1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "EXPRESSION"),
        (("0 0 12 * * 1",), "schedule.cron"),
        (("0 0 31 2 *",), "28 years"),
        (("61 * * * *", "--timezone", "PST"), "schedule.timezone"),
        (("H * * * *",), "name"),
        (("* * * * *", "--after", "yesterday"), "after: 'yesterday'"),
        (("* * * * *", "--after", "2024-01-01T00:00:00"), "no instant"),
        (("* * * * *", "--after", "0001-01-01T00:00:00+14:00"), "no instant"),
        (("* * * * *", "--count", "0"), "1<=x<=1000"),
        (("* * * * *", "--count", "1001"), "1<=x<=1000"),
        (("* * * * *", "--missing", "later"), "shift"),
        (("* * * * *", "--batch"), "--batch takes no expression"),
        (("--batch", "--count", "3"), "--batch takes no count"),
    ],
)
def test_what_is_wrong_is_said_on_stderr_with_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_without_another_clock_the_times_come_after_now() -> None:
    result = CliRunner().invoke(next_command, ["* * * * *", "--count", "1", "--output", "json"])
    (found,) = json.loads(result.stdout)["occurrences"]
    assert abs(datetime.fromisoformat(found["scheduled_at"]) - datetime.now(UTC)) < timedelta(minutes=2)


def test_the_batch_answers_all_cases_in_order() -> None:
    """A-09 and every case of cron_cases.json."""
    requests = [
        {
            "cron": case["expr"],
            "timezone": case["tz"],
            "after": case["start_utc"],
            "count": len(case["expected"]) or 1,
        }
        for case in CASES
    ]
    result = run("--batch", stdin="".join(json.dumps(request) + "\n" for request in requests))
    assert result.exit_code == 0
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(found) == len(CASES) == 115
    for case, answered in zip(CASES, found, strict=True):
        if case["kind"] == "fire":
            assert answered == {"fire_times": case["expected"]}, case["id"]
        else:
            assert set(answered) == {"error"}, case["id"]
            field = "schedule.timezone" if case["id"].startswith("TZ") else "schedule.cron"
            assert field in answered["error"], case["id"]


def test_a_batch_line_may_leave_out_zone_count_and_instant() -> None:
    expected = [f"{NOW + timedelta(hours=n):%Y-%m-%dT%H:%M:%SZ}" for n in range(1, 6)]
    assert ask(cron="0 * * * *") == {"fire_times": expected}
    assert ask(cron="0 * * * *", name=None, count=1) == {"fire_times": expected[:1]}


def test_h_needs_a_name_in_the_batch_and_gives_what_the_scheduler_uses() -> None:
    assert "name" in ask(cron="H H * * *")["error"]
    assert "name" in ask(cron="H H * * *", name="")["error"]
    expected = next(Schedule(ScheduleSpec(cron="H H * * *"), "news").after(NOW)).scheduled_at
    assert ask(cron="H H * * *", name="news", count=1) == {"fire_times": [f"{expected:%Y-%m-%dT%H:%M:%SZ}"]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "no JSON"),
        (b"   ", "no JSON"),
        (b"\t", "no JSON"),
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'"0 2 * * *"', "no JSON object"),
        (b"NaN", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b'{"cron": "0 2 * * *\xff"}', "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (b"[" * 50_000, "no JSON"),
        (b'{"cron": "0 2 * * *", "count": ' + b"9" * 10_000 + b"}", "no JSON"),
        (b'{"cron": "0 2 * * *"} {"cron": "0 2 * * *"}', "no JSON"),
        (b"{}", "cron: It is missing"),
        (b'{"cron": null}', "cron"),
        (b'{"cron": 5}', "cron"),
        (b'{"cron": ["0 2 * * *"]}', "cron"),
        (b'{"cron": "0 2 * * *", "timezone": null}', "timezone"),
        (b'{"cron": "0 2 * * *", "timezone": 1}', "timezone"),
        (b'{"cron": "0 2 * * *", "timezone": "PST"}', "schedule.timezone"),
        (b'{"cron": "0 2 * * *", "timezone": ""}', "schedule.timezone"),
        (b'{"cron": "0 2 * * *", "name": 7}', "name"),
        (b'{"cron": "0 2 * * *", "after": null}', "after"),
        (b'{"cron": "0 2 * * *", "after": 1700000000}', "after"),
        (b'{"cron": "0 2 * * *", "after": "soon"}', "after"),
        (b'{"cron": "0 2 * * *", "after": "2024-03-10T07:00:00"}', "after"),
        (b'{"cron": "0 2 * * *", "after": "2024-02-30T07:00:00Z"}', "after"),
        (b'{"cron": "0 2 * * *", "after": "9999-12-31T23:59:59-12:00"}', "after"),
        (b'{"cron": "0 2 * * *", "after": "9999-12-31T23:59:59Z"}', "28 years"),
        (b'{"cron": "0 2 * * *", "count": 0}', "count"),
        (b'{"cron": "0 2 * * *", "count": -1}', "count"),
        (b'{"cron": "0 2 * * *", "count": true}', "count"),
        (b'{"cron": "0 2 * * *", "count": 1.0}', "count"),
        (b'{"cron": "0 2 * * *", "count": "3"}', "count"),
        (b'{"cron": "0 2 * * *", "count": null}', "count"),
        (b'{"cron": "0 2 * * *", "count": 1001}', "count"),
        (b'{"cron": "0 2 * * *", "count": 1000000000000}', "count"),
        (b'{"cron": "0 2 * * *", "count": 1e400}', "count"),
        (b'{"cron": "0 2 * * *", "count": NaN}', "no JSON"),
        (b'{"cron": "0 2 * * *", "count": Infinity}', "no JSON"),
        (b'{"cron": "0 2 * * *", "zone": "UTC"}', "'zone' is not known"),
        (b'{"cron": "0 2 * * *\\u0000"}', "U+0000"),
        (b'{"cron": "0 2 * * *\\ud800"}', "U+D800"),
        (b'{"cron": "H 2 * * *", "timezone": "\\ud800"}', "schedule.timezone"),
        (b'{"cron": "0 0 31 2 *"}', "28 years"),
        (b'{"cron": "' + b"0," * 200_000 + b'0 * * * *"}', "too long"),
    ],
)
def test_a_bad_line_gets_an_error_and_the_next_line_its_answer(line: bytes, said: str) -> None:
    bad, good = answers(line, b'{"cron": "0 * * * *", "count": 1}')
    assert list(bad) == ["error"]
    assert said in bad["error"]
    assert good == {"fire_times": ["2024-03-30T13:00:00Z"]}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_the_end_of_a_line_and_of_the_input_do_not_matter(ending: bytes) -> None:
    written = io.BytesIO()
    answer_lines(io.BytesIO(b'{"cron": "0 * * * *", "count": 1}' + ending), written, clock)
    assert written.getvalue() == b'{"fire_times": ["2024-03-30T13:00:00Z"]}\n'


def test_no_lines_give_no_answers() -> None:
    result = run("--batch")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("size", range(MAX_LINE_BYTES - 1, MAX_LINE_BYTES + 4))
def test_a_line_is_answered_once_whatever_its_length(size: int) -> None:
    request = b'{"cron": "0 * * * *", "count": 1}'
    first, second = answers(request + b" " * (size - len(request)), request)
    assert ("error" in first) == (size > MAX_LINE_BYTES)
    assert "fire_times" in second


def test_the_highest_count_is_given_in_full() -> None:
    assert len(ask(cron="* * * * *", count=MAX_COUNT)["fire_times"]) == MAX_COUNT


def test_fewer_times_come_where_there_are_no_more() -> None:
    """Nothing is scheduled from the year 2500 on."""
    assert len(ask(cron="0 0 1 1 *", after="2490-06-01T00:00:00Z", count=100)["fire_times"]) == 9


class Flushed(io.BytesIO):
    """Remembers what was visible to a reader after each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bytes] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_each_answer_is_flushed_before_the_next_line_is_read() -> None:
    written = Flushed()
    answer_lines(io.BytesIO(b"x\n" * 3), written, clock)
    assert [seen.count(b"\n") for seen in written.seen] == [1, 2, 3]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=4
)
cron_like = st.one_of(st.text("0123456789*/-,LWHR#?@()JANMON \x00\n", max_size=30), json_values)
requests = st.dictionaries(st.sampled_from(["cron", "timezone", "after", "count", "name", "x"]), cron_like)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=60), requests.map(lambda request: json.dumps(request).encode())))
def test_whatever_a_line_holds_it_gets_one_answer(line: bytes) -> None:
    answered = answer(line, clock)
    assert list(answered) in (["fire_times"], ["error"])
    assert json.dumps(answered).isascii()


def test_the_examples_in_the_docs_are_what_the_command_prints() -> None:
    page = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text("utf-8")
    shown, batch = (block.split("```")[0] for block in page.split("```console\n")[1:])
    command, _, printed = shown.partition("\n")
    result = run(*shlex.split(command)[3:], env={"COLUMNS": "80"})
    assert [line.rstrip() for line in result.stdout.splitlines()] == printed.splitlines()
    lines = batch.splitlines()[1:]
    assert [json.loads(line) for line in lines[1::2]] == [answer(line.encode(), clock) for line in lines[::2]]
