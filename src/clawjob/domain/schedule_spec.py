"""What a job document says about its schedule, and its stored form.

Promise: reading what was written gives an equal value, and anything else is refused, never guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from clawjob.domain.cron_timeline import Missing, Repeated
from clawjob.domain.errors import UnreadableRecordError
from clawjob.domain.instants import from_text, to_text

_SECOND: Final = timedelta(seconds=1)
_ZERO: Final = timedelta(0)
_INSTANTS: Final = ("at", "start_at", "end_at")
_DURATIONS: Final = ("every", "offset", "jitter")
_KEYS: Final = frozenset(
    ("cron", "timezone", "missing", "repeated", *_INSTANTS, *(f"{name}_seconds" for name in _DURATIONS))
)


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """Exactly one of `cron`, `every` and `at`, and the rest."""

    cron: str | None = None
    every: timedelta | None = None
    """At least a second, whole seconds, counted from the epoch."""
    offset: timedelta = _ZERO
    """With `every`: how far each instant lies behind the multiple of `every`; less than `every`."""
    at: datetime | None = None
    """Aware, whole seconds."""
    timezone: str = "UTC"
    missing: Missing = Missing.SHIFT
    repeated: Repeated = Repeated.FIRST
    start_at: datetime | None = None
    """Inclusive."""
    end_at: datetime | None = None
    """Inclusive."""
    jitter: timedelta = _ZERO

    def to_stored(self) -> dict[str, object]:
        """Plain JSON values; defaults are left out."""
        stored: dict[str, object] = {}
        if self.cron is not None:
            stored["cron"] = self.cron
        for name in _INSTANTS:
            instant: datetime | None = getattr(self, name)
            if instant is not None:
                stored[name] = to_text(instant)
        for name in _DURATIONS:
            duration: timedelta | None = getattr(self, name)
            if duration:
                stored[f"{name}_seconds"] = duration // _SECOND
        if self.timezone != "UTC":
            stored["timezone"] = self.timezone
        if self.missing is not Missing.SHIFT:
            stored["missing"] = self.missing.value
        if self.repeated is not Repeated.FIRST:
            stored["repeated"] = self.repeated.value
        return stored

    @classmethod
    def from_stored(cls, stored: Mapping[str, object]) -> "ScheduleSpec":
        """Read what `to_stored` wrote.

        Raises:
            UnreadableRecordError: a value has a wrong type, or a key is not known.
        """
        for key in stored:
            if key not in _KEYS:
                raise UnreadableRecordError("schedule", f"{key!a:.60} is not known")
        return cls(
            cron=_text(stored, "cron"),
            every=_duration(stored, "every_seconds"),
            offset=_duration(stored, "offset_seconds") or _ZERO,
            at=_instant(stored, "at"),
            timezone=_text(stored, "timezone") or "UTC",
            missing=Missing(_choice(stored, "missing", Missing.SHIFT)),
            repeated=Repeated(_choice(stored, "repeated", Repeated.FIRST)),
            start_at=_instant(stored, "start_at"),
            end_at=_instant(stored, "end_at"),
            jitter=_duration(stored, "jitter_seconds") or _ZERO,
        )


def _text(stored: Mapping[str, object], key: str) -> str | None:
    value = stored.get(key)
    if isinstance(value, str) or key not in stored:
        return value if isinstance(value, str) else None
    raise _unreadable(key, value)


def _duration(stored: Mapping[str, object], key: str) -> timedelta | None:
    if key not in stored:
        return None
    value = stored[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unreadable(key, value)
    try:
        return timedelta(seconds=value)
    except OverflowError as error:
        raise _unreadable(key, value) from error


def _instant(stored: Mapping[str, object], key: str) -> datetime | None:
    text = _text(stored, key)
    if text is None:
        return None
    try:
        return from_text(text)
    except ValueError as error:
        raise _unreadable(key, text) from error


def _choice(stored: Mapping[str, object], key: str, default: Missing | Repeated) -> str:
    text = _text(stored, key) or default.value
    if text not in {choice.value for choice in type(default)}:
        raise _unreadable(key, text)
    return text


def _unreadable(key: str, value: object) -> UnreadableRecordError:
    return UnreadableRecordError(f"schedule.{key}", f"{value!a:.60} is not what clawjob writes there")
