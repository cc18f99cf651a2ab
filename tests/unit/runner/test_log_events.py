"""W-14: the output of runs keeps the limits of CloudWatch Logs."""

from hypothesis import given
from hypothesis import strategies as st

from clawjob.runner.log_events import (
    EVENT_OVERHEAD,
    MAX_BATCH_BYTES,
    MAX_BATCH_EVENTS,
    MAX_EVENT_BYTES,
    MAX_SPAN_MS,
    LogEvent,
    batches,
    events_of,
)


def texts(block: bytes) -> list[str]:
    return [text for _, text in events_of(block, 5)]


def test_each_line_is_one_event_at_the_time_of_reading() -> None:
    assert events_of(b"one\ntwo\n", 7) == [(7, "one"), (7, "two")]


def test_line_ends_of_windows_are_line_ends() -> None:
    assert texts(b"one\r\ntwo\r\n") == ["one", "two"]


def test_empty_lines_stay_as_a_blank_because_no_event_may_be_empty() -> None:
    assert texts(b"one\n\n\ntwo\n") == ["one", " ", " ", "two"]


def test_bad_bytes_are_replaced_and_the_rest_stays() -> None:
    assert texts(b"\xff\xfe caf\xe9\nafter \x97\n") == ["\ufffd\ufffd caf\ufffd", "after \ufffd"]


def test_a_line_with_other_separators_stays_one_event() -> None:
    assert texts("a\u2028b\x85c\x0bd\n".encode()) == ["a\u2028b\x85c\x0bd"]


def test_a_line_of_300_kilobytes_becomes_two_events() -> None:
    parts = texts(b"x" * 300_000 + b"\n")
    assert [len(part) for part in parts] == [MAX_EVENT_BYTES, 300_000 - MAX_EVENT_BYTES]


def test_a_line_of_1_2_megabytes_of_four_byte_characters_is_cut_between_characters() -> None:
    line = "😀" * 300_000
    parts = texts(line.encode() + b"\n")
    assert "".join(parts) == line
    assert all(len(part.encode()) <= MAX_EVENT_BYTES for part in parts)
    assert len(parts) == 5


def test_bad_bytes_that_grow_when_replaced_keep_the_limit() -> None:
    parts = texts(b"\xff" * 250_000 + b"\n")
    assert "".join(parts) == "\ufffd" * 250_000
    assert all(len(part.encode()) <= MAX_EVENT_BYTES for part in parts)


def test_twenty_thousand_lines_of_one_second_are_two_requests() -> None:
    assert [len(batch) for batch in batches([(1, "x")] * 20_000)] == [10_000, 10_000]


def test_a_request_counts_26_bytes_more_for_each_event() -> None:
    text = "x" * (1024 - EVENT_OVERHEAD)
    assert [len(batch) for batch in batches([(1, text)] * 1025)] == [1024, 1]


def test_a_run_of_25_hours_is_at_least_two_requests() -> None:
    hour = 3_600_000
    found = list(batches([(n * hour, "x") for n in range(26)]))
    assert [len(batch) for batch in found] == [24, 2]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.text(min_size=1, max_size=50)), max_size=200))
def test_every_request_keeps_all_limits_and_nothing_is_lost(events: list[LogEvent]) -> None:
    found = list(batches(events))
    assert sorted(event for batch in found for event in batch) == sorted(events)
    for batch in found:
        times = [at for at, _ in batch]
        assert times == sorted(times)
        assert times[-1] - times[0] < MAX_SPAN_MS
        assert len(batch) <= MAX_BATCH_EVENTS
        assert sum(len(text.encode()) + EVENT_OVERHEAD for _, text in batch) <= MAX_BATCH_BYTES


@given(st.binary(max_size=400))
def test_no_bytes_make_an_empty_event(block: bytes) -> None:
    assert all(texts(block + b"\n"))
