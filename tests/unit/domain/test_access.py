"""Access tokens: their text, their hash, their roles."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.domain.access import (
    AccessToken,
    Role,
    bearer_token,
    check_name,
    hash_of,
    is_token_id,
    read_token,
    role_of,
    token_text,
)
from clawjob.domain.errors import InvalidInputError

SECRET = "0123456789abcdef" * 3
WORDS = st.text("0123456789abcdefXYZ", min_size=1, max_size=32)


@given(WORDS, st.text("0123456789abcdefXYZ", min_size=32, max_size=128))
def test_a_token_reads_back_as_it_was_written(token_id: str, secret: str) -> None:
    assert read_token(token_text(token_id, secret)) == (token_id, secret)
    assert is_token_id(token_id)


@given(st.text())
def test_no_text_makes_reading_fail(text: str) -> None:
    read = read_token(text)
    assert read is None or token_text(*read) == text


@pytest.mark.parametrize(
    "text", ["", "cj_a", f"cj_a_{'0' * 31}", f"cj__{SECRET}", f"xx_a_{SECRET}", f"cj_a_{SECRET}\n", f"cj_é_{SECRET}"]
)
def test_what_is_no_token_reads_as_none(text: str) -> None:
    assert read_token(text) is None


def test_only_the_secret_itself_fits_and_it_is_not_kept() -> None:
    token = AccessToken("a", "ci", Role.VIEWER, hash_of(SECRET), datetime(2024, 1, 1, tzinfo=UTC), "anna")
    assert token.fits(SECRET)
    assert not token.fits(SECRET[:-1])
    assert not token.fits(token.secret_hash)
    assert SECRET not in repr(token)


def test_each_role_includes_those_before_it_and_none_after() -> None:
    order = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    for at, role in enumerate(order):
        assert [role.includes(other) for other in order] == [number <= at for number in range(3)]


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer x", "x"),
        ("bearer  x ", "x"),
        ("Basic x", ""),
        ("x", ""),
        ("", ""),
        ("Bearer", ""),
        ("Bearer x,y", "x,y"),
    ],
)
def test_a_token_comes_after_the_word_bearer(header: str, token: str) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize("name", ["", "x" * 101, " x", "a\nb", "\x1b[2J"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_name(name)
    assert caught.value.problems[0].field == "name"


def test_an_unknown_role_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match="viewer, operator, admin"):
        role_of("root")
