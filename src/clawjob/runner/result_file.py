"""The file in which a child may say what it brought: `{"items": 12, "stats": {...}, "values": {...}}`.

The child is not trusted: the file is opened without following a link or waiting for a pipe, read up to a bound, and a
bad one is a problem in words, never an error of the worker.
"""

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NAME: Final = "clawjob-result.json"
MAX_FILE_BYTES: Final = 256 * 1024
MAX_OUTPUT_BYTES: Final = 4096
"""Of the JSON text that is kept of stats and values together."""
MAX_ITEMS: Final = 10**15
_MAX_NUMBER: Final = 10**18
_MAX_DEPTH: Final = 10
_FIELDS: Final = frozenset({"items", "stats", "values"})


class _BadResultError(Exception):
    """The file cannot be taken; the message says why."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What a child said of its run."""

    items: int | None = None
    outputs: dict[str, object] = field(default_factory=dict)
    """`stats` and `values`, where given; at most 4 KiB of JSON."""
    problem: str = ""
    """What was wrong with the file, in words; empty for a good file and for none."""


def read_result(folder: str | Path, uid: int | None = None) -> ChildResult:
    """Read the result file in a run's working folder, after the run's processes have ended.

    Args:
        folder: the working folder.
        uid: the user that must own the file; None accepts any.
    """
    try:
        text = _read(folder, uid)
        return ChildResult() if text is None else _understand(text)
    except _BadResultError as error:
        return ChildResult(problem=f"the result file was not taken: {error}")


def _read(folder: str | Path, uid: int | None) -> bytes | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(f"{folder}/{NAME}", flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _BadResultError(error.strerror or "it cannot be opened") from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _BadResultError("it is no plain file")
        if facts.st_nlink != 1 or (uid is not None and facts.st_uid != uid):
            raise _BadResultError("it is a link to another file")
        if facts.st_size > MAX_FILE_BYTES:
            raise _BadResultError(f"it has {facts.st_size} bytes, at most {MAX_FILE_BYTES} are read")
        return os.read(descriptor, MAX_FILE_BYTES)
    except OSError as error:
        raise _BadResultError(error.strerror or "it cannot be read") from None
    finally:
        os.close(descriptor)


def _understand(text: bytes) -> ChildResult:
    if not text.strip():
        raise _BadResultError("it is empty")
    try:
        document = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise _BadResultError("it is not UTF-8") from None
    except RecursionError:
        raise _BadResultError("it is nested too deeply") from None
    except ValueError as error:
        raise _BadResultError(f"it is no JSON ({error})"[:200]) from None
    if not isinstance(document, dict):
        raise _BadResultError("it holds no JSON object")
    items = _items(document.get("items"))
    outputs: dict[str, object] = {}
    for name in ("values", "stats"):
        part = document.get(name)
        if part is None:
            continue
        if not isinstance(part, dict):
            raise _BadResultError(f"{name} is no JSON object")
        _check(part, name, 0)
        outputs[name] = part
    unknown = sorted(set(document) - _FIELDS)
    problems = [f"unknown field {unknown[0][:40]!r} was left out of the result"] if unknown else []
    return _bounded(items, outputs, problems)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _items(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _BadResultError("items is no whole number")
    if not 0 <= value <= MAX_ITEMS:
        raise _BadResultError(f"items must lie from 0 to {MAX_ITEMS}")
    return value


def _check(value: object, where: str, depth: int) -> None:
    """Refuse what could be stored or sent by nobody: endless numbers, half characters, deep nesting."""
    if depth > _MAX_DEPTH:
        raise _BadResultError(f"{where} is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check(key, where, depth)
            _check(inner, f"{where}.{key[:40]}", depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, where, depth + 1)
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise _BadResultError(f"{where} holds half a character")
    elif isinstance(value, int | float) and not abs(value) <= _MAX_NUMBER:
        # Written so that it also catches what is no number; 1e400 is read as infinity.
        raise _BadResultError(f"{where} holds a number beyond 10^18")


def _bounded(items: int | None, outputs: dict[str, object], problems: list[str]) -> ChildResult:
    """Keep the values whole or not at all, and as many of the stats as there is room for."""
    if _size(outputs.get("values", {})) > MAX_OUTPUT_BYTES - 64:
        problems.append(f"values were left out: over {MAX_OUTPUT_BYTES} bytes")
        del outputs["values"]
    stats = outputs.get("stats")
    if isinstance(stats, dict) and _size(outputs) > MAX_OUTPUT_BYTES:
        kept: dict[str, object] = {}
        room = MAX_OUTPUT_BYTES - _size({**outputs, "stats": {}})
        for name, value in stats.items():
            # A separator belongs to each entry; the braces are in the room already.
            cost = _size({name: value})
            if cost <= room:
                kept[name] = value
                room -= cost
        outputs["stats"] = kept
        problems.append(f"{len(stats) - len(kept)} of {len(stats)} stats were left out: over {MAX_OUTPUT_BYTES} bytes")
    return ChildResult(items, outputs, "; ".join(problems))


def _size(value: object) -> int:
    return len(json.dumps(value).encode())
