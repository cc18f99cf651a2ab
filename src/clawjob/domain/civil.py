"""Finds and counts the wall times of a cron expression, without any zone.

Wall times are seconds since 1970-01-01T00:00 on a clock that never changes. Promise: every search jumps from month
to month, ends by itself, and counting needs no listing.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from itertools import pairwise

from clawjob.domain.cron import Cron
from clawjob.domain.zone import DAY, EPOCH_DAY, FAR_FUTURE, FAR_PAST

_FIRST_DAY = FAR_PAST // DAY
_LAST_DAY = FAR_FUTURE // DAY
_LAST_YEAR = date.fromordinal(_LAST_DAY + EPOCH_DAY).year
_FIRST_YEAR = date.fromordinal(_FIRST_DAY + EPOCH_DAY).year
_HOUR = 3600
_MINUTE = 60


class CivilTimes:
    """The wall times that an expression names."""

    __slots__ = ("_cron", "_day_masks", "_first", "_hours", "_last", "_minutes", "_per_day")

    def __init__(self, cron: Cron) -> None:
        self._cron = cron
        self._minutes = tuple(minute * _MINUTE for minute in cron.minutes)
        self._hours = cron.hours
        self._first = cron.hours[0] * _HOUR + self._minutes[0]
        self._last = cron.hours[-1] * _HOUR + self._minutes[-1]
        self._per_day = len(cron.hours) * len(cron.minutes)
        self._day_masks: dict[tuple[int, int], int] = {}

    def matches(self, wall: int) -> bool:
        """Whether the expression names this wall time."""
        day, second = divmod(wall, DAY)
        hour, rest = divmod(second, _HOUR)
        return rest in self._minutes and hour in self._hours and self._has_day(day)

    def first_from(self, wall: int) -> int | None:
        """The first wall time at or after the given one."""
        day, second = divmod(wall, DAY)
        if second <= self._last and self._has_day(day):
            return day * DAY + self._time_from(second)
        found = self._day_from(day + 1)
        return None if found is None else found * DAY + self._first

    def last_before(self, wall: int) -> int | None:
        """The last wall time before the given one."""
        day, second = divmod(wall, DAY)
        if second > self._first and self._has_day(day):
            return day * DAY + self._time_before(second)
        found = self._day_before(day)
        return None if found is None else found * DAY + self._last

    def count(self, start: int, end: int) -> int:
        """How many wall times are at or after `start` and before `end`."""
        if start >= end:
            return 0
        first_day, first_second = divmod(start, DAY)
        last_day, last_second = divmod(end, DAY)
        total = self._count_days(first_day, last_day) * self._per_day
        if self._has_day(first_day):
            total -= self._count_times(first_second)
        if self._has_day(last_day):
            total += self._count_times(last_second)
        return total

    def smallest_gap(self, start: int, end: int) -> int:
        """The shortest time between two following wall times from `start` to `end`; all of it without two."""
        gaps = [later - earlier for earlier, later in pairwise(self._minutes)]
        gaps += [
            (later - earlier) * _HOUR - self._minutes[-1] + self._minutes[0] for earlier, later in pairwise(self._hours)
        ]
        for earlier, later in pairwise(self._days(start // DAY, end // DAY)):
            gaps.append((later - earlier) * DAY - self._last + self._first)
            if later - earlier == 1:
                break
        return min(gaps, default=end - start)

    def _days(self, start: int, end: int) -> Iterator[int]:
        day = self._day_from(start)
        while day is not None and day < end:
            yield day
            day = self._day_from(day + 1)

    def _time_from(self, second: int) -> int:
        """The first time of day at or after one that is not after the day's last."""
        hour, rest = divmod(second, _HOUR)
        at = bisect_left(self._hours, hour)
        if self._hours[at] == hour:
            minute = bisect_left(self._minutes, rest)
            if minute < len(self._minutes):
                return hour * _HOUR + self._minutes[minute]
            at += 1
        return self._hours[at] * _HOUR + self._minutes[0]

    def _time_before(self, second: int) -> int:
        """The last time of day before one that is after the day's first."""
        hour, rest = divmod(second, _HOUR)
        at = bisect_left(self._hours, hour)
        if at < len(self._hours) and self._hours[at] == hour:
            minute = bisect_left(self._minutes, rest)
            if minute:
                return hour * _HOUR + self._minutes[minute - 1]
        return self._hours[at - 1] * _HOUR + self._minutes[-1]

    def _count_times(self, second: int) -> int:
        """How many times of day come before this second."""
        hour, rest = divmod(second, _HOUR)
        at = bisect_left(self._hours, hour)
        total = at * len(self._minutes)
        if at < len(self._hours) and self._hours[at] == hour:
            total += bisect_left(self._minutes, rest)
        return total

    def _has_day(self, day: int) -> bool:
        found = date.fromordinal(day + EPOCH_DAY)
        return bool(self._month_mask(found.year, found.month) >> found.day & 1)

    def _day_from(self, day: int) -> int | None:
        if day >= _LAST_DAY:
            return None
        found = date.fromordinal(max(day, _FIRST_DAY) + EPOCH_DAY)
        year, month, number = found.year, found.month, found.day
        while year <= _LAST_YEAR:
            rest = self._month_mask(year, month) >> number
            if rest:
                number += (rest & -rest).bit_length() - 1
                return date(year, month, number).toordinal() - EPOCH_DAY
            year, month, number = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return None

    def _day_before(self, day: int) -> int | None:
        if day <= _FIRST_DAY:
            return None
        found = date.fromordinal(min(day, _LAST_DAY) - 1 + EPOCH_DAY)
        year, month, number = found.year, found.month, found.day
        while year >= _FIRST_YEAR:
            rest = self._month_mask(year, month) & ((2 << number) - 1)
            if rest:
                return date(year, month, rest.bit_length() - 1).toordinal() - EPOCH_DAY
            year, month, number = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
        return None

    def _count_days(self, start: int, end: int) -> int:
        """How many days from `start` up to and without `end`."""
        first, last = date.fromordinal(start + EPOCH_DAY), date.fromordinal(end + EPOCH_DAY)
        total = 0
        year, month = first.year, first.month
        while (year, month) <= (last.year, last.month):
            mask = self._month_mask(year, month)
            if (year, month) == (last.year, last.month):
                mask &= (1 << last.day) - 1
            if (year, month) == (first.year, first.month):
                mask &= -(1 << first.day)
            total += mask.bit_count()
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return total

    def _month_mask(self, year: int, month: int) -> int:
        """The days of one month; bit n is set for day n."""
        if not self._cron.months >> month & 1:
            return 0
        weekday = date(year, month, 1).isoweekday() % 7
        length = _length(year, month)
        mask = self._day_masks.get((weekday, length))
        if mask is None:
            mask = self._day_masks[weekday, length] = _days_of_month(self._cron, weekday, length)
        return mask


def _length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days_of_month(cron: Cron, first_weekday: int, length: int) -> int:
    """The days that fit a month of this length whose first day is this weekday; bit n is set for day n."""
    by_number = cron.days & ((2 << length) - 2)
    if cron.last_day:
        by_number |= 1 << length
    for day in cron.near_weekdays:
        if day <= length:
            by_number |= 1 << _nearest_weekday(day, first_weekday, length)
    by_weekday = 0
    for day in range(1, length + 1):
        weekday = (first_weekday + day - 1) % 7
        if (
            cron.weekdays >> weekday & 1
            or (weekday, (day + 6) // 7) in cron.nth_weekdays
            or (day + 7 > length and cron.last_weekdays >> weekday & 1)
        ):
            by_weekday |= 1 << day
    return by_number & by_weekday if cron.days_must_agree else by_number | by_weekday


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """The Monday to Friday nearest to a day, within its month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
