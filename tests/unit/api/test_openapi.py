"""The OpenAPI document: right by its own rules, equal to the committed one, and kept by every answer.

That every answer of every other test has its documented form, `support.api.Client` checks.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from clawjob.api.app import Api, describe
from docs.generate_openapi import FILE, openapi_file
from support.api import Client
from support.compatibility import breaks
from support.service import Service

RELEASED = Path(__file__).with_name("openapi_released.json")
"""What the last release promised."""


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return dict(describe())


def test_the_document_is_a_good_one(described: dict[str, Any]) -> None:
    validate(described)


def test_the_committed_copy_is_what_the_code_makes() -> None:
    assert FILE.read_text() == openapi_file(), "run `make docs`"


def test_the_api_gives_the_same_document(api: Client, described: dict[str, Any]) -> None:
    assert api("GET", "/openapi.json").json == described


def test_the_api_answers_exactly_the_described_routes(service: Service, described: dict[str, Any]) -> None:
    answered = {(one.route.method, one.route.path) for one in Api(service.context, frozenset(), None)._routes}
    paths = described["paths"].items()
    said = {(method.upper(), path.replace("{", "<").replace("}", ">")) for path, some in paths for method in some}
    assert answered == said


def test_operation_ids_are_unique_and_each_has_a_summary(described: dict[str, Any]) -> None:
    operations = [one for some in described["paths"].values() for one in some.values()]
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids)
    assert all(one["summary"] for one in operations)


def test_the_example_of_a_job_can_be_created(api: Client, described: dict[str, Any]) -> None:
    content = described["paths"]["/jobs"]["post"]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        assert api("POST", "/jobs", example["value"]).status == 201


def test_what_the_last_release_promised_still_holds(described: dict[str, Any]) -> None:
    assert breaks(json.loads(RELEASED.read_text()), described) == []


def _without_path(one: dict[str, Any]) -> None:
    del one["paths"]["/whoami"]


def _without_answer(one: dict[str, Any]) -> None:
    del one["components"]["schemas"]["Run"]["properties"]["items"]


def _null_where_it_was_not(one: dict[str, Any]) -> None:
    fields = one["components"]["schemas"]["Run"]["properties"]
    fields["run_id"] = {"anyOf": [fields["run_id"], {"type": "null"}]}


def _new_required_field(one: dict[str, Any]) -> None:
    one["components"]["schemas"]["JobDocument"]["required"].append("pool")


def _fewer_words(one: dict[str, Any]) -> None:
    one["components"]["schemas"]["JobDocument"]["properties"]["overlap"]["enum"].pop()


def _lower_limit(one: dict[str, Any]) -> None:
    one["components"]["schemas"]["JobDocument"]["properties"]["max_retry"]["maximum"] = 1


def _new_required_header(one: dict[str, Any]) -> None:
    one["paths"]["/jobs/{name}/runs"]["post"]["parameters"][1]["required"] = True


def _parameter_gone(one: dict[str, Any]) -> None:
    one["paths"]["/jobs"]["get"]["parameters"].pop()


def _other_status(one: dict[str, Any]) -> None:
    answers = one["paths"]["/jobs"]["post"]["responses"]
    answers["200"] = answers.pop("201")


@pytest.mark.parametrize(
    "change",
    [
        _without_path,
        _without_answer,
        _null_where_it_was_not,
        _new_required_field,
        _fewer_words,
        _lower_limit,
        _new_required_header,
        _parameter_gone,
        _other_status,
    ],
)
def test_a_change_that_breaks_clients_is_seen(described: dict[str, Any], change: Any) -> None:
    changed = copy.deepcopy(described)
    change(changed)
    assert len(breaks(described, changed)) >= 1


def test_what_is_only_added_breaks_nobody(described: dict[str, Any]) -> None:
    more = copy.deepcopy(described)
    more["paths"]["/new"] = more["paths"]["/whoami"]
    more["components"]["schemas"]["Run"]["properties"]["cost"] = {"type": "number"}
    more["components"]["schemas"]["JobDocument"]["properties"]["colour"] = {"type": "string"}
    assert breaks(described, more) == []
