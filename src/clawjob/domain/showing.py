"""Shows a value of a user inside a message: one line, ASCII, never long."""

from typing import Final

_LONGEST: Final = 60
_MANY_BITS: Final = 128


def shown(value: object) -> str:
    """Write a value as a message may hold it; what is long is cut, what is nested is only named."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return ascii(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}...")[: _LONGEST + 20]
        case int():
            return "A very large number" if value.bit_length() > _MANY_BITS else str(value)
        case float():
            return repr(value)
        case list():
            return "A list"
        case dict():
            return "An object"
    return f"A value of type {type(value).__name__:.30}"


def shown_name(name: str) -> str:
    """Write a name that a user chose as part of a field's path; what is not plain ASCII is escaped."""
    cut = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
    return cut if cut.isascii() and cut.isprintable() else ascii(cut)[1:-1][: _LONGEST + 20]
