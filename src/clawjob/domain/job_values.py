"""The kinds of values in a job document: how each is read, refused in plain words, and described in the JSON Schema.

Promise: nothing is coerced; a refusal shows the value shortly and says what may stand there.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from clawjob.domain import duration
from clawjob.domain.showing import shown

REFUSED: Final = "refused"
"""Type of the errors made here; their context holds `message` and `remedy`."""

NAME_PATTERN: Final = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
NAME_HOW: Final = (
    "Use 1 to 100 ASCII letters, digits, dots, dashes and underscores; begin with a letter, a digit or an underscore."
)
ENV_PREFIX: Final = "CLAWJOB_"
"""Kept for what the worker tells its child."""

_NAME: Final = re.compile(NAME_PATTERN)
_INT64: Final = 2**63
_UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_BYTES: Final = re.compile("([0-9]{1,12})(KiB|MiB|GiB)")
_INSTANT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.0{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$"
_INSTANT: Final = re.compile(_INSTANT_PATTERN, re.ASCII)
_FIRST_YEAR, _LAST_YEAR = 1970, 2499


def refusal(message: str, remedy: str) -> PydanticCustomError:
    """Make the error that pydantic collects."""
    return PydanticCustomError(REFUSED, "refused", {"message": message, "remedy": remedy})


class Value(ABC):
    """A kind of value, as an annotation: `Annotated[int, Whole(0, 100)]`."""

    @abstractmethod
    def read(self, value: object) -> object:
        """Take a JSON value, or raise `refusal`."""

    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """Describe the values that are taken, as JSON Schema."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return self.json_schema()


@dataclass(frozen=True)
class Whole(Value):
    """A whole number."""

    lowest: int
    highest: int

    def read(self, value: object) -> object:
        """Take an integer in the range."""
        if type(value) is not int:
            raise refusal(f"{shown(value)} is no whole number.", self._how())
        if not self.lowest <= value <= self.highest:
            raise refusal(f"{shown(value)} is out of range.", self._how())
        return value

    def json_schema(self) -> dict[str, Any]:
        """An integer with its range."""
        return {"type": "integer", "minimum": self.lowest, "maximum": self.highest}

    def _how(self) -> str:
        return f"Write a whole number from {self.lowest:,} to {self.highest:,}."


@dataclass(frozen=True)
class Number(Value):
    """A number, with a fraction or without."""

    lowest: float
    highest: float

    def read(self, value: object) -> object:
        """Take a finite number in the range."""
        how = f"Write a number from {self.lowest:g} to {self.highest:g}."
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise refusal(f"{shown(value)} is no number.", how)
        if not self.lowest <= value <= self.highest:
            raise refusal(f"{shown(value)} is out of range.", how)
        return float(value)

    def json_schema(self) -> dict[str, Any]:
        """A number with its range."""
        return {"type": "number", "minimum": self.lowest, "maximum": self.highest}


class Flag(Value):
    """True or false."""

    def read(self, value: object) -> object:
        """Take a boolean."""
        if not isinstance(value, bool):
            raise refusal(f"{shown(value)} is neither true nor false.", "Write true or false, without quotes.")
        return value

    def json_schema(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Choice(Value):
    """One of a few words."""

    kind: type[StrEnum]

    def read(self, value: object) -> object:
        """Take a word and give the member."""
        words = [member.value for member in self.kind]
        if not isinstance(value, str) or value not in words:
            raise refusal(f"{shown(value)} is none of the choices.", f"Write {' or '.join(map(repr, words))}.")
        return self.kind(value)

    def json_schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"type": "string", "enum": [member.value for member in self.kind]}


