"""What each deployable reads from its environment, checked once at its start. A wrong value names its variable.

| variable | read by | meaning |
|---|---|---|
| `CLAWJOB_TABLE` | all | the table's name |
| `CLAWJOB_RUN_QUEUES` | all | JSON object: of each pool, the URLs of its run queues `high` and `low` |
| `CLAWJOB_RESULTS_QUEUE` | worker, api | URL of the results queue |
| `CLAWJOB_DEAD_TICKS` | api | URL of the dead letters of the tick, which no queue's redrive policy names; empty: none |
| `CLAWJOB_LOG_GROUP` | api, worker | log group that holds the runs' output; empty: there is none |
| `CLAWJOB_NAMESPACE` | all | of the metrics in CloudWatch (`clawjob`); the stack gives each stage its own |
| `CLAWJOB_TIMES` | all | JSON object: seconds for fields of `Times` that differ from the defaults |
| `CLAWJOB_CLOCK` | all, one machine only | `anchor_real:anchor_moved:speed` of a moved clock, in seconds since 1970 |
| `CLAWJOB_FUNCTION`, `CLAWJOB_NEW_VERSION` | compare, watch | the scheduler function's name, its new version's number |
| `CLAWJOB_ACCEPT_SCHEDULE_CHANGES` | compare | `true` lets a version through that decides otherwise |
| `CLAWJOB_POOL`, `CLAWJOB_SLOTS` | worker | the pool that it serves (`default`), runs at once (5) |
| `CLAWJOB_WORKER_NAME` | worker | its name; host and process id otherwise |
| `CLAWJOB_WORK_DIR` | worker | folder for working folders and logs |
| `CLAWJOB_UID_BASE` | worker | children of slot n get this uid plus n, its alone; empty: the worker's own |
| `CLAWJOB_MEMORY_RESERVE` | worker | bytes, or such as `256MiB`, that it needs itself (128MiB) |
| `CLAWJOB_SLOT_MEMORY` | worker | what a run without a memory limit counts; an equal share otherwise |
| `CLAWJOB_DRAIN_SECONDS` | worker | from the order to stop until runs are handed back (90) |
| `ECS_AGENT_URI` | worker | the container service's agent, asked to spare a worker that has runs; empty: none |
"""

import json
import math
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.priority import QueueClass
from clawjob.domain.times import Times

T = TypeVar("T")
D = TypeVar("D")
Environment = Mapping[str, str]

