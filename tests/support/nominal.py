"""Which instants a schedule has, found in another way than the product does: by walking over all minutes.

A wildcard expression (its minute or hour begins with `*`) runs whenever the wall clock shows one of its times; a fixed
one once for each civil time: moved to the end of a gap, and the first time in a fold.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)


def cron_instants(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """All instants after start, up to end, of an expression of numbers, lists, steps and ranges."""
    minutes, hours, days, months, weekdays = (
        _numbers(text, low, high)
        for text, (low, high) in zip(expression.split(), ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6)), strict=True)
    )
    place = ZoneInfo(zone)

    def fits(day: date) -> bool:
        return day.day in days and day.month in months and day.isoweekday() % 7 in weekdays

    if any(text.startswith("*") for text in expression.split()[:2]):
        found = {
            instant
            for instant in _minutes(start, end)
            if (local := instant.astimezone(place)).minute in minutes and local.hour in hours and fits(local.date())
        }
    else:
        found = {
            _instant(datetime.combine(day, time(hour, minute)), place)
            for day in _days(start, end)
            if fits(day)
            for hour in hours
            for minute in minutes
        }
    return sorted(instant for instant in found if start < instant <= end)


def every_instants(every: timedelta, start: datetime, end: datetime) -> list[datetime]:
    """All multiples of a duration since the epoch after start, up to end."""
    seconds = int(every.total_seconds())
    first = int(start.timestamp()) // seconds + 1
    return [datetime.fromtimestamp(n * seconds, UTC) for n in range(first, int(end.timestamp()) // seconds + 1)]


def _numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def _minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    instant = start.replace(second=0, microsecond=0)
    while instant <= end:
        yield instant
        instant += _MINUTE


def _days(start: datetime, end: datetime) -> Iterator[date]:
    day = start.date() - timedelta(days=2)
    while day <= end.date() + timedelta(days=2):
        yield day
        day += timedelta(days=1)


def _instant(civil: datetime, place: ZoneInfo) -> datetime:
    first = civil.replace(tzinfo=place).astimezone(UTC)
    if first.astimezone(place).replace(tzinfo=None) == civil:
        return first
    # Inside a gap: the first instant whose civil time is past it.
    instant = first - timedelta(hours=4)
    while instant.astimezone(place).replace(tzinfo=None) < civil:
        instant += _MINUTE
    return instant
