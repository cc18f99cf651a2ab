"""Durations as people write them: `30m`, `1h30m`, `45s`, `PT30M`, or whole seconds.

Promise: reading what was written gives an equal duration; a number without a unit is never guessed at.
"""

import re
from datetime import timedelta
from typing import Final

from clawjob.domain.showing import shown

LONGEST: Final = timedelta(days=36_525)
"""A hundred years; more is taken for a mistake."""
HOW: Final = 'Write a number with a unit, such as "30m", "1h30m", "45s" or "PT30M", or whole seconds as a JSON integer'

_NUMBER: Final = "[0-9]{1,9}"
_SHORT: Final = "(?=[0-9])" + "".join(f"(?:({_NUMBER}){unit})?" for unit in "wdhms")
_DATE, _TIME = ("".join(f"(?:({_NUMBER}){unit})?" for unit in units) for units in ("WD", "HMS"))
_ISO: Final = f"P(?=[0-9T]){_DATE}(?:T(?=[0-9]){_TIME})?"
_FORMS: Final = (re.compile(_SHORT), re.compile(_ISO))
_SECONDS: Final = (604_800, 86_400, 3_600, 60, 1)
_SECOND: Final = timedelta(seconds=1)

PATTERN: Final = f"^(?:{_SHORT}|{_ISO})$".replace(f"({_NUMBER})", _NUMBER)
"""The same as a regular expression for JSON Schema."""


def parse_duration(text: str) -> timedelta:
    """Read a duration from text with units: weeks, days, hours, minutes, seconds, each at most once and in this order.

    Raises:
        ValueError: it is none; the error's text says why in a sentence.
    """
    for form in _FORMS:
        found = form.fullmatch(text)
        if found is not None:
            return _within(sum(int(n) * size for n, size in zip(found.groups(default="0"), _SECONDS, strict=True)))
    raise ValueError(_why_not(text))


def read_duration(value: object) -> timedelta:
    """Read a duration from a JSON value: text with units, or whole seconds.

    Raises:
        ValueError: it is none; the error's text says why in a sentence.
    """
    if isinstance(value, str):
        return parse_duration(value)
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no duration.")
    if value < 0:
        raise ValueError(f"{shown(value)} is negative.")
    return _within(value)


def duration_text(duration: timedelta) -> str:
    """Write whole seconds as `1h30m`; days are written as hours.

    Raises:
        ValueError: it is negative or has a fraction of a second.
    """
    seconds, rest = divmod(duration, _SECOND)
    if rest or seconds < 0:
        raise ValueError(f"{duration!r} is no whole number of seconds")
    hours, minutes = seconds // 3_600, seconds // 60 % 60
    parts = ((hours, "h"), (minutes, "m"), (seconds % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def _within(seconds: int) -> timedelta:
    if seconds > LONGEST // _SECOND:
        raise ValueError("It is longer than a hundred years.")
    return timedelta(seconds=seconds)


def _why_not(text: str) -> str:
    if not text.strip():
        return "It is empty."
    if text.isdecimal():
        return f"{shown(text)} has no unit."
    if text.startswith("-"):
        return f"{shown(text)} is negative."
    if any(mark in text for mark in ".,"):
        return f"{shown(text)} has a fraction; durations are whole numbers of a unit."
    return f"{shown(text)} is no duration."
