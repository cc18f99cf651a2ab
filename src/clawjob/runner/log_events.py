"""Blocks of a child's output as events for CloudWatch Logs, within its limits (pure).

Limits: an event's bytes of UTF-8 plus 26 at most 262,144 (the older, lower bound); a request at most 1,048,576 bytes so
counted and 10,000 events, sorted by time, from less than 24 hours; no event is empty.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

EVENT_OVERHEAD: Final = 26
MAX_EVENT_BYTES: Final = 262_144 - EVENT_OVERHEAD
MAX_BATCH_BYTES: Final = 1_048_576
MAX_BATCH_EVENTS: Final = 10_000
MAX_SPAN_MS: Final = 24 * 3600 * 1000

LogEvent: TypeAlias = tuple[int, str]
"""Milliseconds since the epoch, and one line of text."""


def events_of(block: bytes, at_ms: int) -> list[LogEvent]:
    """Make one event of each line; a line over the bound becomes several."""
    text = block.decode("utf-8", "replace")
    lines = text.removesuffix("\n").split("\n")
    return [(at_ms, part) for line in lines for part in _parts(line.removesuffix("\r"))]


def missing_mark(count: int) -> str:
    """The event that stands where output is missing."""
    return f"[clawjob] {count} bytes of output are missing here: more was written than the log service took"


def _parts(line: str) -> Iterable[str]:
    if len(line) * 4 <= MAX_EVENT_BYTES or len(encoded := line.encode()) <= MAX_EVENT_BYTES:
        return (line or " ",)
    parts = []
    start = 0
    while start < len(encoded):
        part = encoded[start : start + MAX_EVENT_BYTES].decode("utf-8", "ignore")
        parts.append(part)
        start += len(part.encode())
    return parts


def batches(events: Iterable[LogEvent]) -> Iterator[list[LogEvent]]:
    """Group events into requests."""
    batch: list[LogEvent] = []
    size = 0
    for event in sorted(events, key=_time):
        cost = text_bytes(event) + EVENT_OVERHEAD
        if batch and (
            size + cost > MAX_BATCH_BYTES or len(batch) >= MAX_BATCH_EVENTS or event[0] - batch[0][0] >= MAX_SPAN_MS
        ):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += cost
    if batch:
        yield batch


def text_bytes(event: LogEvent) -> int:
    """Return the bytes of an event's text."""
    text = event[1]
    return len(text) if text.isascii() else len(text.encode())


def _time(event: LogEvent) -> int:
    return event[0]
