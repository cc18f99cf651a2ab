"""What happens, as one line for each event: time, who, what, and the fields that name it.

The functions run in this process and log records; workers write JSON lines. Both come out in the same form.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

import click

from clawjob.runner.printable import printable

Clock = Callable[[], datetime]
Echo = Callable[[str], None]

_COLOURS: Final = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}
_WORTH_A_LINE: Final = ("dispatched", "missed", "rescued", "lost", "invalid", "failed")
_FIRST: Final = ("job", "run_id", "attempt", "outcome", "state", "worker")
_LEFT_OUT: Final = frozenset({"request_id", "method", "duration_ms", "memory_limit"})
"""Of use in a log that one searches, not in one that one reads."""
_WHO_WIDTH: Final = 9
_OF_EVERY_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OF_EVERY_LINE: Final = frozenset(
    {
        "level",
        "message",
        "timestamp",
        "service",
        "location",
        "sampling_rate",
        "xray_trace_id",
        "cold_start",
        "exception",
    }
    | {
        "function_arn",
        "function_name",
        "function_memory_size",
        "function_request_id",
        "correlation_id",
        "exception_name",
    }
    | {"stack_trace"}
)


class EventLines:
    """Writes lines, whole ones, from any thread."""

    def __init__(self, clock: Clock, echo: Echo = click.echo, *, held: bool = False) -> None:
        """Begin; `held` keeps lines back until `release`."""
        self._clock = clock
        self._echo = echo
        self._guard = threading.Lock()
        self._held: list[str] | None = [] if held else None

    def release(self) -> None:
        """Write what was kept back, and from now on everything at once."""
        with self._guard:
            held, self._held = self._held or (), None
            for text in held:
                self._write(text)

    def say(self, who: str, what: str, fields: Mapping[str, object] | None = None, level: str = "INFO") -> None:
        """Write one event."""
        known = {name: value for name, value in (fields or {}).items() if name not in _LEFT_OUT and value != who}
        text = f"{self._clock():%H:%M:%S}  {who:<{_WHO_WIDTH}}  {event_text(printable(what), known)}"
        colour = _COLOURS.get(level)
        with self._guard:
            styled = click.style(text, fg=colour) if colour else text
            if self._held is None:
                self._write(styled)
            else:
                self._held.append(styled)

    def _write(self, text: str) -> None:
        with suppress(BrokenPipeError):  # who read them went away; the service goes on
            self._echo(text)

    def worker_line(self, name: str, line: str) -> None:
        """Write what a worker wrote; what is no event of its log is passed on as it is."""
        try:
            read = json.loads(line)
        except ValueError:
            read = None
        if not isinstance(read, dict) or "message" not in read:
            if line.strip():
                self.say(name, line)
            return
        if read["message"] == "run started" or "_aws" in read:
            return  # "run taken" has just said it; a metric is no event
        fields = {key: value for key, value in read.items() if key not in _OF_EVERY_LINE}
        what = str(read["message"])
        if read.get("exception"):
            what = f"{what}\n{read['exception']}"
        self.say(name, what, fields, str(read.get("level", "INFO")))


class LineHandler(logging.Handler):
    """Turns the log records of this process into lines; `who` of a record is the thread that wrote it."""

    def __init__(self, lines: EventLines, who: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines
        self._who = who

    def filter(self, record: logging.LogRecord) -> bool:
        """Leave out what comes every few seconds and says that there is nothing to say."""
        fields = vars(record)
        if record.msg == "tick ended":
            return any(fields.get(name) for name in _WORTH_A_LINE)
        if record.msg == "request answered":
            return fields.get("method") not in {"GET", "HEAD"} or int(fields.get("status", 0)) >= 400
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        fields = {key: value for key, value in vars(record).items() if key not in _OF_EVERY_RECORD}
        what = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
            what = f"{what}\n{logging.Formatter().formatException(record.exc_info)}"
        elif record.exc_info and record.exc_info[1] is not None:
            fields["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._lines.say(self._who(record.threadName or ""), what, fields, record.levelname)


def event_text(what: str, fields: Mapping[str, object]) -> str:
    """Write an event's words, then its fields, the ones that name it first; what is not known is left out."""
    names = [name for name in _FIRST if name in fields] + [name for name in fields if name not in _FIRST]
    parts = [f"{name}={_value(fields[name])}" for name in names if fields[name] is not None and fields[name] != ""]
    return "  ".join([what, " ".join(parts)]) if parts else what


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if not text.isprintable():
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text
