import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from clawjob.domain.date_format import DIRECTIVES
from clawjob.domain.definition import Definition
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.job import document_of, json_schema, parse_document
from clawjob.domain.job_model import JobDocument
from clawjob.domain.job_values import NAME_PATTERN
from clawjob.domain.template_syntax import BUILT_IN
from support.definitions import FOUNDING, NOW, POOLS, definitions

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "job-reference.md").read_text()
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
VALIDATOR = Draft202012Validator(json_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_job_reference", DOCS / "generate_job_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_current() -> None:
    assert _generator().with_generated(PAGE) == PAGE, "run `make docs`"


def test_the_schemas_file_is_current() -> None:
    assert _generator().schema_file() == (DOCS / "job.schema.json").read_text(), "run `make docs`"


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_every_field_is_described_with_an_example() -> None:
    schema = json_schema()
    parts = [schema, *schema["$defs"].values()]
    assert list(schema["properties"]) == list(JobDocument.model_fields)
    for part in parts:
        for name, field in part["properties"].items():
            assert field["description"].endswith("."), name
            assert field["examples"], name
            assert field.get("default", 0) is not None, name


def test_the_founding_document_stands_in_the_reference() -> None:
    assert FOUNDING in EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example['name']}-{len(example)}")
def test_the_references_examples_are_jobs(example: dict[str, Any]) -> None:
    parse_document(example, NOW, POOLS)
    VALIDATOR.validate(example)


@pytest.mark.parametrize("name", list(JobDocument.model_fields))
def test_the_tables_examples_are_taken(name: str) -> None:
    for example in json_schema()["properties"][name]["examples"]:
        document = {"name": "a", "command": "b", name: example}
        parse_document(document, NOW, POOLS)
        VALIDATOR.validate(document)


@pytest.mark.parametrize(
    ("part", "base"),
    [
        ("schedule", {}),
        ("catch_up", {}),
        ("retry", {}),
        ("resources", {}),
    ],
)
def test_the_examples_of_parts_are_taken(part: str, base: dict[str, Any]) -> None:
    model = f"{part.title().replace('_', '')}Document"
    for name, field in json_schema()["$defs"][model]["properties"].items():
        for example in field["examples"]:
            given_part = {**_around(part, name), name: example}
            document = {"name": "a", "command": "b", part: given_part}
            VALIDATOR.validate(document)
            parse_document(document, NOW, POOLS)


def _around(part: str, name: str) -> dict[str, Any]:
    """What a field cannot be without."""
    if part != "schedule" or name in {"cron", "every", "at"}:
        return {}
    return {"every": "15m"} if name == "offset" else {"cron": "@daily"}


@settings(max_examples=25, deadline=None)
@given(definitions())
def test_what_is_shown_fits_the_schema(definition: Definition) -> None:
    VALIDATOR.validate(document_of(definition))


@pytest.mark.parametrize(
    "wrong",
    [
        {"comand": "x"},
        {"name": "a/b"},
        {"name": "名前"},
        {"timeout": "30"},
        {"timeout": 0},
        {"timeout": 50_000},
        {"timeout": True},
        {"timeout": 30.5},
        {"timeout": None},
        {"max_retry": -1},
        {"schedule": None},
        {"schedule": {"cron": "@daily", "every": "5m"}},
        {"schedule": {"cron": "@daily", "dst": None}},
        {"env": {"CLAWJOB_X": "y"}},
        {"env": {"A=B": "y"}},
        {"params": {"a": None}},
        {"retry": {"delays": []}},
        {"retry": {"retry_on": ["lost"]}},
        {"success_exit_codes": [0, 0]},
        {"overlap": "queue"},
        {"resources": {"memory": "512MB"}},
    ],
)
def test_the_schema_refuses_what_the_service_refuses_by_type_and_range(wrong: dict[str, Any]) -> None:
    document = {"name": "a", "command": "b", **wrong}
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(InvalidInputError):
        parse_document(document, NOW, POOLS)


def test_the_reference_knows_every_name_and_directive_of_templates() -> None:
    for name in BUILT_IN:
        assert f"{{{{.{name}}}}}" in PAGE
    for directive in DIRECTIVES:
        assert directive in PAGE
    assert NAME_PATTERN in PAGE
