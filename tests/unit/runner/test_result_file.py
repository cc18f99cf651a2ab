"""The file of a child's result: what is taken, and that nothing a child writes there harms the worker (C8)."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.runner.result_file import MAX_FILE_BYTES, MAX_OUTPUT_BYTES, NAME, ChildResult, read_result


def result_of(folder: Path, text: str | bytes) -> ChildResult:
    (folder / NAME).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_result(folder)


def test_no_file_is_no_result_and_no_problem(tmp_path: Path) -> None:
    assert read_result(tmp_path) == ChildResult()


def test_items_stats_and_values_are_taken(tmp_path: Path) -> None:
    text = '{"items": 12, "stats": {"pages": 3, "status/200": 2.5}, "values": {"next": ["a", null, true]}}'
    assert result_of(tmp_path, text) == ChildResult(
        12, {"values": {"next": ["a", None, True]}, "stats": {"pages": 3, "status/200": 2.5}}
    )


def test_each_part_may_be_missing(tmp_path: Path) -> None:
    assert result_of(tmp_path, "{}") == ChildResult()
    assert result_of(tmp_path, '{"items": 0}') == ChildResult(0)
    assert result_of(tmp_path, '{"items": null, "stats": null}') == ChildResult()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("{", "no JSON"),
        ("[1]", "no JSON object"),
        ("12", "no JSON object"),
        (b"\xff\xfe{}", "not UTF-8"),
        ('{"items": "12"}', "items is no whole number"),
        ('{"items": 1.0}', "items is no whole number"),
        ('{"items": true}', "items is no whole number"),
        ('{"items": -1}', "items must lie from 0"),
        ('{"items": 1' + "0" * 40 + "}", "items must lie from 0"),
        ('{"items": ' + "9" * 5000 + "}", "no JSON"),
        ('{"stats": []}', "stats is no JSON object"),
        ('{"values": "x"}', "values is no JSON object"),
        ('{"values": {"a": NaN}}', "NaN"),
        ('{"values": {"a": -Infinity}}', "Infinity"),
        ('{"values": {"a": 1e400}}', "beyond 10^18"),
        ('{"values": {"a": [1' + "0" * 60 + "]}}", "beyond 10^18"),
        ('{"stats": {"a": "\\ud800"}}', "half a character"),
        ('{"stats": {"\\ud800": 1}}', "half a character"),
        ('{"values": ' + '{"a":' * 20 + "1" + "}" * 21, "nested deeper"),
        ("[" * 100_000, "nested"),
    ],
)
def test_a_bad_file_is_a_problem_in_words(tmp_path: Path, text: str | bytes, words: str) -> None:
    result = result_of(tmp_path, text)
    assert result.items is None
    assert result.outputs == {}
    assert words in result.problem
    assert len(result.problem) < 300


def test_an_unknown_field_costs_only_itself(tmp_path: Path) -> None:
    result = result_of(tmp_path, '{"items": 5, "itms": 6}')
    assert result.items == 5
    assert "'itms'" in result.problem


def test_a_file_over_the_bound_is_not_read(tmp_path: Path) -> None:
    result = result_of(tmp_path, b"{" + b" " * MAX_FILE_BYTES + b"}")
    assert f"{MAX_FILE_BYTES + 2} bytes" in result.problem


def test_too_many_stats_are_left_out_and_values_kept(tmp_path: Path) -> None:
    stats = {f"downloader/response_status_count/{n}": n for n in range(1000)}
    result = result_of(tmp_path, json.dumps({"items": 3, "stats": stats, "values": {"a": "b"}}))
    assert result.items == 3
    assert result.outputs["values"] == {"a": "b"}
    kept = result.outputs["stats"]
    assert isinstance(kept, dict)
    assert 50 < len(kept) < 1000
    assert len(json.dumps(result.outputs).encode()) <= MAX_OUTPUT_BYTES
    assert f"{1000 - len(kept)} of 1000 stats were left out" in result.problem


def test_values_over_the_bound_are_left_out_whole(tmp_path: Path) -> None:
    result = result_of(tmp_path, json.dumps({"values": {"a": "ä" * 4000}, "stats": {"pages": 1}}))
    assert result.outputs == {"stats": {"pages": 1}}
    assert "values were left out" in result.problem


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder", "broken link"])
def test_only_a_plain_file_of_its_own_is_read(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"items": 42}')
    place = tmp_path / NAME
    match kind:
        case "link":
            place.symlink_to(secret)
        case "broken link":
            place.symlink_to(tmp_path / "nothing")
        case "hard link":
            place.hardlink_to(secret)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
    result = read_result(tmp_path)
    assert result.items is None
    assert result.problem


def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"items": 42}')
    assert read_result(tmp_path, os.geteuid()).items == 42
    assert read_result(tmp_path, os.geteuid() + 1).items is None


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_no_bytes_make_the_worker_fail(text: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        result = result_of(Path(folder), text)
        json.dumps(result.outputs).encode()
