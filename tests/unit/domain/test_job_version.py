"""What changed between two documents."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clawjob.domain.job_version import field_changes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)


def with_changes(document: dict[str, Any], changes: Any) -> dict[str, Any]:
    """Make the changes, as one who reads them would."""
    for change in changes:
        *path, last = change.field.split(".")
        place = document
        for name in path:
            place = place[name]
        place[last] = change.after
    return document


def without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nothing(one) for name, one in value.items() if one is not None}
    return value


@given(DOCUMENTS)
def test_a_document_does_not_differ_from_itself(document: dict[str, Any]) -> None:
    assert list(field_changes(document, document)) == []


@given(DOCUMENTS, DOCUMENTS)
def test_the_changes_made_to_the_one_give_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    made = with_changes(without_nothing(before), list(field_changes(before, after)))
    assert without_nothing(made) == without_nothing(after)


def test_true_and_one_differ() -> None:
    (change,) = field_changes({"a": True}, {"a": 1})
    assert (change.field, change.before, change.after) == ("a", True, 1)
