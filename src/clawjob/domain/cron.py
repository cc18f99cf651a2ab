"""Reads a five-field cron expression into numbers, and refuses what it cannot mean exactly.

Promise: the same text and job name give the same times in every process, and each refusal says what to write instead.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from clawjob.domain.draw import draw
from clawjob.domain.errors import InvalidInputError

MAX_LENGTH: Final = 512
_PATH: Final = "schedule.cron"


@dataclass(frozen=True, slots=True)
class Cron:
    """What an expression says; sets of numbers are bit masks (bit n is set if n is in the set)."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: int
    days: int
    """Days of the month that are written as numbers."""
    last_day: bool
    near_weekdays: tuple[int, ...]
    """Days written `15W`: the nearest Monday to Friday of the same month."""
    weekdays: int
    """Days of the week, 0 is Sunday."""
    nth_weekdays: frozenset[tuple[int, int]]
    """`1#2`, the second Monday, is (1, 2)."""
    last_weekdays: int
    days_must_agree: bool
    """A day must fit both day fields (one of them starts with `*`); else one of them is enough."""
    is_wildcard: bool
    """The text of the minute or the hour field starts with `*`: an interval, not a fixed time of day."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int]
    last: int
    """Highest number that may be written; one more than `high` where 7 is another name of Sunday."""
    hash_high: int
    """Highest number that a bare `H` may take."""

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def forms(self) -> str:
        names = f" or {'/'.join(list(self.names)[:3])}..." if self.names else ""
        return f"Use *, numbers {self.low}-{self.last}{names}, lists a,b, ranges a-b and steps /n."


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MINUTE = _Field("minute", 0, 59, {}, 59, 59)
_HOUR = _Field("hour", 0, 23, {}, 23, 23)
_DAY = _Field("day of month", 1, 31, {}, 31, 28)
_MONTH = _Field("month", 1, 12, {name: n for n, name in enumerate(_MONTHS, 1)}, 12, 12)
_WEEKDAY = _Field("day of week", 0, 6, {name: n for n, name in enumerate(_WEEKDAYS)}, 7, 6)

_ALIASES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}

_VALUE = r"[0-9]+|[A-Z]{3}"
_PLAIN = re.compile(rf"(?P<low>\*|{_VALUE})(?:-(?P<high>{_VALUE}))?(?:/(?P<step>[0-9]+))?")
_HASH = re.compile(r"H(?:\((?P<low>[0-9]+)-(?P<high>[0-9]+)\))?(?:/(?P<step>[0-9]+))?")
_NEAR = re.compile(r"(?P<day>[0-9]+)W")
_NTH = re.compile(rf"(?P<day>{_VALUE})#(?P<nth>[0-9]+)")
_LAST = re.compile(rf"L(?P<day>{_VALUE})")
_QUARTZ_LAST = re.compile(rf"(?P<day>{_VALUE})L")
_RANDOM = re.compile(r"R(?:[(/].*)?")


def parse(text: str, job_name: str = "") -> Cron:
    """Read an expression of five fields, or an alias such as `@daily`.

    Args:
        text: minute, hour, day of month, month, day of week; at most 512 characters.
        job_name: what `H` draws its numbers from; without it `H` is refused.

    Raises:
        InvalidInputError: naming `schedule.cron`.
    """
    return _parse(text, job_name if "h" in text[:MAX_LENGTH].lower() else "")


@lru_cache(maxsize=512)
def _parse(text: str, job_name: str) -> Cron:
    minute, hour, day, month, weekday = _split(text)
    days, last_day, near_weekdays = _read_days(day, job_name)
    weekdays, nth_weekdays, last_weekdays = _read_weekdays(weekday, job_name)
    if near_weekdays and not _is_open(weekday):
        raise _mixed(day, weekday)
    if (nth_weekdays or last_weekdays) and not _is_open(day):
        raise _mixed(weekday, day)
    return Cron(
        text=text,
        minutes=tuple(sorted(_numbers(_MINUTE, minute, job_name))),
        hours=tuple(sorted(_numbers(_HOUR, hour, job_name))),
        months=_mask(_numbers(_MONTH, month, job_name)),
        days=_mask(days),
        last_day=last_day,
        near_weekdays=tuple(sorted(near_weekdays)),
        weekdays=_mask(weekdays),
        nth_weekdays=frozenset(nth_weekdays),
        last_weekdays=_mask(last_weekdays),
        days_must_agree=_is_open(day) or _is_open(weekday),
        is_wildcard=minute.startswith("*") or hour.startswith("*"),
    )


def _split(text: str) -> list[str]:
    """The five fields in capitals, aliases resolved."""
    if len(text) > MAX_LENGTH:
        raise _refusal(f"The expression has {len(text)} characters.", f"Use at most {MAX_LENGTH}.")
    for position, character in enumerate(text, 1):
        if not (" " <= character <= "~" or character == "\t"):
            raise _refusal(
                f"Character {position} is U+{ord(character):04X}.",
                "Use one line of plain letters, digits, signs and blanks.",
            )
    words = text.upper().split()
    if not words:
        raise _refusal("The expression is empty.", "Write five fields, such as '0 2 * * *'.")
    if words[0].startswith("@"):
        return _resolve_alias(words)
    if len(words) != 5:
        raise _wrong_count(words)
    return words


def _resolve_alias(words: list[str]) -> list[str]:
    resolved = _ALIASES.get(words[0]) if len(words) == 1 else None
    if resolved is not None:
        return resolved.split()
    if words[0] == "@EVERY":
        raise _refusal("@every is no cron expression.", 'Use `every`, such as {"every": "5m"}.')
    known = ", ".join(alias.lower() for alias in _ALIASES)
    raise _refusal(f"{_shown(' '.join(words).lower())} is not known.", f"Use five fields or one of {known}.")


def _wrong_count(words: list[str]) -> InvalidInputError:
    message = f"The expression has {len(words)} fields, but only the five-field form is taken."
    if len(words) not in (6, 7):
        return _refusal(message, "Write minute, hour, day of month, month, day of week, such as '0 2 * * *'.")
    without_first = " ".join(words[1:6])
    if words[0] != "0":
        remedy = f"Without seconds it is '{without_first}'; for less than a minute use `every`."
    elif len(words) == 7:
        remedy = f"Without seconds and year it is '{without_first}'."
    else:
        remedy = f"Write '{without_first}' if the first field is seconds, '{' '.join(words[:5])}' if the last is."
    return _refusal(message, remedy)


def _read_days(text: str, job_name: str) -> tuple[set[int], bool, set[int]]:
    """Numbers, whether `L` is there, and the days written `15W`."""
    numbers: set[int] = set()
    near: set[int] = set()
    last = False
    for item in _items(_DAY, text):
        found = _NEAR.fullmatch(item)
        if item == "L":
            last = True
        elif found:
            near.add(_value(_DAY, item, found["day"]))
        elif item == "LW" or item.startswith("L-"):
            raise _refusal(
                f"{_shown(item)} in the day of month field cannot be computed.",
                "Use L for the last day or a day such as 28W.",
            )
        else:
            numbers |= _item_numbers(_DAY, item, job_name)
    return numbers, last, near


def _read_weekdays(text: str, job_name: str) -> tuple[set[int], set[tuple[int, int]], set[int]]:
    """Numbers, the days written `1#2` and those written `L5`."""
    numbers: set[int] = set()
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for item in _items(_WEEKDAY, text):
        if found := _NTH.fullmatch(item):
            count = int(found["nth"])
            if not 1 <= count <= 5:
                raise _refusal(f"{_shown(item)} asks for a week that no month has.", "Use #1 to #5.")
            nth.add((_value(_WEEKDAY, item, found["day"]) % 7, count))
        elif found := _LAST.fullmatch(item):
            last.add(_value(_WEEKDAY, item, found["day"]) % 7)
        elif found := _QUARTZ_LAST.fullmatch(item):
            raise _refusal(f"{_shown(item)} has its L at the wrong end.", f"Use L{found['day']}.")
        else:
            numbers |= _item_numbers(_WEEKDAY, item, job_name)
    return numbers, nth, last


def _numbers(field: _Field, text: str, job_name: str) -> set[int]:
    numbers: set[int] = set()
    for item in _items(field, text):
        numbers |= _item_numbers(field, item, job_name)
    return numbers


def _items(field: _Field, text: str) -> list[str]:
    if text == "?":
        if field not in (_DAY, _WEEKDAY):
            raise _refusal(f"'?' cannot stand in the {field.name} field.", "Use * for every value.")
        return ["*"]
    return text.split(",")


def _item_numbers(field: _Field, item: str, job_name: str) -> set[int]:
    """The numbers of one item of a list."""
    hashed = _HASH.fullmatch(item)
    if hashed:
        return _hashed_numbers(field, item, hashed, job_name)
    found = _PLAIN.fullmatch(item)
    if found is None or (found["low"] == "*" and found["high"]):
        raise _unreadable(field, item)
    step = _step(field, item, found["step"])
    if found["low"] == "*":
        low, high = field.low, field.high
    else:
        low = _value(field, item, found["low"])
        high = low
        if found["high"]:
            high = _value(field, item, found["high"])
        elif found["step"]:
            low = field.low + (low - field.low) % field.size
            high = field.high
    if high < low:
        high += field.size
    return {field.low + (value - field.low) % field.size for value in range(low, high + 1, step)}


def _hashed_numbers(field: _Field, item: str, found: re.Match[str], job_name: str) -> set[int]:
    if not job_name:
        raise _refusal(f"{_shown(item)} is drawn from the job's name, but there is no name.", "Give the name.")
    low, high = field.low, field.hash_high
    if found["low"]:
        low, high = _value(field, item, found["low"]), _value(field, item, found["high"])
        if low > high or high > field.high:
            raise _refusal(
                f"{_shown(item)} in the {field.name} field is no range.",
                f"Use H(a-b) with {field.low} <= a <= b <= {field.high}.",
            )
    drawn = draw(field.name, job_name)
    if not found["step"]:
        return {low + drawn % (high - low + 1)}
    step = _step(field, item, found["step"])
    return set(range(low + drawn % min(step, high - low + 1), high + 1, step))


def _value(field: _Field, item: str, text: str) -> int:
    """One number or name; 7 is a Sunday."""
    value = int(text) if text.isdigit() else field.names.get(text)
    if value is None:
        raise _unreadable(field, item)
    if not field.low <= value <= field.last:
        raise _refusal(f"{_shown(item)} is not in the range of the {field.name} field.", field.forms)
    return value


def _step(field: _Field, item: str, text: str | None) -> int:
    step = int(text) if text else 1
    if not 1 <= step <= field.size:
        raise _refusal(
            f"The step of {_shown(item)} in the {field.name} field does not fit.",
            f"Use a step from 1 to {field.size}; for other intervals use `every`.",
        )
    return step


def _is_open(text: str) -> bool:
    return text[0] in "*?"


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def _unreadable(field: _Field, item: str) -> InvalidInputError:
    where = f"in the {field.name} field"
    if _RANDOM.fullmatch(item):
        return _refusal(
            f"{_shown(item)} {where} would be another time at each look.",
            "Use H, which is drawn from the job's name and stays.",
        )
    if field.names and item.isalpha():
        near = item[:3] if item[:3] in field.names else ", ".join(field.names)
        return _refusal(f"{_shown(item)} {where} is not known.", f"Use {near}.")
    return _refusal(f"{_shown(item)} {where} cannot be read.", field.forms)


def _mixed(special: str, other: str) -> InvalidInputError:
    return _refusal(
        f"{_shown(special)} cannot be combined with {_shown(other)} in the other day field.",
        "Write * in one of them, or make two jobs.",
    )


def _refusal(message: str, remedy: str) -> InvalidInputError:
    return InvalidInputError.of(_PATH, message, remedy)


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:40]}...")
