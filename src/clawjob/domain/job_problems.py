"""Says in plain words what pydantic found wrong with a job document.

Promise: each problem names the field as the user wrote it and what may stand there; no message grows with the input.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from clawjob.domain.errors import Problem
from clawjob.domain.job_values import REFUSED
from clawjob.domain.showing import shown, shown_name

MAX_PROBLEMS: Final = 50
"""More are not listed."""

_LONGEST_GUESSED: Final = 60
_REQUIRED: Final = ("name", "command")
_OF_KEY: Final = "[key]"
"""Pydantic's mark for an error in a mapping's key."""


def problems_of(errors: Sequence[ErrorDetails], data: object, model: type[BaseModel]) -> list[Problem]:
    """Translate errors, one problem per place, and not many more than a person reads.

    Args:
        errors: what pydantic found.
        data: the document as it came.
        model: the document's model; unknown fields are compared with its names.
    """
    found: dict[str, Problem] = {}
    for details in errors:
        if len(found) > MAX_PROBLEMS:
            break
        field = _path(details["loc"], data)
        if field in found:
            continue
        message, remedy = _words(details, model)
        if details["input"] is None and field not in _REQUIRED:
            remedy += " Leave the field out for its default."
        found[field] = Problem(field, message, remedy)
    return list(found.values())


def shortened(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Keep as many problems as a person reads, and say that there are more."""
    if len(problems) <= MAX_PROBLEMS:
        return problems
    return [*problems[:MAX_PROBLEMS], Problem("", "There are more problems.", "Mend these first.")]


def _path(location: Sequence[int | str], data: object) -> str:
    """The path as the user wrote it: a short form has no name for the field that it stands for."""
    path = ""
    here = data
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
            here = here[step] if isinstance(here, list) and step < len(here) else None
        elif step != _OF_KEY and isinstance(here, Mapping):
            path += f".{shown_name(step)}" if path else shown_name(step)
            here = here.get(step)
        elif here is None and step != _OF_KEY:
            path += f".{shown_name(step)}"
    return path


def _words(details: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    """Message and remedy."""
    value, context = details["input"], details.get("ctx", {})
    match details["type"]:
        case str(kind) if kind == REFUSED:
            return context["message"], context["remedy"]
        case "missing":
            return "It is missing.", "Add it."
        case "extra_forbidden":
            return _unknown(details["loc"], model)
        case "list_type":
            return f"{shown(value)} is no list.", 'Write a list, such as ["a", "b"].'
        case "dict_type" | "model_type":
            return f"{shown(value)} is no object.", 'Write an object, such as {"name": "value"}.'
        case "too_long":
            return f"It has more than {context['max_length']} entries.", f"Give at most {context['max_length']}."
        case "too_short":
            return "It is empty.", "Name at least one, or leave the field out."
    return f"{shown(value)} cannot stand here.", "See the job reference."


def _unknown(location: Sequence[int | str], model: type[BaseModel]) -> tuple[str, str]:
    name = str(location[-1])
    names = _names_at(location[:-1], model)
    message = "There is no such field."
    if len(name) <= _LONGEST_GUESSED:
        near = get_close_matches(name.casefold(), names, n=1, cutoff=0.7)
        if near:
            return message, f"Did you mean {near[0]}?"
        places = [place for place in _places(model) if place.rpartition(".")[2] == name]
        if places:
            return message, f"Did you mean {' or '.join(places)}?"
    return message, f"Known here are {', '.join(names)}."


def _names_at(location: Sequence[int | str], model: type[BaseModel]) -> list[str]:
    for step in location:
        field = model.model_fields.get(str(step))
        model = (field and _model_in(field.annotation)) or model
    return list(model.model_fields)


def _places(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The paths of all fields."""
    for name, field in model.model_fields.items():
        yield prefix + name
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _places(inner, f"{prefix}{name}.")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
