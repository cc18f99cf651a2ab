"""Text from a child made harmless for a terminal: it moves no cursor, fakes no line and turns no direction."""

from typing import Final

_TURNS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that change the direction in which text is shown, so that it reads as what it is not."""
_BREAKS: Final = (0x2028, 0x2029)
_INVISIBLE: Final = (0x200B, 0x2060, 0xFEFF, *range(0xFFF9, 0xFFFC))


def _written(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_SPELLED: Final = {
    code: _written(code)
    for code in (*range(0x20), *range(0x7F, 0xA0), *_TURNS, *_BREAKS, *_INVISIBLE, *range(0xD800, 0xE000))
    if code not in (0x09, 0x0A)
}
_SPELLED_WITH_NEWLINE: Final = {**_SPELLED, 0x0A: "\\n"}
_TAGS: Final = range(0xE0000, 0xE0080)


def printable(text: str) -> str:
    """Spell out control characters; tabs and line ends stay, and CR LF becomes a line end."""
    return _spell(text.replace("\r\n", "\n"), _SPELLED)


def printable_line(text: str) -> str:
    """The same for what must stay one line, such as a name, a reason or one line of a log."""
    return _spell(text.rstrip("\r\n"), _SPELLED_WITH_NEWLINE)


def _spell(text: str, table: dict[int, str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    spelled = text.translate(table)
    if any(ord(character) in _TAGS for character in spelled):
        spelled = "".join(f"\\U{ord(c):08x}" if ord(c) in _TAGS else c for c in spelled)
    return spelled
