"""`clawjob dlq`: what it shows, what it asks, what it says afterwards."""

import json
from typing import Any

import pytest

from clawjob.domain.messages import RunMessage
from clawjob.operations import dead_letters
from support.letters import LOW, dead_in, put_dead
from support.service import Service

RUN_ID = "0123456789ab-20240309T120000Z"
BODY = RunMessage(RUN_ID, 0).to_body()


def test_the_list_fits_into_eighty_columns_and_says_what_and_why(run: Any, service: Service) -> None:
    (message_id,) = put_dead(service, BODY)
    put_dead(service, "{}", queue="ticks")
    shown = run("dlq", "list", "--utc", env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert f"{LOW}  {message_id}" in shown.stdout
    assert f"run {RUN_ID}, retry 0" in shown.stdout
    assert "sent 2024-03-09 11:58:00 UTC, taken 1 time\n" in shown.stdout
    assert "not kept any more" in shown.stdout
    assert "tick of an unknown instant" in shown.stdout


def test_the_list_of_one_queue_is_json_for_programs(run: Any, service: Service) -> None:
    put_dead(service, *(BODY for _ in range(3)))
    shown = run("dlq", "list", LOW, "--limit", "2", "--output", "json")
    (queue,) = json.loads(shown.stdout)
    assert (queue["queue"], queue["count"], len(queue["messages"])) == (LOW, 3, 2)


def test_a_longer_list_is_said(run: Any, service: Service) -> None:
    put_dead(service, *(BODY for _ in range(3)))
    assert f"{LOW} has more" in run("dlq", "list", LOW, "--limit", "2").stdout


def test_nothing_of_a_message_acts_on_a_terminal(run: Any, service: Service) -> None:
    put_dead(service, json.dumps({"time": "\x1b[31mred"}), queue="ticks")
    assert "\x1b" not in run("dlq", "list", "ticks").stdout


def test_all_or_one_are_sent_back(run: Any, service: Service) -> None:
    ids = put_dead(service, *(BODY for _ in range(3)))
    one = run("dlq", "redrive", LOW, ids[1])
    assert (one.exit_code, one.stdout) == (0, f"Sent back from {LOW}: 1 message.\n"), one.output
    assert len(service.receive()) == 1


def test_a_long_queue_is_sent_back_by_several_requests(
    run: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MOST_AT_ONCE", 10)
    put_dead(service, *(BODY for _ in range(25)))
    done = run("dlq", "redrive", LOW, "--output", "json")
    assert json.loads(done.stdout) == {"queue": LOW, "sent_back": 25, "refused": 0, "has_more": False}
    assert dead_in(service) == []


def test_a_drop_needs_yes_where_nobody_can_be_asked(run: Any, service: Service) -> None:
    put_dead(service, BODY)
    refused = run("dlq", "drop", LOW, "--all")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert dead_in(service) == [BODY]


@pytest.mark.parametrize("which", [[], ["x", "--all"]])
def test_a_drop_must_say_what(run: Any, service: Service, which: list[str]) -> None:
    put_dead(service, BODY)
    refused = run("dlq", "drop", LOW, *which, "--yes")
    assert refused.exit_code == 2
    assert "--all" in refused.stderr
    assert dead_in(service) == [BODY]


def test_a_drop_says_how_many_and_what_becomes_of_the_runs(run: Any, service: Service) -> None:
    put_dead(service, BODY, "no JSON")
    done = run("dlq", "drop", LOW, "--all", "--yes")
    assert done.exit_code == 0, done.output
    assert "2 messages" in done.stdout
    assert "the scheduler sends a run again" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_one_message_is_dropped(run: Any, service: Service) -> None:
    ids = put_dead(service, BODY, "no JSON")
    done = run("dlq", "drop", LOW, ids[1], "--yes", "--output", "json")
    assert json.loads(done.stdout)["dropped"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["redrive", "nothing"], 3, "known are"),
        (["redrive", LOW, "nothing"], 3, "no message"),
        (["drop", LOW, "nothing", "--yes"], 3, "no message"),
        (["list", "nothing"], 3, "known are"),
        (["redrive", "ticks"], 4, "drop it"),
    ],
)
def test_what_cannot_be_done_is_said(run: Any, service: Service, arguments: list[str], code: int, words: str) -> None:
    del service
    refused = run("dlq", *arguments)
    assert refused.exit_code == code
    assert words in refused.stderr
