"""`clawjob job` against the API."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clawjob.domain.instants import to_text
from clawjob.domain.job import parse_document
from clawjob.operations.apply_job import create_job, replace_job
from support.api import job
from support.calls import wrap
from support.clock import ManualClock
from support.service import Service

HOSTILE = "bad\x1b[2J\r\n2024-01-01 ERROR fake \u202egnp <script>"


def write(path: str, document: Any) -> str:
    Path(path).write_text(json.dumps(document), "utf-8")
    return path


def test_a_job_is_created_shown_listed_and_deleted(run: Any) -> None:
    path = write("news.json", job(schedule="0 2 * * *", timeout="30m", description="News of the day"))
    made = run("job", "create", "-f", path)
    assert made.exit_code == 0
    assert made.stdout == "Job news is created. Its next run is at 2024-03-10 02:00:00 UTC.\n"
    listed = run("job", "list")
    assert "news" in listed.stdout
    assert "2024-03-10 02:00:00" in listed.stdout
    shown = run("job", "show", "news")
    assert "0 2 * * *" in shown.stdout
    assert "30m, then 30s to end" in shown.stdout
    assert run("job", "delete", "news").stdout == "Job news is deleted.\n"
    assert run("job", "show", "news").exit_code == 3
    assert "no jobs yet" in run("job", "list").stdout


def test_json_is_what_the_api_shows(run: Any) -> None:
    made = run("job", "create", "-f", write("news.json", job()), "--output", "json")
    shown = run("job", "show", "news", "--output", "json")
    assert json.loads(made.stdout) == json.loads(shown.stdout)
    assert json.loads(run("job", "list", "--output", "json").stdout)[0]["name"] == "news"
    document = json.loads(run("job", "show", "news", "--document").stdout)
    assert "state" not in document
    assert document["command"] == "/bin/true"


def test_a_document_comes_from_stdin_as_well(run: Any) -> None:
    assert run("job", "create", "-f", "-", stdin=json.dumps(job())).exit_code == 0


def test_apply_creates_then_changes_then_leaves_alone(run: Any) -> None:
    path = write("news.json", job(schedule="0 2 * * *", retry=["1m", "5m"]))
    assert "is created" in run("job", "apply", "-f", path).stdout
    assert run("job", "apply", "-f", path).stdout == "Job news is as its document says.\n"
    write("news.json", job(schedule="0 3 * * *"))
    assert "is changed to version 2" in run("job", "apply", path).stdout


def test_apply_leaves_a_job_alone_whose_only_instant_is_past(run: Any, clock: ManualClock) -> None:
    path = write("once.json", job("once", schedule={"at": to_text(clock() + timedelta(minutes=1))}))
    assert "is created" in run("job", "apply", path).stdout
    clock.advance(timedelta(hours=1))
    assert run("job", "apply", path).stdout == "Job once is as its document says.\n"


def test_two_applies_at_once_both_go_well(run: Any, service: Service, clock: ManualClock) -> None:
    """The other one makes the job, then changes it, just before this one writes."""
    others = [
        lambda: create_job(service.context, parse_document(job("two", description="a"), clock(), ["default"])),
        lambda: replace_job(service.context, "two", parse_document(job("two", description="b"), clock(), ["default"])),
    ]

    at_work = False

    def first_the_other(name: str, parameters: dict[str, Any], call: Any) -> Any:
        nonlocal at_work
        if name == "TransactWriteItems" and others and not at_work:
            at_work = True
            others.pop(0)()
            at_work = False
        return call(name, parameters)

    undo = wrap(service.dynamodb, first_the_other)
    result = run("job", "apply", write("two.json", job("two", description="mine")))
    undo()
    assert (result.exit_code, others) == (0, []), result.stderr
    assert json.loads(run("job", "show", "two", "--output", "json").stdout)["description"] == "mine"


def test_a_file_with_a_byte_order_mark_is_read(run: Any) -> None:
    Path("bom.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(job("bom")).encode())
    assert "Job bom is created" in run("job", "apply", "bom.json").stdout


def test_apply_goes_on_after_a_bad_file_and_ends_with_its_exit_code(run: Any) -> None:
    files = [
        write("bad.json", job("bad", comand="x")),
        write("nameless.json", {"command": "x"}),
        write("good.json", job("good")),
    ]
    result = run("job", "apply", "-f", *files)
    assert result.exit_code == 4
    assert "Job good is created" in result.stdout
    assert "bad.json:" in result.stderr
    assert "comand: There is no such field. Did you mean command?" in result.stderr
    assert "name: It is missing. Add it." in result.stderr
    assert run("job", "apply").exit_code == 2


def test_a_shown_document_can_be_applied(run: Any) -> None:
    run("job", "create", "-f", write("news.json", job(schedule={"every": "15m", "jitter": "1m"}, env={"A": "1"})))
    Path("again.json").write_text(run("job", "show", "news", "--document").stdout)
    assert run("job", "apply", "-f", "again.json").stdout == "Job news is as its document says.\n"


def test_pause_and_resume_say_what_comes(run: Any) -> None:
    run("job", "create", "-f", write("news.json", job(schedule="0 2 * * *")))
    assert run("job", "pause", "news").stdout == "Job news is paused.\n"
    assert "paused" in run("job", "list").stdout
    assert "Its next run is at" in run("job", "resume", "news").stdout


def test_a_trigger_gives_params_the_type_of_their_defaults(run: Any, service: Service) -> None:
    params = {"page": 1, "lang": "en", "deep": False, "share": 0.5}
    run("job", "create", "-f", write("news.json", job(params=params)))
    pairs = ("page=2", "lang=7", "deep=true", "share=1")
    arguments = [part for pair in pairs for part in ("-p", pair)]
    made = run("job", "trigger", "news", *arguments, "--output", "json")
    assert made.exit_code == 0
    run_id = json.loads(made.stdout)["run_id"]
    assert service.context.runs.params(run_id) == {"page": 2, "lang": "7", "deep": True, "share": 1}


def test_a_trigger_names_the_param_that_is_wrong(run: Any) -> None:
    run("job", "create", "-f", write("news.json", job(params={"page": 1})))
    unknown = run("job", "trigger", "news", "-p", "pge=1")
    assert unknown.exit_code == 4
    assert "params.pge: The job does not declare it. Did you mean 'page'?" in unknown.stderr
    assert run("job", "trigger", "news", "-p", "page=x").exit_code == 4
    assert run("job", "trigger", "news", "-p", "page").exit_code == 2


def test_a_key_gives_the_same_run_again(run: Any) -> None:
    run("job", "create", "-f", write("news.json", job(params={"page": 1})))
    first = run("job", "trigger", "news", "--key", "k1", "--output", "json")
    again = run("job", "trigger", "news", "--key", "k1", "--output", "json")
    assert json.loads(first.stdout)["run_id"] == json.loads(again.stdout)["run_id"]
    assert run("job", "trigger", "news", "--key", "k1", "-p", "page=2").exit_code == 4
    assert run("job", "trigger", "news", "--key", "é").exit_code == 2


def test_why_says_it_in_plain_words(run: Any) -> None:
    run("job", "create", "-f", write("news.json", job()))
    result = run("why", "news")
    assert result.exit_code == 0
    assert "only when it is triggered" in result.stdout
    assert json.loads(run("why", "news", "--output", "json").stdout)["name"] == "news"
    assert run("why", "other").exit_code == 3


@pytest.mark.parametrize("columns", ["80", "160"])
def test_lists_fit_the_terminal_and_lose_no_name(run: Any, columns: str) -> None:
    name = "x" * 60
    run("job", "create", "-f", write("news.json", job(name, schedule="0 2 * * *", description="long " * 100)))
    result = run("job", "list", env={"COLUMNS": columns})
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    joined = "".join(line.split("  ")[0].strip() for line in lines)
    assert name in joined
    assert ("Description" in result.stdout) == (columns == "160")


def test_what_a_user_wrote_cannot_act_on_a_terminal(run: Any) -> None:
    """T-11."""
    document = job(description=HOSTILE, args=[HOSTILE], labels={"who": "me"})
    assert run("job", "create", "-f", write("news.json", document)).exit_code == 0
    for command in (("list",), ("show", "news"), ("show", "news", "--output", "json"), ("list", "--output", "json")):
        text = run("job", *command).stdout
        assert not any(ord(character) < 32 and character != "\n" for character in text)
        assert "\u202e" not in text
        assert not any(line.startswith("2024-01-01 ERROR") for line in text.splitlines())
    assert json.loads(run("job", "show", "news", "--output", "json").stdout)["description"] == HOSTILE


def test_times_are_local_or_utc_on_demand(run: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    run("job", "create", "-f", write("news.json", job(schedule="0 2 * * *")))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        env = {"TZ": "America/New_York"}
        assert "2024-03-09 21:00:00 EST" in run("job", "show", "news", env=env).stdout
        assert "2024-03-10 02:00:00 UTC" in run("job", "show", "news", "--utc", env=env).stdout
        assert "Next (local)" in run("job", "list", env=env).stdout
        assert "2024-03-10 02:00:00" in run("job", "list", "--utc", env=env).stdout
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("content", "code"), [("", 2), ("{", 2), ("[]", 2), ('{"name": "a", "name": "b"}', 2), ("{}", 4)]
)
def test_a_file_that_is_no_document_is_told_with_its_name(run: Any, content: str, code: int) -> None:
    Path("x.json").write_text(content)
    result = run("job", "create", "-f", "x.json")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")


def test_a_file_that_is_not_there_is_told(run: Any) -> None:
    result = run("job", "create", "-f", "nothing.json")
    assert (result.exit_code, result.stderr) == (2, "Error: nothing.json cannot be read: No such file or directory.\n")
    Path("binary.json").write_bytes(b"\xff\xfe")
    assert "it is not UTF-8" in run("job", "create", "-f", "binary.json").stderr


def test_names_with_any_character_reach_the_api_as_one_segment(run: Any) -> None:
    """A-04."""
    for name in ("a/b", "..", "a%2Fb", "名前", "a b", "a?x=1", "a#b"):
        assert run("job", "show", name).exit_code in {3, 4}, name


def test_a_list_of_many_pages_is_shown_whole(
    run: Any, service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawjob.cli.service._PAGE", 3)
    for number in range(8):
        create_job(service.context, parse_document(job(f"job{number}"), clock(), ["default"]))
    assert len(json.loads(run("job", "list", "--output", "json").stdout)) == 8
    assert len(json.loads(run("job", "list", "--output", "json", "--limit", "7").stdout)) == 7
