import json
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.domain.duration import PATTERN, duration_text, parse_duration, read_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1_800),
        ("1h30m", 5_400),
        ("45s", 45),
        ("PT30M", 1_800),
        ("PT1H30M", 5_400),
        ("P1D", 86_400),
        ("P1DT12H", 129_600),
        ("P2W", 1_209_600),
        ("1w2d3h4m5s", 788_645),
        ("24h", 86_400),
        ("90m", 5_400),
        ("0s", 0),
        ("1h0m0s", 3_600),
        ("007m", 420),
    ],
)
def test_text_with_units_is_a_duration(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("30", "has no unit"),
        ("٣٠", "has no unit"),
        ("", "empty"),
        ("  ", "empty"),
        ("-5m", "negative"),
        ("1.5h", "fraction"),
        ("1,5h", "fraction"),
        ("PT0.5S", "fraction"),
        ("30M", "no duration"),
        ("pt30m", "no duration"),
        ("30 m", "no duration"),
        (" 30m", "no duration"),
        ("30m\n", "no duration"),
        ("30m1h", "no duration"),
        ("1m1m", "no duration"),
        ("٣m", "no duration"),
        ("P", "no duration"),
        ("PT", "no duration"),
        ("P1DT", "no duration"),
        ("P1M", "no duration"),
        ("5 minutes", "no duration"),
        ("30m\0", "no duration"),
        ("999999999w", "hundred years"),
        ("9" * 5_000 + "s", "no duration"),
        (10**400, "hundred years"),
        (-1, "negative"),
        (30.0, "no duration"),
        (float("nan"), "no duration"),
        (True, "no duration"),
        (None, "no duration"),
        (["30m"], "no duration"),
        ({}, "no duration"),
    ],
)
def test_what_is_no_duration_is_refused_in_few_words(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        read_duration(value)
    assert len(str(refused.value)) < 160
    assert str(refused.value).isascii()


def test_whole_seconds_are_taken_as_json_integers() -> None:
    assert read_duration(90) == timedelta(seconds=90)
    assert read_duration(json.loads("0")) == timedelta(0)


@given(st.integers(0, 10**9))
def test_what_was_written_is_read_back(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse_duration(duration_text(duration)) == duration
    assert re.search(PATTERN, duration_text(duration))


@given(st.text("0123PTWDHMSwdhms.- ", max_size=9))
def test_the_pattern_for_json_schema_takes_exactly_what_is_read(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        assert re.fullmatch(PATTERN, text) is None
    else:
        assert re.fullmatch(PATTERN, text)


@pytest.mark.parametrize("duration", [timedelta(milliseconds=1_500), timedelta(seconds=-1)])
def test_a_fraction_or_a_negative_duration_has_no_text(duration: timedelta) -> None:
    with pytest.raises(ValueError, match="no whole number of seconds"):
        duration_text(duration)
