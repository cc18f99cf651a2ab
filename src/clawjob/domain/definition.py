"""What a job is: the immutable definition that the store keeps and scheduler, worker and results read.

Promise: reading what was stored gives an equal definition, and what cannot be read is refused, never guessed. Values
are checked where a document comes in (`clawjob.domain.job`), types here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final, TypeAlias

from clawjob.domain.errors import UnreadableRecordError
from clawjob.domain.priority import DEFAULT_PRIORITY
from clawjob.domain.schedule import ScheduleSpec
from clawjob.domain.showing import shown, shown_name
from clawjob.domain.stored_version import check_version

ParamValue: TypeAlias = str | int | float | bool

DEFAULT_POOL: Final = "default"
STORED_VERSION: Final = 1
_SECOND: Final = timedelta(seconds=1)


class CatchUpMode(StrEnum):
    """What becomes of instants that passed while nothing could dispatch them."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


class Overlap(StrEnum):
    """What a run does when its instant comes and another run of the job has not ended."""

    ALLOW = "allow"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Which instants of a gap are run after it."""

    mode: CatchUpMode = CatchUpMode.LAST
    window: timedelta = timedelta(hours=24)
    """Instants older than this are not made up."""
    max: int = 100
    """At most so many, the newest."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When an attempt that ended badly is followed by another."""

    delays: tuple[timedelta, ...] = (timedelta(minutes=5),)
    """Before the first retry, the second, ...; the last one repeats."""
    factor: float = 1.0
    """Each further retry waits so many times as long as the one before."""
    cap: timedelta | None = None
    jitter: float = 0.1
    """Share of the delay by which it is spread; 0.1 is 10 % either way."""
    retry_on: tuple[int | str, ...] = ()
    """Exit codes and outcomes that are retried; empty: the usual ones."""
    fail_on: tuple[int | str, ...] = ()
    """Exit codes and outcomes that are never retried."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of one attempt; None: no limit of its own."""

    memory_bytes: int | None = None
    cpu_seconds: int | None = None
    open_files: int | None = None


def _no_texts() -> Mapping[str, str]:
    return {}


def _no_params() -> Mapping[str, ParamValue]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A named job: what to run, when, within which limits, and what to do when it goes wrong."""

    name: str
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=_no_texts)
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_no_texts)
    params: Mapping[str, ParamValue] = field(default_factory=_no_params)
    """Declared parameters with their defaults."""
    enabled: bool = True
    schedule: ScheduleSpec | None = None
    """None: it runs only when it is triggered."""
    timezone: str = "UTC"
    """The zone of a job without a schedule; a schedule has its own. Read `zone`."""
    timeout: timedelta = timedelta(hours=1)
    """Of each attempt."""
    grace: timedelta = timedelta(seconds=30)
    """From the request to end until it is killed."""
    queue_deadline: timedelta | None = None
    """A run that waited longer than this is not started."""
    catch_up: CatchUp = CatchUp()
    overlap: Overlap = Overlap.SKIP
    max_retry: int = 3
    """Attempts are at most one more."""
    retry: RetryPolicy = RetryPolicy()
    resources: Resources = Resources()
    pool: str = DEFAULT_POOL
    priority: int = DEFAULT_PRIORITY
    """1 to 5; those of 4 and 5 wait in the pool's high queue."""
    success_exit_codes: tuple[int, ...] = (0,)
    empty_exit_codes: tuple[int, ...] = ()
    """Exit codes that say: it went well and there was nothing."""
    min_items: int | None = None
    """A success with fewer items than this is `empty`."""

    @property
    def zone(self) -> str:
        """Name of the zone in which the job's dates are meant."""
        return self.timezone if self.schedule is None else self.schedule.timezone

    def to_stored(self) -> dict[str, object]:
        """Plain JSON values; defaults are left out."""
        return {"v": STORED_VERSION, **_write(self, _DEFINITION)}

    @classmethod
    def from_stored(cls, stored: Mapping[str, object]) -> "Definition":
        """Read what `to_stored` wrote.

        Raises:
            NewerRecordError: a newer version wrote it.
            UnreadableRecordError: a value is not what clawjob writes.
        """
        check_version("definition", stored.get("v") if isinstance(stored, Mapping) else None, STORED_VERSION)
        rest = {key: value for key, value in stored.items() if key != "v"}
        for key in ("name", "command"):
            if key not in rest:
                raise UnreadableRecordError(f"definition.{key}", "it is missing")
        return cls(**_read(rest, _DEFINITION, "definition"))


def stored_size(definition: Definition) -> int:
    """Bytes of the stored JSON text in UTF-8."""
    return len(json.dumps(definition.to_stored(), ensure_ascii=False, separators=(",", ":")).encode())


