from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.domain.clock_offset import allowed_by, correction, offset_of

NOON = datetime(2024, 6, 5, 12, tzinfo=UTC)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def test_an_answer_allows_the_offsets_of_its_whole_second_and_its_way() -> None:
    interval = allowed_by(NOON + seconds(5), NOON + seconds(0.2), NOON + seconds(0.4))
    assert interval.low == seconds(4.6)
    assert interval.high == seconds(5.8)


def test_without_an_answer_there_is_no_offset_and_no_correction() -> None:
    assert offset_of([]) is None
    assert correction(None) == seconds(0)


@pytest.mark.parametrize(("offset", "corrected"), [(1.9, 0), (2.0, 0), (2.1, 2.1), (-2.1, -2.1), (-90.0, -90.0)])
def test_only_offsets_beyond_two_seconds_are_corrected(offset: float, corrected: float) -> None:
    """SCH-12: a clock 90 s behind is brought to the authority's."""
    assert correction(seconds(offset)) == seconds(corrected)


@given(
    offset=st.floats(-3600, 3600),
    starts=st.lists(st.floats(0, 3600), min_size=20, max_size=40),
    way=st.floats(0.001, 0.3),
    share=st.floats(0, 1),
)
def test_many_answers_find_the_true_offset_within_a_second(
    offset: float, starts: list[float], way: float, share: float
) -> None:
    intervals = []
    for start in sorted(starts):
        sent = NOON + seconds(start)
        read = sent + seconds(way * share) + seconds(offset)
        intervals.append(allowed_by(read.replace(microsecond=0), sent, sent + seconds(way)))
    found = offset_of(intervals)
    assert found is not None
    assert abs(found - seconds(offset)) <= seconds(0.5 + way)


def test_a_clock_that_was_set_is_followed_by_the_newest_answers() -> None:
    before = [allowed_by(NOON + seconds(n), NOON + seconds(n), NOON + seconds(n + 0.1)) for n in range(10)]
    after = [allowed_by(NOON + seconds(n + 60), NOON + seconds(n), NOON + seconds(n + 0.1)) for n in range(10, 13)]
    found = offset_of([*before, *after])
    assert found is not None
    assert abs(found - seconds(60)) <= seconds(1)
