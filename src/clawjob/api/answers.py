"""What a route answers, and how it is written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

JSON: Final = "application/json"


def _no_headers() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and headers; a body of None is no body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    media_type: str = JSON


def json_text(value: Any) -> str:
    """Write JSON that any reader takes: a number that JSON does not have becomes null, half a character is escaped."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
