"""Instants as the whole program writes them: aware UTC in code, ISO 8601 text of a fixed width in stores and messages.

The text sorts as the instants do.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Gives the present instant, aware UTC."""

_WIDTH = len("2024-03-10T07:00:00.000Z")


def to_text(instant: datetime) -> str:
    """Write an aware instant as `2024-03-10T07:00:00.000Z` (milliseconds, cut, not rounded)."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant!r} has no zone")
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_text(text: str) -> datetime:
    """Read what `to_text` wrote.

    Raises:
        ValueError: the text has another form.
    """
    if len(text) != _WIDTH or not text.endswith("Z"):
        raise ValueError(f"{text!r} is no instant of the form 2024-03-10T07:00:00.000Z")
    return datetime.fromisoformat(text)


def floor_seconds(duration: timedelta) -> int:
    """Whole seconds of a duration, rounded down: -0.5 s gives -1."""
    return duration // timedelta(seconds=1)
