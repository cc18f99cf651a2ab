"""Reads the placeholders of a template: which there are, and what is wrong with the others.

    placeholder = "{{" ( quoted | "." name { "|" filter quoted } ) "}}"
    filter      = "shift" | "date"

Promise: a closed list of names and filters, one pass over the text, no step that depends on values.
"""

import re
from collections.abc import Collection, Iterator
from datetime import timedelta
from difflib import get_close_matches
from typing import Final, NamedTuple, TypeAlias

from clawjob.domain.date_format import DIRECTIVES, OF_TIMES, directives_in
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.showing import shown

DATES: Final = {"Today": 0, "Yesterday": -1, "YESTERDAY": -1, "Tomorrow": 1}
"""Names of dates, with their distance in days from the run's nominal day."""
MOMENTS: Final = ("ScheduledAt", "Now")
PLAIN: Final = ("RunID", "Attempt", "JobName")
BUILT_IN: Final = (*DATES, *MOMENTS, *PLAIN)
PARAMS: Final = "params."
"""Before the name of a declared param."""

LONGEST_SHIFT: Final = timedelta(days=3_660)
MAX_SHIFTS: Final = 8
LONGEST_PATTERN: Final = 100

_LITERAL_HOW: Final = 'for two braces as they are write {{"{{"}}'
_NAMES_HOW: Final = f"Known are {', '.join(f'.{name}' for name in BUILT_IN)} and .params.NAME for declared params."
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SHIFT: Final = re.compile(r"(?P<number>[+-]?[0-9]{1,9})(?P<unit>[smhdw])")
_TOKEN: Final = re.compile(
    r"""[ \t]*(?:
        (?P<close>\}\}) | (?P<pipe>\|) | \.(?P<name>[A-Za-z0-9._-]*) | (?P<word>[A-Za-z0-9._-]+)
        | (?P<quote>["'])(?P<quoted>.*?)(?P=quote) | (?P<other>.?)
    )""",
    re.VERBOSE | re.DOTALL,
)


class Shift(NamedTuple):
    """A step in time: civil days, or else seconds that pass."""

    days: int
    seconds: int


class Placeholder(NamedTuple):
    """What is put in place of a placeholder."""

    name: str
    """A built-in name, or `params.` and a declared one."""
    shifts: tuple[Shift, ...]
    pattern: str | None
    """The form of a date or time; None: the usual one."""


Part: TypeAlias = str | Placeholder


def parts_of(text: str, params: Collection[str], field: str) -> Iterator[Part]:
    """Split a text into what stays and what is replaced.

    Args:
        text: the template.
        params: names that the job declares.
        field: path of the text, for the error.

    Raises:
        InvalidInputError: a placeholder cannot be read, or names something unknown.
    """
    at = 0
    while (start := text.find("{{", at)) >= 0:
        if start > at:
            yield text[at:start]
        reader = _Reader(text, start, params)
        try:
            yield reader.read()
        except _FaultError as fault:
            raise InvalidInputError.of(field, fault.message, fault.remedy) from fault
        at = reader.at
    if at < len(text):
        yield text[at:]