@dataclass(frozen=True)
class Duration(Value):
    """A time span: text with units, or whole seconds."""

    lowest: timedelta
    highest: timedelta

    def read(self, value: object) -> object:
        """Take a duration in the range."""
        span = f"{duration.duration_text(self.lowest)} to {duration.duration_text(self.highest)}"
        try:
            found = duration.read_duration(value)
        except ValueError as error:
            raise refusal(str(error), f"{duration.HOW}: {span}.") from error
        if not self.lowest <= found <= self.highest:
            raise refusal(f"{shown(value)} is out of range.", f"Give {span}.")
        return found

    def json_schema(self) -> dict[str, Any]:
        """Text of the form, or an integer with its range."""
        return {
            "type": ["string", "integer"],
            "pattern": duration.PATTERN,
            "minimum": int(self.lowest.total_seconds()),
            "maximum": int(self.highest.total_seconds()),
        }


@dataclass(frozen=True)
class Bytes(Value):
    """A size: text with a unit, or bytes."""

    lowest: int
    highest: int

    def read(self, value: object) -> object:
        """Take a size in the range and give bytes."""
        span = f"{bytes_text(self.lowest)} to {bytes_text(self.highest)}"
        how = f'Write it like "512MiB" (KiB, MiB, GiB), or bytes as a JSON integer: {span}.'
        if isinstance(value, str):
            found = _BYTES.fullmatch(value)
            if found is None:
                raise refusal(f"{shown(value)} is no size with a unit.", how)
            number = int(found[1]) * _UNITS[found[2]]
        elif type(value) is int:
            number = value
        else:
            raise refusal(f"{shown(value)} is no size.", how)
        if not self.lowest <= number <= self.highest:
            raise refusal(f"{shown(value)} is out of range.", how)
        return number

    def json_schema(self) -> dict[str, Any]:
        """Text of the form, or an integer with its range."""
        return {
            "type": ["string", "integer"],
            "pattern": f"^{_BYTES.pattern}$",
            "minimum": self.lowest,
            "maximum": self.highest,
        }


def bytes_text(number: int) -> str | int:
    """Write bytes with the largest unit that divides them; as they are without one."""
    for unit, size in reversed(_UNITS.items()):
        if number and number % size == 0:
            return f"{number // size}{unit}"
    return number


class Instant(Value):
    """A point in time with its offset from UTC."""

    def read(self, value: object) -> object:
        """Take an ISO 8601 instant in whole seconds and give it in UTC."""
        how = "Write it like 2026-05-01T02:00:00Z or 2026-05-01T02:00:00+02:00, in whole seconds."
        if not isinstance(value, str) or _INSTANT.fullmatch(value) is None:
            raise refusal(f"{shown(value)} is no instant with an offset.", how)
        if not _FIRST_YEAR <= int(value[:4]) <= _LAST_YEAR:
            raise refusal(f"{shown(value)} is out of range.", f"Use a year from {_FIRST_YEAR} to {_LAST_YEAR}.")
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError as error:
            raise refusal(f"{shown(value)} does not exist.", how) from error

    def json_schema(self) -> dict[str, Any]:
        """Text of the form."""
        return {"type": "string", "format": "date-time", "pattern": _INSTANT_PATTERN}


@dataclass(frozen=True)
class Text(Value):
    """Text without NUL, bounded in UTF-8 bytes."""

    longest: int
    shortest: int = 0
    one_line: bool = False
    """No control characters; otherwise all but NUL may stand in it."""

    def read(self, value: object) -> object:
        """Take a text of the right length."""
        how = f"Write a text of {self.shortest} to {self.longest:,} bytes in UTF-8."
        if not isinstance(value, str):
            raise refusal(f"{shown(value)} is no text.", how)
        size = len(value.encode())
        if not self.shortest <= size <= self.longest:
            raise refusal(f"It is {size:,} bytes long in UTF-8." if size else "It is empty.", how)
        if self.shortest and not value.strip():
            raise refusal("It is blank.", how)
        if "\0" in value:
            raise refusal("It holds a NUL character.", "Take it out.")
        if self.one_line and any(ord(mark) < 32 or 127 <= ord(mark) < 160 for mark in value):
            raise refusal("It holds a line break or another control character.", "Write it on one line.")
        return value

    def json_schema(self) -> dict[str, Any]:
        """A string; JSON Schema counts characters, so its limit is the looser one."""
        schema: dict[str, Any] = {"type": "string", "maxLength": self.longest}
        return {**schema, "minLength": self.shortest} if self.shortest else schema


