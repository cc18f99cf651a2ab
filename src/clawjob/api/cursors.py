"""Cursors as clients see them: opaque, bound to the list that gave them, and refused when a character is changed.

They carry no secret: whoever forges one sees another page of the same list, nothing else.
"""

from hashlib import sha256
from typing import Final

from clawjob.domain.errors import InvalidInputError

_DIGITS: Final = 12


def give_cursor(scope: str, inner: str | None) -> str | None:
    """Write a cursor of a list; None at its end."""
    return None if inner is None else f"{_check(scope, inner)}.{inner}"


def take_cursor(scope: str, cursor: str | None) -> str | None:
    """Read what `give_cursor` wrote for the same list.

    Raises:
        InvalidInputError: it is none of this list.
    """
    if cursor is None:
        return None
    check, _, inner = cursor.partition(".")
    if not inner or not cursor.isascii() or check != _check(scope, inner):
        raise wrong_cursor()
    return inner


def wrong_cursor() -> InvalidInputError:
    """Make the error for a cursor that is none of the list."""
    return InvalidInputError.of("cursor", "It is none that this list gave.", "Begin again without a cursor.")


def _check(scope: str, inner: str) -> str:
    return sha256(f"{scope}\n{inner}".encode()).hexdigest()[:_DIGITS]