class _FaultError(Exception):
    """A placeholder cannot be read."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)


class _Reader:
    """Reads one placeholder."""

    def __init__(self, text: str, start: int, params: Collection[str]) -> None:
        self._text = text
        self._start = start
        self._params = params
        self.at = start + len("{{")

    def read(self) -> Part:
        """The placeholder; `at` is behind it then."""
        if self._text.find("}}", self.at) < 0:
            raise _FaultError(f"{shown(self._text[self._start :])} has no closing }}}}.", f"Close it; {_LITERAL_HOW}.")
        kind, text = self._take()
        match kind:
            case "quoted":
                self._expect("close")
                return text
            case "word":
                raise _without_dot(text, self._params)
            case "name":
                return self._filtered(_known(text, self._params))
        raise self._unreadable()

    def _filtered(self, name: str) -> Placeholder:
        shifts: list[Shift] = []
        pattern: str | None = None
        while (token := self._take())[0] == "pipe":
            filter_name, argument = self._expect("word"), self._expect("quoted")
            if pattern is not None:
                raise _FaultError("Nothing can follow the filter date.", "Put date last.")
            if filter_name == "date":
                pattern = _pattern(argument, name)
            elif filter_name == "shift":
                shifts.append(_shift(argument, name))
            else:
                raise _FaultError(f"There is no filter {shown(filter_name)}.", 'Use shift "-1d" or date "%Y%m%d".')
        if token[0] != "close":
            raise self._unreadable()
        if len(shifts) > MAX_SHIFTS:
            raise _FaultError(f"There are more than {MAX_SHIFTS} shifts.", "Take them together.")
        return Placeholder(name, tuple(shifts), pattern)

    def _expect(self, kind: str) -> str:
        found, text = self._take()
        if found != kind:
            raise self._unreadable()
        return text

    def _take(self) -> tuple[str, str]:
        """The next token: its kind and its text."""
        found = _TOKEN.match(self._text, self.at)
        if found is None or found.lastgroup is None:
            raise self._unreadable()
        self.at = found.end()
        return found.lastgroup, found[found.lastgroup]

    def _unreadable(self) -> _FaultError:
        end = self._text.find("}}", self._start) + len("}}")
        return _FaultError(
            f"{shown(self._text[self._start : end])} cannot be read.",
            f'Write it like {{{{.Yesterday}}}} or {{{{.ScheduledAt | shift "-1d" | date "%Y%m%d"}}}}; {_LITERAL_HOW}.',
        )


def _known(name: str, params: Collection[str]) -> str:
    """The full form of a name that the job may use; built-in names win over params of the same name."""
    if name in BUILT_IN:
        return name
    if name.startswith(PARAMS) and name.removeprefix(PARAMS) in params:
        return name
    if name in params:
        return PARAMS + name
    raise _FaultError(f"There is no name {shown('.' + name)}.", _nearest(name, params) or _NAMES_HOW)


def _without_dot(word: str, params: Collection[str]) -> _FaultError:
    known = word in BUILT_IN or word in params
    remedy = f"Write {{{{.{word}}}}}." if known else _nearest(word, params) or _NAMES_HOW
    return _FaultError(f"{shown(word)} has no dot before it.", remedy)


def _nearest(name: str, params: Collection[str]) -> str | None:
    if len(name) > LONGEST_PATTERN:
        return None
    # The first of a spelling comes last, so that it stands: Yesterday, not YESTERDAY.
    names = (*BUILT_IN, *params, *(PARAMS + param for param in params))
    spelled = {known.casefold(): known for known in reversed(names)}
    near = get_close_matches(name.casefold(), spelled, n=1, cutoff=0.6)
    return f"Did you mean {{{{.{spelled[near[0]]}}}}}?" if near else None


def _shift(text: str, name: str) -> Shift:
    found = _SHIFT.fullmatch(text)
    if found is None:
        how = 'Write a whole number and one of s m h d w, such as "-1d" or "+90m".'
        raise _FaultError(f"{shown(text)} is no shift.", how)
    seconds = int(found["number"]) * _UNIT_SECONDS[found["unit"]]
    if abs(seconds) > LONGEST_SHIFT.total_seconds():
        raise _FaultError(f"{shown(text)} is too far.", f"Shift by at most {LONGEST_SHIFT.days} days.")
    _must_be_time(name, "shift")
    if found["unit"] in "dw":
        return Shift(seconds // _UNIT_SECONDS["d"], 0)
    if name in DATES:
        raise _FaultError(f".{name} is a date and has no time of day.", "Shift it by d or w, or use .ScheduledAt.")
    return Shift(0, seconds)


def _pattern(text: str, name: str) -> str:
    _must_be_time(name, "date")
    if not 1 <= len(text) <= LONGEST_PATTERN:
        raise _FaultError("The form of a date is empty or too long.", f"Give 1 to {LONGEST_PATTERN} characters.")
    for directive in directives_in(text):
        if directive not in DIRECTIVES:
            raise _FaultError(f"{shown(directive)} is not known in dates.", f"Known are {' '.join(DIRECTIVES)}.")
        if directive in OF_TIMES and name in DATES:
            raise _FaultError(f".{name} is a date and has no {directive}.", "Use .ScheduledAt for the time of day.")
    return text


def _must_be_time(name: str, filter_name: str) -> None:
    if name not in DATES and name not in MOMENTS:
        times = ", ".join(f".{known}" for known in (*DATES, *MOMENTS))
        raise _FaultError(f"The filter {filter_name} is for dates and times; .{name} is none.", f"Use it with {times}.")
