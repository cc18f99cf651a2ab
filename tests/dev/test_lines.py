"""One line for each event."""

import json
import logging
from datetime import UTC, datetime

import click

from clawjob.dev.lines import EventLines, LineHandler, event_text


def lines_into(written: list[str]) -> EventLines:
    return EventLines(lambda: datetime(2024, 3, 10, 7, 0, 3, tzinfo=UTC), written.append)


def test_the_fields_that_name_an_event_come_first_and_unknown_ones_are_left_out() -> None:
    fields = {"exit_code": None, "why": "a b", "run_id": "r", "job": "news", "duration_seconds": 1.23456, "detail": ""}
    assert event_text("run taken", fields) == 'run taken  job=news run_id=r why="a b" duration_seconds=1.235'


def test_a_worker_s_json_line_and_a_record_of_this_process_look_the_same() -> None:
    written: list[str] = []
    lines = lines_into(written)
    lines.worker_line(
        "worker-1", json.dumps({"level": "INFO", "message": "run taken", "timestamp": "x", "job": "news"})
    )
    record = logging.makeLogRecord({"msg": "run taken", "levelno": logging.INFO, "levelname": "INFO", "job": "news"})
    LineHandler(lines, lambda _: "worker-1").emit(record)
    assert written == ["07:00:03  worker-1   run taken  job=news"] * 2


def test_what_is_no_event_is_passed_on_as_it_is_and_can_do_nothing_to_the_terminal() -> None:
    """T-11: a line cannot colour, move the cursor or fake another line's field."""
    written: list[str] = []
    lines = lines_into(written)
    lines.worker_line("worker-1", "Traceback \x1b[31m(most recent call last):")
    lines.worker_line("worker-1", "")
    lines.worker_line("worker-1", json.dumps({"message": "x", "job": "a\x1b[2J\nb"}))
    assert written == [
        "07:00:03  worker-1   Traceback \\x1b[31m(most recent call last):",
        '07:00:03  worker-1   x  job="a\\u001b[2J\\nb"',
    ]


def test_errors_are_red_and_bring_their_stack() -> None:
    written: list[str] = []
    error = RuntimeError("no table")
    record = logging.makeLogRecord(
        {"msg": "failed", "levelno": logging.ERROR, "levelname": "ERROR", "exc_info": (type(error), error, None)}
    )
    LineHandler(lines_into(written), lambda _: "scheduler").emit(record)
    assert written[0].startswith("\x1b[31m07:00:03  scheduler  failed\n")
    assert "RuntimeError: no table" in click.unstyle(written[0])