class Name(Value):
    """A name by the one pattern for names."""

    def read(self, value: object) -> object:
        """Take a name."""
        if not isinstance(value, str) or _NAME.fullmatch(value) is None:
            raise refusal(f"{shown(value)} is no name.", NAME_HOW)
        return value

    def json_schema(self) -> dict[str, Any]:
        """The pattern."""
        return {"type": "string", "pattern": NAME_PATTERN}


class EnvName(Name):
    """Name of an environment variable."""

    def read(self, value: object) -> object:
        """Take a name that is not the worker's own."""
        name = super().read(value)
        if isinstance(name, str) and name.startswith(ENV_PREFIX):
            raise refusal(f"{shown(name)} begins with {ENV_PREFIX}, which the worker keeps.", "Use another name.")
        return name

    def json_schema(self) -> dict[str, Any]:
        """The pattern, without the worker's own names."""
        return {"type": "string", "pattern": f"^(?!{ENV_PREFIX}){NAME_PATTERN.removeprefix('^')}"}


@dataclass(frozen=True)
class Scalar(Value):
    """A param's default: text, number or flag."""

    text: Text

    def read(self, value: object) -> object:
        """Take a bounded scalar as it is."""
        match value:
            case bool():
                return value
            case str():
                return self.text.read(value)
            case int() if -_INT64 <= value < _INT64:
                return value
            case float() if isfinite(value):
                return value
            case int() | float():
                raise refusal(f"{shown(value)} is out of range.", "Write a 64-bit or finite number, or a text.")
        raise refusal(f"{shown(value)} is neither text, number, true nor false.", "Write one of these.")

    def json_schema(self) -> dict[str, Any]:
        """Any scalar but null."""
        return {"type": ["string", "integer", "number", "boolean"], "maxLength": self.text.longest}


@dataclass(frozen=True)
class End(Value):
    """How an attempt ended: an exit code, or the word for its outcome."""

    outcomes: tuple[str, ...]

    def read(self, value: object) -> object:
        """Take an exit code or a word."""
        if type(value) is int and 0 <= value <= 255:
            return value
        if isinstance(value, str) and value in self.outcomes:
            return value
        raise refusal(
            f"{shown(value)} is no exit code and no outcome.",
            f"Write a whole number from 0 to 255, or one of {', '.join(self.outcomes)}.",
        )

    def json_schema(self) -> dict[str, Any]:
        """An integer, or one of the words."""
        return {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 255},
                {"type": "string", "enum": list(self.outcomes)},
            ]
        }


class Distinct:
    """A list that names nothing twice."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "uniqueItems": True}

    def _check(self, values: list[Any]) -> list[Any]:
        if len(set(values)) < len(values):
            raise refusal("It names something twice.", "Name each once.")
        return values


@dataclass(frozen=True)
class Given:
    """A field that may be left out but not be null; its Python type has None for "left out"."""

    kind: Any
    """The type of what is given."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.kind)


@dataclass(frozen=True)
class ShortForm:
    """Lets an object be written as one of its fields alone: `"5m"` for `{"delay": "5m"}`."""

    kind: Any
    """The model of the full form."""
    scalar: str
    """The field that text or a number stands for."""
    several: str | None = None
    """The field that a list stands for."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._expand, handler.generate_schema(self.kind))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        full = handler(schema)
        fields = handler.resolve_ref_schema(full)["properties"]
        return {"anyOf": [_bare(fields[name]) for name in (self.scalar, self.several) if name] + [full]}

    def _expand(self, value: object) -> object:
        if isinstance(value, dict | self.kind):
            return value
        if isinstance(value, list) and self.several is not None:
            return {self.several: value}
        if isinstance(value, list) or value is None:
            raise refusal(f"{shown(value)} cannot stand here.", "Write an object or its short form.")
        return {self.scalar: value}


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """A field's schema without what speaks of the field."""
    return {key: value for key, value in schema.items() if key not in ("default", "description", "examples", "title")}
