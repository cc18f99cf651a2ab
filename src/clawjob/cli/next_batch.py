"""`clawjob next --batch`: a JSON line in, a JSON line out, in order, whatever the line holds."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import BinaryIO, Final, NoReturn

from clawjob.domain.errors import InvalidInputError
from clawjob.domain.instants import Clock
from clawjob.domain.schedule import Schedule, ScheduleSpec

MAX_COUNT: Final = 1000
DEFAULT_COUNT: Final = 5
MAX_LINE_BYTES: Final = 65_536
_KEYS: Final = ("cron", "timezone", "after", "count", "name")


def answer_lines(requests: BinaryIO, answers: BinaryIO, clock: Clock) -> None:
    """Answer each line as soon as it is there."""
    for line in _lines(requests):
        answers.write(json.dumps(answer(line, clock)).encode("ascii") + b"\n")
        answers.flush()


def answer(line: bytes, clock: Clock) -> dict[str, object]:
    """The fire times that one line asks for, or what is wrong with it."""
    try:
        request = _request(line)
        after = parse_instant(_text(request, "after")) if "after" in request else clock()
        count = _count(request)
        spec = ScheduleSpec(cron=_text(request, "cron"), timezone=_text(request, "timezone", "UTC"))
        schedule = Schedule(spec, _text(request, "name", ""))
        schedule.validate(after)
    except InvalidInputError as error:
        return {"error": str(error)}
    found = islice(schedule.after(after), count)
    return {"fire_times": [f"{occurrence.scheduled_at:%Y-%m-%dT%H:%M:%S}Z" for occurrence in found]}


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 instant with `Z` or an offset.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        return _aware(datetime.fromisoformat(text)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError.of(
            "after", f"{text[:60]!a} is no instant.", "Write it like 2024-03-10T07:00:00Z."
        ) from error


def _aware(instant: datetime) -> datetime:
    if instant.utcoffset() is None:
        raise ValueError("no zone")
    return instant


def _lines(requests: BinaryIO) -> Iterator[bytes]:
    """Lines without their ends; of a line that is too long only so much that this can be seen."""
    while line := requests.readline(MAX_LINE_BYTES + 2):
        rest = line
        while not rest.endswith(b"\n") and (rest := requests.readline(MAX_LINE_BYTES)):
            pass
        yield line.rstrip(b"\r\n")


def _request(line: bytes) -> dict[str, object]:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidInputError.of("", "The line is too long.", f"Use at most {MAX_LINE_BYTES} bytes.")
    try:
        request = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError.of("", "The line is no JSON in UTF-8.", _FORM) from error
    if not isinstance(request, dict):
        raise InvalidInputError.of("", "The line is no JSON object.", _FORM)
    for key in request:
        if key not in _KEYS:
            raise InvalidInputError.of("", f"{key[:60]!a} is not known.", f"Use {', '.join(_KEYS)}.")
    if request.get("name") is None:
        request.pop("name", None)
    return request


_FORM: Final = 'Write an object like {"cron": "0 2 * * *", "timezone": "UTC", "count": 3}.'


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _text(request: dict[str, object], key: str, default: str | None = None) -> str:
    value = request.get(key, default) if default is not None else request.get(key)
    if not isinstance(value, str):
        what = "It is not a text." if key in request else "It is missing."
        raise InvalidInputError.of(key, what, "Write a text in quotes.")
    return value


def _count(request: dict[str, object]) -> int:
    count = request.get("count", DEFAULT_COUNT)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_COUNT:
        raise InvalidInputError.of("count", "It is not in range.", f"Write a whole number 1 to {MAX_COUNT}.")
    return count
