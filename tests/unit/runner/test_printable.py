"""Output of a child shown in a terminal is harmless (T-11)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.runner.printable import printable, printable_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, äöü 名前 😀", "plain text, äöü 名前 😀"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("50 %\r100 %", "50 %\\x0d100 %"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\0b\x7f", "a\\x00b\\x7f"),
        ("abc\u202ecba", "abc\\u202ecba"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\U000e0041", "a\\U000e0041"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_line_stays_one_line() -> None:
    assert printable_line("run\r\n2024-01-01 ERROR fake\x1b[2K\r\n") == "run\\x0d\\n2024-01-01 ERROR fake\\x1b[2K"


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_is_left_that_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not {c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}} - {"\t", "\n"}
    assert not any(unicodedata.bidirectional(c) in {"LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI"} for c in shown)
    shown.encode()
    assert "\n" not in printable_line(text)
