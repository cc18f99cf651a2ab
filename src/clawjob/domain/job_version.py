"""What is known of each version of a job, and what changed between two documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

MAX_WHY: Final = 200
"""Characters of the reason that somebody gives for a change."""


class Change(StrEnum):
    """How a version came about."""

    CREATED = "created"
    REPLACED = "replaced"
    PAUSED = "paused"
    RESUMED = "resumed"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True, slots=True)
class Editor:
    """Who asks for a change, and why."""

    by: str = ""
    """Id of the token; empty: the service itself."""
    name: str = ""
    """Whose token it is."""
    why: str = ""


NOBODY: Final = Editor()


@dataclass(frozen=True, slots=True)
class JobVersion:
    """One version of a job."""

    version: int
    at: datetime
    change: Change | None
    """None for one that was written before this was kept."""
    editor: Editor


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs; None where it is not given."""

    field: str
    """Path, such as `retry.delay`."""
    before: object
    after: object


def field_changes(before: Mapping[str, object], after: Mapping[str, object], path: str = "") -> Iterator[FieldChange]:
    """Tell what differs between two documents in full form, field by field.

    A list is one value: an argument that is put in front would change all others.

    Example:
        >>> list(field_changes({"retry": {"delay": "1m"}}, {"retry": {"delay": "5m"}}))
        [FieldChange(field='retry.delay', before='1m', after='5m')]
    """
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from field_changes(old, new, f"{path}{name}.")
        elif type(old) is not type(new) or old != new:
            yield FieldChange(f"{path}{name}", old, new)
