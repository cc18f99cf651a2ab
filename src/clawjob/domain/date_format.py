"""Dates and times as text, by a closed list of strftime's directives.

Promise: the same on every machine; names of days and months are English whatever the process's locale.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

_OF_DATES: Final[Mapping[str, Callable[[datetime], str]]] = {
    "Y": lambda at: f"{at.year:04}",
    "y": lambda at: f"{at.year % 100:02}",
    "m": lambda at: f"{at.month:02}",
    "d": lambda at: f"{at.day:02}",
    "j": lambda at: f"{at.timetuple().tm_yday:03}",
    "F": lambda at: at.date().isoformat(),
    "a": lambda at: _DAYS[at.weekday()][:3],
    "A": lambda at: _DAYS[at.weekday()],
    "b": lambda at: _MONTHS[at.month - 1][:3],
    "B": lambda at: _MONTHS[at.month - 1],
    "u": lambda at: str(at.isoweekday()),
    "G": lambda at: f"{at.isocalendar().year:04}",
    "V": lambda at: f"{at.isocalendar().week:02}",
    "%": lambda _: "%",
}
_OF_TIMES: Final[Mapping[str, Callable[[datetime], str]]] = {
    "H": lambda at: f"{at.hour:02}",
    "M": lambda at: f"{at.minute:02}",
    "S": lambda at: f"{at.second:02}",
    "T": lambda at: at.time().isoformat("seconds"),
    "s": lambda at: str(int(at.timestamp())),
    "z": lambda at: at.strftime("%z"),
}
_ALL: Final = {**_OF_DATES, **_OF_TIMES}
_DIRECTIVE: Final = re.compile("%(.?)", re.DOTALL)

DIRECTIVES: Final = tuple(f"%{letter}" for letter in _ALL)
OF_TIMES: Final = frozenset(f"%{letter}" for letter in _OF_TIMES)
"""Those that a date without a time of day does not have."""


def directives_in(pattern: str) -> list[str]:
    """The directives of a pattern, known or not; a lone `%` at its end is one."""
    return [found[0] for found in _DIRECTIVE.finditer(pattern)]


def formatted(moment: datetime, pattern: str) -> str:
    """Write an aware moment by a pattern of known directives."""
    return _DIRECTIVE.sub(lambda found: _ALL[found[1]](moment), pattern)
