"""Time zones by their exact names, with their changes of offset, from the `tzdata` package.

Promise: the host's zone files and the process's zone have no influence on any answer. Stdlib's `ZoneInfo` reads the
same files but does not tell when an offset changes, and a schedule that counts a year of minutes must know.
"""

import pkgutil
import re
import struct
from bisect import bisect_right
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from clawjob.domain.errors import InvalidInputError

DAY: Final = 86_400
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
FAR_PAST: Final = int(datetime(1900, 1, 1, tzinfo=UTC).timestamp())
FAR_FUTURE: Final = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp())
"""Nothing is scheduled before the one or from the other on, so every search ends."""

_NOT_ZONES = frozenset({"Factory"})
_LONGEST_NAME = 64
_YEARS_AT_ONCE = 8


class Segment(NamedTuple):
    """A stretch of time, start inclusive and end exclusive in epoch seconds, with one offset from UTC."""

    start: int
    end: int
    offset: int
    offset_before: int
    """Offset of the segment before; equal to `offset` in the first one."""
    offset_after: int


class _Table(NamedTuple):
    changes: list[int]
    offsets: list[int]
    """One more than changes: before, between and after them."""
    listed_until: int
    """The instant of the file's last entry, be it a change of the offset or only of its name; then the rule holds."""


class Zone:
    """One time zone: the offset from UTC at each instant, in seconds."""

    __slots__ = ("_rule", "_table", "name")

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._table, footer = _read(data)
        self._rule = _read_rule(footer)

    def segment_at(self, instant: int) -> Segment:
        """The segment that holds an instant given in epoch seconds."""
        table = self._table
        if self._rule is not None and (not table.changes or instant >= table.changes[-1]):
            table = self._table = _extended(table, self._rule, min(instant, FAR_FUTURE))
        changes, offsets = table.changes, table.offsets
        index = bisect_right(changes, instant)
        last = index == len(changes)
        return Segment(
            changes[index - 1] if index else FAR_PAST,
            FAR_FUTURE if last else changes[index],
            offsets[index],
            offsets[index - 1] if index else offsets[0],
            offsets[index] if last else offsets[index + 1],
        )

    def offset_at(self, instant: int) -> int:
        """Seconds to add to UTC at an instant given in epoch seconds."""
        return self.segment_at(instant).offset


class _RuleDay(NamedTuple):
    """When in a year the offset changes: `Mm.w.d/time`."""

    month: int
    week: int
    weekday: int
    seconds: int

    def local_seconds(self, year: int) -> int:
        first = date(year, self.month, 1).toordinal()
        day = first + (self.weekday - first) % 7 + 7 * (self.week - 1)
        next_month = date(year + self.month // 12, self.month % 12 + 1, 1).toordinal()
        while day >= next_month:
            day -= 7
        return (day - EPOCH_DAY) * DAY + self.seconds


class _Rule(NamedTuple):
    """The yearly changes after the last one that a zone file lists."""

    standard: int
    summer: int
    starts: _RuleDay
    ends: _RuleDay

    def changes_in(self, year: int) -> list[tuple[int, int]]:
        return sorted(
            (
                (self.starts.local_seconds(year) - self.standard, self.summer),
                (self.ends.local_seconds(year) - self.summer, self.standard),
            )
        )


def _extended(table: _Table, rule: _Rule, instant: int) -> _Table:
    """The table with the rule's changes added up to some years after the instant."""
    changes, offsets = list(table.changes), list(table.offsets)
    last = max([table.listed_until, *changes[-1:]])
    for year in range(_year_of(last), _year_of(instant) + _YEARS_AT_ONCE):
        for change, offset in rule.changes_in(year):
            if change > last and offset != offsets[-1]:
                changes.append(change)
                offsets.append(offset)
    return table._replace(changes=changes, offsets=offsets)


_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)"
_TIME = r"[+-]?\d{1,3}(?::\d{2}){0,2}"
_FOOTER = re.compile(
    rf"{_NAME}(?P<standard>{_TIME})"
    rf"(?:{_NAME}(?P<summer>{_TIME})?,(?P<starts>M[\d.]+)(?:/(?P<starts_time>{_TIME}))?"
    rf",(?P<ends>M[\d.]+)(?:/(?P<ends_time>{_TIME}))?)?"
)


