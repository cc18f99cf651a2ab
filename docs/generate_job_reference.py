"""Writes the tables of docs/job-reference.md and the file docs/job.schema.json from the model of the job document."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from clawjob.domain.duration import PATTERN, duration_text
from clawjob.domain.job import json_schema
from clawjob.domain.job_values import NAME_PATTERN, bytes_text

PAGE = Path(__file__).with_name("job-reference.md")
SCHEMA = Path(__file__).with_name("job.schema.json")
BEGIN, END = "<!-- {name}: begin -->", "<!-- {name}: end -->"
OBJECTS = {
    "schedule": "ScheduleDocument",
    "dst": "DstDocument",
    "catch_up": "CatchUpDocument",
    "retry": "RetryDocument",
    "resources": "ResourcesDocument",
}


def tables() -> dict[str, str]:
    """Return the generated parts of the page by their names."""
    schema = json_schema()
    parts = {"job": schema} | {name: schema["$defs"][model] for name, model in OBJECTS.items()}
    return {name: _table(part) for name, part in parts.items()}


def with_generated(page: str) -> str:
    """Return the page with its generated parts as they should be."""
    for name, table in tables().items():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        head, rest = page.split(begin)
        page = f"{head}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"
    return page


def schema_file() -> str:
    """Return the text of the schema's file."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _table(schema: dict[str, Any]) -> str:
    rows = ["| field | type | default | range | example | meaning |", "|---|---|---|---|---|---|"]
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else "none"
        if "default" in field:
            default = _code(field["default"])
        examples = " or ".join(_code(example) for example in field["examples"])
        cells = (f"`{name}`", _type(field), default, _range(field) or "-", examples, field["description"])
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _code(value: object) -> str:
    return f"`{json.dumps(value)}`"


def _type(field: dict[str, Any]) -> str:
    match field:
        case {"anyOf": kinds}:
            return " or ".join(dict.fromkeys(_type(kind) for kind in kinds))
        case {"$ref": _}:
            return "object"
        case {"items": item}:
            return f"list of {_type(item)}"
        case {"patternProperties": values}:
            return f"object: {_type(next(iter(values.values())))} by name"
        case {"type": list()}:
            return _of_several_types(field)
        case {"type": "string"}:
            return _text(field)
    return {"integer": "whole number", "number": "number", "boolean": "true or false"}[field["type"]]


def _of_several_types(field: dict[str, Any]) -> str:
    if field["type"] != ["string", "integer"]:
        return "text, number, true or false"
    return "duration" if field["pattern"] == PATTERN else "size"


def _text(field: dict[str, Any]) -> str:
    if "enum" in field:
        return "word"
    if field.get("format") == "date-time":
        return "instant"
    return "name" if field.get("pattern") == NAME_PATTERN else "text"


def _range(field: dict[str, Any]) -> str:
    match field:
        case {"anyOf": kinds}:
            return "; ".join(dict.fromkeys(span for kind in kinds if (span := _range(kind))))
        case {"minimum": low, "maximum": high}:
            write = {"duration": _seconds, "size": bytes_text}.get(_type(field), _grouped)
            return f"{write(low)} to {write(high)}"
        case {"enum": words}:
            return ", ".join(f"`{word}`" for word in words)
        case {"items": item}:
            return _many(field.get("minItems", 0), field.get("maxItems"), item)
        case {"patternProperties": values}:
            return _many(0, field["maxProperties"], next(iter(values.values())))
        case {"maxLength": most}:
            return f"{field.get('minLength', 0)} to {most:,} bytes"
        case {"pattern": pattern} if pattern == NAME_PATTERN:
            return "1 to 100 characters, see names"
    return ""


def _many(fewest: int, most: int | None, item: dict[str, Any]) -> str:
    count = f"at least {fewest}" if most is None else f"{fewest} to {most:,}"
    count = "" if most is None and not fewest else count
    return ", ".join(part for part in (count, f"each {_range(item)}" if _range(item) else "") if part)


def _seconds(number: int) -> str:
    return duration_text(timedelta(seconds=number))


def _grouped(number: float) -> str:
    return f"{number:,}"


if __name__ == "__main__":
    PAGE.write_text(with_generated(PAGE.read_text()))
    SCHEMA.write_text(schema_file())
    sys.stdout.write(f"wrote {PAGE.name} and {SCHEMA.name}\n")