_POOL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
_SIZE: Final = re.compile(r"([0-9]{1,15})(KiB|MiB|GiB)?")
_UNITS: Final = {None: 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE_FORM: Final = "bytes, or such as 256MiB"
_DEFAULT_TIMES: Final = Times()
_RESERVE: Final = 128 * 1024**2
_DRAIN: Final = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """A clock that is set to another instant and runs at another speed; the real one by default."""

    anchor_real: float = 0.0
    anchor_moved: float = 0.0
    speed: float = 1.0

    def at(self, real: float) -> float:
        """What it shows when the real clock shows `real`; both in seconds since 1970."""
        return self.anchor_moved + (real - self.anchor_real) * self.speed


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """What every deployable needs."""

    table: str
    run_queues: Mapping[str, Mapping[QueueClass, str]]
    """URLs by pool and class."""
    results_queue: str = ""
    namespace: str = "clawjob"
    """Of the metrics."""
    times: Times = _DEFAULT_TIMES
    clock: ClockSetting = ClockSetting()

    @classmethod
    def from_environment(cls, environment: Environment | None = None) -> Self:
        """Read and check.

        Raises:
            InvalidInputError: names each variable that is missing or wrong.
        """
        reader = Reader(os.environ if environment is None else environment)
        values = cls.values_from(reader)
        if reader.problems:
            raise InvalidInputError(reader.problems)
        return cls(**values)

    @classmethod
    def values_from(cls, reader: "Reader") -> dict[str, Any]:
        """Read all fields; what is wrong is left with the reader."""
        return {
            "table": reader.required("CLAWJOB_TABLE", str, "the table's name"),
            "run_queues": reader.required(
                "CLAWJOB_RUN_QUEUES",
                _queues,
                'a JSON object such as {"default": {"high": "https://...", "low": "https://..."}}',
            ),
            "results_queue": reader.optional("CLAWJOB_RESULTS_QUEUE", str, "the results queue's URL", ""),
            "namespace": reader.optional("CLAWJOB_NAMESPACE", _namespace, "letters, digits and -", "clawjob"),
            "times": reader.optional("CLAWJOB_TIMES", _times, 'a JSON object such as {"tick": 60}', _DEFAULT_TIMES),
            "clock": reader.optional("CLAWJOB_CLOCK", _clock, "anchor_real:anchor_moved:speed", ClockSetting()),
        }

    @property
    def pools(self) -> frozenset[str]:
        """Names of all pools."""
        return frozenset(self.run_queues)


class SchedulerSettings(CoreSettings):
    """Of the scheduler function."""


class ResultsSettings(CoreSettings):
    """Of the results function."""


class AuthorizerSettings(CoreSettings):
    """Of the authorizer function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings(CoreSettings):
    """Of the function that watches a new scheduler after it has the ticks."""

    new_version: int = 0
    """Number of the scheduler's version that is deployed."""

    @classmethod
    def values_from(cls, reader: "Reader") -> dict[str, Any]:
        """Read all fields; what is wrong is left with the reader."""
        number = reader.required("CLAWJOB_NEW_VERSION", _within(1, 10**9), "the number of a version")
        return {**CoreSettings.values_from(reader), "new_version": number}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings(WatchSettings):
    """Of the function that compares a new scheduler with the old one."""

    function: str = ""
    """Name of the scheduler function."""
    accept_changes: bool = False

    @classmethod
    def values_from(cls, reader: "Reader") -> dict[str, Any]:
        """Read all fields; what is wrong is left with the reader."""
        return {
            **WatchSettings.values_from(reader),
            "function": reader.required("CLAWJOB_FUNCTION", str, "the scheduler function's name"),
            "accept_changes": reader.optional("CLAWJOB_ACCEPT_SCHEDULE_CHANGES", _switch, "true or false", False),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings(CoreSettings):
    """Of the API function."""

    log_group: str = ""
    dead_ticks: str = ""

    @classmethod
    def values_from(cls, reader: "Reader") -> dict[str, Any]:
        """Read all fields; what is wrong is left with the reader."""
        return {
            **CoreSettings.values_from(reader),
            "log_group": reader.optional("CLAWJOB_LOG_GROUP", str, "a log group's name", ""),
            "dead_ticks": reader.optional("CLAWJOB_DEAD_TICKS", str, "a queue's URL", ""),
        }


def _worker_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _work_dir() -> Path:
    return Path(tempfile.gettempdir()) / "clawjob"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(CoreSettings):
    """Of a worker."""

    log_group: str = ""
    pool: str = "default"
    slots: int = 5
    name: str = field(default_factory=_worker_name)
    work_dir: Path = field(default_factory=_work_dir)
    uid_base: int | None = None
    memory_reserve: int = _RESERVE
    """Bytes for the worker itself."""
    slot_memory: int | None = None
    """Bytes that a run without a limit of its own counts; None: an equal share."""
    drain: timedelta = _DRAIN
    agent_uri: str = ""
    """Of the container service's agent; empty: there is none."""

    @classmethod
    def values_from(cls, reader: "Reader") -> dict[str, Any]:
        """Read all fields; what is wrong is left with the reader."""
        values = {
            **CoreSettings.values_from(reader),
            "results_queue": reader.required("CLAWJOB_RESULTS_QUEUE", str, "the results queue's URL"),
            "log_group": reader.optional("CLAWJOB_LOG_GROUP", str, "a log group's name", ""),
            "pool": reader.optional("CLAWJOB_POOL", str, "a pool's name", "default"),
            "slots": reader.optional("CLAWJOB_SLOTS", _within(1, 100), "a whole number from 1 to 100", 5),
            "name": reader.optional("CLAWJOB_WORKER_NAME", _name, "up to 100 characters, no spaces", _worker_name()),
            "work_dir": reader.optional("CLAWJOB_WORK_DIR", _folder, "an absolute path", _work_dir()),
            "uid_base": reader.optional("CLAWJOB_UID_BASE", _within(1, 2**31), "a whole number above 0", None),
            "memory_reserve": reader.optional("CLAWJOB_MEMORY_RESERVE", _size, _SIZE_FORM, _RESERVE),
            "slot_memory": reader.optional("CLAWJOB_SLOT_MEMORY", _size, _SIZE_FORM, None),
            "drain": reader.optional("CLAWJOB_DRAIN_SECONDS", _seconds, "a number of seconds", _DRAIN),
            "agent_uri": reader.optional("ECS_AGENT_URI", _agent, "an address such as http://127.0.0.1:51678", ""),
        }
        pools = values["run_queues"]
        if pools and values["pool"] not in pools:
            known = ", ".join(sorted(pools))
            reader.refuse("CLAWJOB_POOL", f"{values['pool']!a} has no queue.", f"CLAWJOB_RUN_QUEUES has {known}.")
        return values


def times_text(times: Times) -> str:
    """Write `CLAWJOB_TIMES` so that reading it gives these times; empty for the defaults."""
    changed = {
        one.name: value.total_seconds() if isinstance(value, timedelta) else value
        for one in fields(Times)
        if (value := getattr(times, one.name)) != getattr(_DEFAULT_TIMES, one.name)
    }
    return json.dumps(changed) if changed else ""


class Reader:
    """Reads variables and collects what is wrong, so that all of it is told at once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.problems: list[Problem] = []

    def refuse(self, variable: str, message: str, remedy: str) -> None:
        """Note something wrong."""
        self.problems.append(Problem(variable, message, remedy))

    def required(self, variable: str, read: Callable[[str], T], form: str) -> T | None:
        """Read a variable that must be there; None, and a problem noted, when it is not or is wrong."""
        if not self._text(variable):
            self.refuse(variable, "It is not set.", f"Set it to {form}.")
            return None
        return self._read(variable, read, form)

    def optional(self, variable: str, read: Callable[[str], T], form: str, default: D) -> T | D | None:
        """Read a variable that may be missing or empty; None, and a problem noted, when it is wrong."""
        return self._read(variable, read, form) if self._text(variable) else default

    def _text(self, variable: str) -> str:
        return self._environment.get(variable, "").strip()

    def _read(self, variable: str, read: Callable[[str], T], form: str) -> T | None:
        text = self._text(variable)
        try:
            return read(text)
        except InvalidInputError as error:
            self.problems += [Problem(f"{variable}.{one.field}", one.message, one.remedy) for one in error.problems]
        except (KeyError, TypeError, ValueError, RecursionError):
            self.refuse(variable, f"It is {text!a:.80}.", f"Set it to {form}.")
        return None


def _queues(text: str) -> dict[str, dict[QueueClass, str]]:
    read = json.loads(text)
    if not isinstance(read, dict):
        raise TypeError
    if not read or not all(_POOL.fullmatch(pool) for pool in read):
        raise ValueError
    return {pool: _classes(urls) for pool, urls in read.items()}


def _classes(urls: object) -> dict[QueueClass, str]:
    if not isinstance(urls, dict):
        raise TypeError
    if set(urls) != set(QueueClass) or not all(isinstance(url, str) and url for url in urls.values()):
        raise ValueError
    return {queue: urls[queue] for queue in QueueClass}


def _times(text: str) -> Times:
    read = json.loads(text)
    if not isinstance(read, dict):
        raise TypeError
    known = {one.name: getattr(_DEFAULT_TIMES, one.name) for one in fields(Times)}
    changes: dict[str, Any] = {}
    for name, value in read.items():
        if name not in known:
            raise InvalidInputError.of(name, "There is no such time.", f"Known are {', '.join(known)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidInputError.of(name, "It is no number.", "Give a number of seconds.")
        changes[name] = _like(known[name], value)
    times = Times(**changes)
    times.check_relations()
    return times


def _like(default: object, value: float) -> timedelta | float:
    """Give a number the type that the field has."""
    if isinstance(default, timedelta):
        try:
            return timedelta(seconds=value)
        except OverflowError as error:
            raise ValueError from error
    return int(value) if isinstance(default, int) else value


def _clock(text: str) -> ClockSetting:
    parts = [float(part) for part in text.split(":")]
    if len(parts) != 3 or not all(map(math.isfinite, parts)) or parts[2] <= 0:
        raise ValueError
    return ClockSetting(*parts)


def _within(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and low <= int(text) <= high):
            raise ValueError
        return int(text)

    return read


def _switch(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _name(text: str) -> str:
    if len(text) > 100 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError
    return text


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise ValueError
    return text


def _folder(text: str) -> Path:
    if not text.startswith("/") or "\0" in text:
        raise ValueError
    return Path(text)


def _agent(text: str) -> str:
    if not text.startswith("http://") or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError
    return text


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS[match[2]]


def _seconds(text: str) -> timedelta:
    number = float(text)
    if not 0 <= number <= 86_400:
        raise ValueError
    return timedelta(seconds=number)