def _read_rule(footer: str) -> _Rule | None:
    """Read a zone file's last line, such as `CET-1CEST,M3.5.0,M10.5.0/3`; None without yearly changes."""
    found = _FOOTER.fullmatch(footer)
    if found is None:
        raise ValueError(f"cannot read the zone rule {footer!r}")
    if found["starts"] is None:
        return None
    standard = -_seconds(found["standard"])
    summer = -_seconds(found["summer"]) if found["summer"] else standard + 3600
    return _Rule(
        standard,
        summer,
        _rule_day(found["starts"], found["starts_time"]),
        _rule_day(found["ends"], found["ends_time"]),
    )


def _rule_day(text: str, time: str | None) -> _RuleDay:
    month, week, weekday = (int(part) for part in text[1:].split("."))
    return _RuleDay(month, week, weekday, _seconds(time or "2"))


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])


def _read(data: bytes) -> tuple[_Table, str]:
    """Read a TZif file (RFC 9636): the changes of offset that it lists, and its footer."""
    body = 44 + _block_size(data, 0, 4)
    times, types = struct.unpack(">2l", data[body + 32 : body + 40])
    at = body + 44
    instants = struct.unpack(f">{times}q", data[at : at + 8 * times])
    indexes = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offset_of = [struct.unpack(">l", data[at + 6 * n : at + 6 * n + 4])[0] for n in range(types)]
    footer = data[body + 44 + _block_size(data, body, 8) :].decode("ascii").strip()
    changes: list[int] = []
    offsets = [offset_of[0]]
    for instant, index in zip(instants, indexes, strict=True):
        if offset_of[index] != offsets[-1]:
            changes.append(instant)
            offsets.append(offset_of[index])
    return _Table(changes, offsets, instants[-1] if instants else FAR_PAST), footer


def _block_size(data: bytes, start: int, width: int) -> int:
    """Size of a TZif data block whose header starts at `start`; instants are `width` bytes wide."""
    if data[start : start + 4] != b"TZif":
        raise ValueError("not a zone file")
    utc, standard, leaps, times, types, chars = struct.unpack(">6l", data[start + 20 : start + 44])
    size: int = times * (width + 1) + types * 6 + chars + leaps * (width + 4) + standard + utc
    return size


def _year_of(instant: int) -> int:
    return date.fromordinal(instant // DAY + EPOCH_DAY).year


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All names that a job may use, aliases such as US/Pacific included."""
    listed = pkgutil.get_data("tzdata", "zones")
    if listed is None:
        raise LookupError("the tzdata package has no list of zones")
    return frozenset(listed.decode("ascii").split()) - _NOT_ZONES


def find_zone(name: str, field: str = "schedule.timezone") -> Zone:
    """The zone of exactly this name.

    Args:
        name: a name of the IANA time zone database, in its own spelling.
        field: path of the field that held the name, for the error.

    Raises:
        InvalidInputError: there is no such zone.
    """
    # The list is the guard: paths, directories and other tricks never reach a file.
    if name not in zone_names():
        raise InvalidInputError.of(field, f"{_shown(name)} is no time zone.", _remedy(name))
    return _load(name)


@lru_cache(maxsize=128)
def _load(name: str) -> Zone:
    data = pkgutil.get_data("tzdata", f"zoneinfo/{name}")
    if data is None:
        raise LookupError(f"the tzdata package has no file for {name}")
    return Zone(name, data)


def _shown(name: str) -> str:
    return ascii(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}...")


def _remedy(name: str) -> str:
    advice = "Use an exact name of the IANA database, such as Europe/Berlin or UTC"
    near = _of_same_offset(name) or _similar(name)
    return f"{advice}; did you mean {near}?" if near else f"{advice}."


def _of_same_offset(name: str) -> str | None:
    """Etc/GMT-8 for UTC+8: the database counts the other way."""
    found = re.fullmatch(r"(?:UTC|GMT)?(?P<sign>[+-])0?(?P<hours>[0-9]{1,2})(?::?00)?", name)
    if found is None:
        return None
    near = f"Etc/GMT{'-' if found['sign'] == '+' else '+'}{found['hours']}"
    return near if near in zone_names() else None


def _similar(name: str) -> str | None:
    from difflib import get_close_matches

    if not 3 <= len(name) <= _LONGEST_NAME:
        return None
    spelled = {known.casefold(): known for known in zone_names()}
    near = get_close_matches(name.casefold(), sorted(spelled), n=1, cutoff=0.8)
    return spelled[near[0]] if near else None