@dataclass(frozen=True, slots=True)
class _Form:
    """How a value looks in stored JSON, and back. `read` raises TypeError, ValueError or OverflowError."""

    write: Callable[[Any], object]
    read: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One attribute and its place in stored JSON."""

    attribute: str
    key: str
    form: _Form
    default: object
    """Left out when stored; MISSING, which equals nothing, for what a definition cannot be without."""


def _entries(kind: type[Any], forms: Mapping[str, _Form], in_seconds: tuple[str, ...] = ()) -> dict[str, _Entry]:
    entries = {}
    for known in fields(kind):
        key = f"{known.name}_seconds" if known.name in in_seconds else known.name
        default = known.default if known.default_factory is MISSING else known.default_factory()
        entries[key] = _Entry(known.name, key, forms[known.name], default)
    return entries


def _write(value: object, entries: Mapping[str, _Entry]) -> dict[str, object]:
    stored = {}
    for entry in entries.values():
        part = getattr(value, entry.attribute)
        if part != entry.default:
            stored[entry.key] = entry.form.write(part)
    return stored


def _read(stored: object, entries: Mapping[str, _Entry], path: str) -> dict[str, Any]:
    if not isinstance(stored, dict):
        raise UnreadableRecordError(path, f"{shown(stored)} is no object")
    values = {}
    for key, value in stored.items():
        entry = entries.get(key)
        if entry is None:
            raise UnreadableRecordError(f"{path}.{shown_name(str(key))}", "it is not known")
        try:
            values[entry.attribute] = entry.form.read(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise UnreadableRecordError(f"{path}.{key}", f"{shown(value)} is not what clawjob writes there") from error
    return values


def _same(value: object) -> object:
    return value


def _of_type(*kinds: type) -> Callable[[object], object]:
    def read(value: object) -> object:
        # By identity: a bool is no number.
        if type(value) not in kinds:
            raise TypeError
        return value

    return read


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise TypeError
    return float(value)


def _scalar(value: object) -> object:
    if isinstance(value, float) and not isfinite(value):
        raise ValueError
    return _SCALAR(value)


def _many(read: Callable[[object], object]) -> _Form:
    def read_all(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise TypeError
        return tuple([read(part) for part in value])

    return _Form(list, read_all)


def _mapping(read: Callable[[object], object]) -> _Form:
    def read_all(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise TypeError
        return {name: read(part) for name, part in value.items()}

    return _Form(dict, read_all)


def _choice(kind: type[StrEnum]) -> _Form:
    return _Form(lambda choice: choice.value, kind)


def _nested(kind: Callable[..., object], entries: Mapping[str, _Entry], path: str) -> _Form:
    return _Form(lambda value: _write(value, entries), lambda stored: kind(**_read(stored, entries, path)))


def _read_seconds(value: object) -> timedelta:
    return timedelta(seconds=_int(value))


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _read_schedule(value: object) -> ScheduleSpec:
    if not isinstance(value, dict):
        raise TypeError
    return ScheduleSpec.from_stored(value)


_SCALAR: Final = _of_type(str, int, float, bool)
_TEXT: Final = _Form(_same, _of_type(str))
_FLAG: Final = _Form(_same, _of_type(bool))
_WHOLE: Final = _Form(_same, _int)
_NUMBER: Final = _Form(_same, _number)
_DURATION: Final = _Form(lambda duration: duration // _SECOND, _read_seconds)
_ENDS: Final = _many(_of_type(int, str))

_CATCH_UP: Final = _entries(
    CatchUp, {"mode": _choice(CatchUpMode), "window": _DURATION, "max": _WHOLE}, in_seconds=("window",)
)
_RETRY: Final = _entries(
    RetryPolicy,
    {
        "delays": _Form(lambda delays: [delay // _SECOND for delay in delays], _many(_read_seconds).read),
        "factor": _NUMBER,
        "cap": _DURATION,
        "jitter": _NUMBER,
        "retry_on": _ENDS,
        "fail_on": _ENDS,
    },
    in_seconds=("delays", "cap"),
)
_RESOURCES: Final = _entries(Resources, {"memory_bytes": _WHOLE, "cpu_seconds": _WHOLE, "open_files": _WHOLE})
_DEFINITION: Final = _entries(
    Definition,
    {
        "name": _TEXT,
        "description": _TEXT,
        "labels": _mapping(_TEXT.read),
        "command": _TEXT,
        "args": _many(_TEXT.read),
        "env": _mapping(_TEXT.read),
        "params": _mapping(_scalar),
        "enabled": _FLAG,
        "schedule": _Form(lambda spec: spec.to_stored(), _read_schedule),
        "timezone": _TEXT,
        "timeout": _DURATION,
        "grace": _DURATION,
        "queue_deadline": _DURATION,
        "catch_up": _nested(CatchUp, _CATCH_UP, "definition.catch_up"),
        "overlap": _choice(Overlap),
        "max_retry": _WHOLE,
        "retry": _nested(RetryPolicy, _RETRY, "definition.retry"),
        "resources": _nested(Resources, _RESOURCES, "definition.resources"),
        "pool": _TEXT,
        "priority": _WHOLE,
        "success_exit_codes": _many(_int),
        "empty_exit_codes": _many(_int),
        "min_items": _WHOLE,
    },
    in_seconds=("timeout", "grace", "queue_deadline"),
)
