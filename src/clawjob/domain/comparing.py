"""Compares what two versions of the scheduler say they will do. Pure.

Promise: only decisions made from the same stored item are compared, so that what ticks and people change between two
questions is never taken for another rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clawjob.domain.foresight import FORM, LEFT_TO_NEWER


@dataclass(frozen=True, slots=True)
class Difference:
    """One job or run about which two versions decide otherwise: the first decision in which they differ."""

    id: str
    name: str
    old: str
    new: str


@dataclass(slots=True)
class Comparison:
    """What several rounds of questions came to."""

    compared: set[str] = field(default_factory=set)
    """Ids of jobs and runs."""
    changed: set[str] = field(default_factory=set)
    """Ids of those that were changed, made or removed between the two questions of each round so far."""
    differences: dict[str, Difference] = field(default_factory=dict)

    @property
    def says_nothing(self) -> bool:
        """Whether there was something to compare and nothing of it could be."""
        return bool(self.changed) and not self.compared

    def take(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Compare the answers of one round.

        Raises:
            KeyError: an answer lacks a part.
        """
        olds, news = ({one["id"]: one for one in answer["subjects"]} for answer in (old, new))
        for subject in olds.keys() | news.keys():
            if subject in self.compared:
                continue
            before, after = olds.get(subject), news.get(subject)
            if before is None or after is None or before["seen"] != after["seen"]:
                self.changed.add(subject)
                continue
            if LEFT_TO_NEWER in before["decisions"]:
                # The old version cannot say what it would do with it.
                continue
            self.changed.discard(subject)
            self.compared.add(subject)
            if before["decisions"] != after["decisions"]:
                self.differences[subject] = _difference(before, after)


def tells_decisions(answer: Mapping[str, Any]) -> bool:
    """Whether a scheduler answered a dry tick in the form that we can compare."""
    return answer.get("dry") == FORM


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
    pairs = zip(_endless(old["decisions"]), _endless(new["decisions"]), strict=False)
    first = next((before, after) for before, after in pairs if before != after)
    return Difference(old["id"], str(old["name"]), *first)


def _endless(lines: Iterable[str]) -> Iterable[str]:
    yield from lines
    while True:
        yield "nothing"
