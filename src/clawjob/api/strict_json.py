"""Bodies as JSON without anybody's leniency: what two programs could read differently is refused, with its place."""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.showing import shown_name

MAX_DEPTH: Final = 32
_REPLACEMENT: Final = "\ufffd"


def read_object(text: str) -> dict[str, Any]:
    """Read one JSON object.

    Numbers that are not finite come through: whoever knows the field says what may stand there (`check_finite`).

    Raises:
        InvalidInputError: it is no JSON, no object, nested too deeply, or names a key twice.
    """
    if _REPLACEMENT in text:
        raise InvalidInputError.of("", "The body is not UTF-8.", "Encode it in UTF-8.")
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise InvalidInputError.of("", f"The body is no JSON ({where}).", "Send one JSON object.") from error
    except ValueError as error:
        raise InvalidInputError.of("", "The body holds a number that is too long.", "Write shorter numbers.") from error
    if not isinstance(value, dict):
        raise InvalidInputError.of("", "The body is no JSON object.", 'Send one object, such as {"name": "value"}.')
    problems = [Problem(path, "It holds half a surrogate pair.", "Write valid Unicode.") for path in _broken(value)]
    if problems:
        raise InvalidInputError(problems)
    return value


def check_finite(value: object) -> None:
    """Refuse NaN and infinities, which JSON does not have.

    Raises:
        InvalidInputError: names each place.
    """
    problems = [
        Problem(path, f"{found} is no number of JSON.", "Write a finite number.")
        for path, found in _walk(value)
        if isinstance(found, float) and not isfinite(found)
    ]
    if problems:
        raise InvalidInputError(problems[:50])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # add gives None
        raise InvalidInputError.of(shown_name(twice), "It is written twice.", "Write each name once.")
    return found


def _broken(value: object) -> Iterator[str]:
    """Paths of texts and names that no Unicode encoding can hold."""
    for path, found in _walk(value):
        texts = list(found) if isinstance(found, dict) else [found] if isinstance(found, str) else []
        if any(not _is_encodable(text) for text in texts):
            yield path


def _is_encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _walk(value: object) -> Iterator[tuple[str, object]]:
    """Every value with its path; without recursion, so that no nesting is too deep for it."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    while waiting:
        path, found, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise _too_deep()
        yield path, found
        if isinstance(found, dict):
            prefix = f"{path}." if path else ""
            waiting += [(f"{prefix}{shown_name(name)}", part, depth + 1) for name, part in reversed(found.items())]
        elif isinstance(found, list):
            waiting += [(f"{path}[{index}]", part, depth + 1) for index, part in reversed(list(enumerate(found)))]


def _too_deep() -> InvalidInputError:
    return InvalidInputError.of("", "The body is nested too deeply.", f"Keep it within {MAX_DEPTH} levels.")
