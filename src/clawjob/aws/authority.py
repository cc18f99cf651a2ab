"""The clock guard: watches the `Date` headers of AWS's answers, and corrects a local clock that is clearly wrong.

Every process has one clock of the same authority then, and a lease that one machine judges is the lease that another
wrote.
"""

import threading
from collections import deque
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from clawjob.domain.clock_offset import SAMPLES, OffsetInterval, allowed_by, correction, offset_of
from clawjob.domain.instants import Clock


class ClockGuard:
    """Measures the offset of a clock to the authority's, call by call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._intervals: deque[OffsetInterval] = deque(maxlen=SAMPLES)
        self._lock = threading.Lock()
        self._sent = threading.local()
        self._correction = timedelta(0)
        self.measured = threading.Event()
        """Set with the first measurement; no run is claimed before."""

    def watch(self, client: Any) -> None:
        """Measure with every call of a client."""
        client.meta.events.register("request-created", self._created)
        client.meta.events.register("response-received", self._received)

    def now(self) -> datetime:
        """The corrected present instant."""
        return self._clock() + self._correction

    def offset(self) -> timedelta | None:
        """Authority minus local clock; None before the first measurement."""
        with self._lock:
            return offset_of(tuple(self._intervals))

    def _created(self, **_: object) -> None:
        # Made anew for each retry, so an answer is always measured from its own request.
        self._sent.at = self._clock()

    def _received(self, response_dict: Any = None, **_: object) -> None:
        received_at = self._clock()
        sent_at: datetime | None = getattr(self._sent, "at", None)
        date = _date_of(response_dict)
        if date is None or sent_at is None:
            return
        with self._lock:
            self._intervals.append(allowed_by(date, sent_at, received_at))
            self._correction = correction(offset_of(tuple(self._intervals)))
        self.measured.set()


def _date_of(response: Any) -> datetime | None:
    headers = (response or {}).get("headers") or {}
    text = headers.get("Date") or headers.get("date")
    return _parsed(str(text)) if text else None


@lru_cache(maxsize=8)
def _parsed(text: str) -> datetime | None:
    # Hundreds of answers of one second carry the same text.
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
