"""How far this machine's clock is from the services' own, told from the `Date` headers of their answers.

A header cut to whole seconds, sent some time between request and answer, allows an interval of offsets. Several answers
allow only what all of their intervals have in common; that soon is a fraction of a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

SAMPLES: Final = 20
"""Answers that count."""
TOLERANCE: Final = timedelta(seconds=2)
"""Offsets up to here are left alone: correcting them would add more error than it takes away."""
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OffsetInterval:
    """Offsets (service minus local) that one answer allows."""

    low: timedelta
    high: timedelta


def allowed_by(date: datetime, sent_at: datetime, received_at: datetime) -> OffsetInterval:
    """Tell which offsets an answer allows.

    The service read its clock in `[date, date + 1 s)`, at a local time between `sent_at` and `received_at`. An answer
    dated 12:00:05 to a request sent at 12:00:00.2 and answered at 12:00:00.4 allows 4.6 s to 5.8 s.
    """
    return OffsetInterval(low=date - received_at, high=date + _SECOND - sent_at)


def offset_of(intervals: Sequence[OffsetInterval]) -> timedelta | None:
    """The middle of what the newest intervals have in common; None without any.

    Older intervals that contradict newer ones are left out: a clock was set meanwhile.
    """
    common: OffsetInterval | None = None
    for interval in reversed(intervals[-SAMPLES:]):
        if common is None:
            common = interval
            continue
        low, high = max(common.low, interval.low), min(common.high, interval.high)
        if low >= high:
            break
        common = OffsetInterval(low, high)
    return None if common is None else (common.low + common.high) / 2


def correction(offset: timedelta | None) -> timedelta:
    """What to add to the local clock: nothing up to 2 s of offset, all of it beyond."""
    return timedelta(0) if offset is None or abs(offset) <= TOLERANCE else offset
