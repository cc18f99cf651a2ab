"""The OpenAPI 3.1 document, made from the routes, the types of answers and the model of the job document.

Nothing is written here that the code does not do; a test asks the API and compares.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from clawjob.api import problems
from clawjob.api.answers import JSON, Answer
from clawjob.api.problems import Kind
from clawjob.api.request import BodyField
from clawjob.api.route import BASE, Gives, Route
from clawjob.api.shapes import GatewayRefusal, Job, JobDocument, ProblemDocument

Schema = dict[str, Any]
VERSION: Final = "1.0.0"
"""Of what the API promises, not of the service: the first number is that of the base path."""
_REF: Final = "#/components/schemas/{model}"
_OF_ANY: Final = (problems.INVALID_INPUT,)
_OF_BODY: Final = (problems.BODY_TOO_LARGE,)
_OF_ROLE: Final = (problems.FORBIDDEN,)
_OF_GATEWAY_TOO: Final = (problems.FORBIDDEN, problems.BODY_TOO_LARGE)
"""The gateway refuses tokens that nobody knows and bodies over 10 MB before the API sees them."""
_NAMES: Final[Mapping[str, Schema]] = {
    "name": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$", "examples": ["daily_news_crawl"]},
    "run_id": {"type": "string", "pattern": "^[0-9A-Za-z-]{1,80}$"},
    "token_id": {"type": "string", "pattern": "^[0-9A-Za-z]{1,32}$"},
    "number": {"type": "string", "pattern": "^[1-9][0-9]{0,7}$", "examples": ["3"]},
    "queue": {"type": "string", "examples": ["runs-default-low"]},
}
_HEADERS: Final[Mapping[str, Schema]] = {
    "ETag": {"description": "The job's version, to be sent as If-Match.", "schema": {"type": "string"}},
    "Location": {"description": "Where it is.", "schema": {"type": "string"}},
}
_SMALL_JOB: Final = {
    "name": "daily_news_crawl",
    "command": "/data/spiders/news_spider",
    "args": ["--date", "{{.Yesterday}}"],
    "schedule": "0 2 * * *",
    "timeout": "30m",
    "max_retry": 2,
}


def document(routes: Iterable[tuple[Route, Callable[..., Answer]]]) -> Schema:
    """Make the document.

    Args:
        routes: each with the function that answers it, whose name is the operation's id.
    """
    schemas = _Schemas()
    refusals: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    for route, call in routes:
        path = re.sub(r"<(\w+)>", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, call, schemas, refusals)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "clawjob",
            "version": VERSION,
            "description": "Schedules and runs crawl jobs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": BASE}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(_tag(path) for path in paths)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.made.items())),
            "responses": dict(sorted(refusals.items())),
            "headers": dict(_HEADERS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "cj_<id>_<secret>"}},
        },
    }


class _Schemas:
    """Schemas by name, each made once."""

    def __init__(self) -> None:
        self.made: dict[str, Schema] = {}

    def ref(self, shape: type) -> Schema:
        """Refer to a type's schema."""
        from pydantic import TypeAdapter

        if shape is JobDocument:
            self._add_job()
            return {"$ref": _REF.format(model="JobDocument")}
        schema = TypeAdapter(shape).json_schema(mode="serialization", ref_template=_REF)
        for name, one in {**schema.pop("$defs", {}), shape.__name__: schema}.items():
            if name == Job.__name__:
                self._add_job(one)
            elif name == JobDocument.__name__:
                self._add_job()
            else:
                self.made.setdefault(name, _without_titles(one))
        return {"$ref": _REF.format(model=shape.__name__)}

    def _add_job(self, status: Schema | None = None) -> None:
        from clawjob.domain.job_model import json_schema

        schema = _moved(json_schema())
        for name, one in schema.pop("$defs").items():
            self.made.setdefault(name, _without_titles(one))
        whole = {key: one for key, one in schema.items() if key != "$schema"}
        self.made.setdefault("JobDocument", _without_titles(whole))
        if status is not None:
            # What is answered has the fields of a document; which of them, the job says.
            fields = {**whole["properties"], **status["properties"]}
            required = [*whole.get("required", ()), *status["required"]]
            self.made["Job"] = _without_titles({**status, "properties": fields, "required": required})


def _operation(route: Route, call: Callable[..., Answer], schemas: _Schemas, refusals: dict[str, Schema]) -> Schema:
    operation: Schema = {
        "operationId": call.__name__,
        "tags": [_tag(route.path)],
        "summary": (call.__doc__ or "").split("\n")[0].rstrip("."),
        "description": f"Needs a token of role {route.role.value}." if route.role else "Needs no token.",
        "parameters": [*_parameters(route)],
        "responses": _responses(route, schemas, refusals),
    }
    if route.role is None:
        operation["security"] = []
    if route.body is JobDocument:
        content = {"schema": schemas.ref(JobDocument), "examples": {"small": {"value": _SMALL_JOB}}}
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    elif isinstance(route.body, Mapping) and route.body:
        operation["requestBody"] = _fields(route.body)
    return operation


def _parameters(route: Route) -> Iterable[Schema]:
    for name in re.findall(r"<(\w+)>", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": _NAMES[name]}
    for name, parameter in route.query.items():
        yield {
            "name": name,
            "in": "query",
            "description": f"{parameter.form}.".capitalize(),
            "schema": parameter.schema,
        }
    for header in route.headers:
        schema = {"type": "string", "pattern": header.pattern}
        yield {
            "name": header.name,
            "in": "header",
            "required": header.required,
            "description": header.description,
            "schema": schema,
        }


def _fields(body: Mapping[str, BodyField]) -> Schema:
    required = [name for name, one in body.items() if one.required]
    properties = {}
    for name, one in body.items():
        kind: Schema = {"type": {str: "string", int: "integer"}.get(one.kind, "object")}
        if one.words:
            kind["enum"] = list(one.words)
        elif one.kind is str:
            kind["maxLength"] = one.longest
        properties[name] = {**kind, "description": one.description, "examples": [one.example]}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"required": bool(required), "content": {JSON: {"schema": schema}}}


def _responses(route: Route, schemas: _Schemas, refusals: dict[str, Schema]) -> Schema:
    responses = {str(status): _given(gives, schemas) for status, gives in route.gives.items()}
    problem: Schema = {problems.MEDIA_TYPE: {"schema": schemas.ref(ProblemDocument)}}
    gateways: Schema = {JSON: {"schema": schemas.ref(GatewayRefusal)}}
    by_status: dict[int, list[Kind]] = {}
    for kind in (
        *_OF_ANY,
        *route.refuses,
        *(() if route.body is None else _OF_BODY),
        *(_OF_ROLE if route.role else ()),
    ):
        by_status.setdefault(kind.status, []).append(kind)
    for status, kinds in by_status.items():
        name = "-or-".join(kind.name for kind in kinds)
        text = "; ".join(f"`{kind.name}`: {kind.title}" for kind in kinds)
        is_gateways = any(kind in _OF_GATEWAY_TOO for kind in kinds)
        refusals[name] = {"description": f"{text}.", "content": problem | gateways if is_gateways else problem}
        responses[str(status)] = {"$ref": f"#/components/responses/{name}"}
    if route.role:
        refusals["no-token"] = {"description": "No token came.", "content": gateways}
        responses["401"] = {"$ref": "#/components/responses/no-token"}
    refusals["other"] = {"description": "Another refusal, or an error of the service.", "content": problem}
    responses["default"] = {"$ref": "#/components/responses/other"}
    return dict(sorted(responses.items()))


def _given(gives: Gives, schemas: _Schemas) -> Schema:
    answer: Schema = {"description": gives.description}
    if gives.headers:
        answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in gives.headers}
    if gives.shape is not None:
        answer["content"] = {JSON: {"schema": schemas.ref(gives.shape)}}
    return answer


def _tag(path: str) -> str:
    return path.split("/")[1] if path.startswith(("/jobs", "/runs", "/tokens", "/dead-letters")) else "service"


def _moved(schema: Any) -> Any:
    """References of a schema that stands alone, as they are in the document."""
    if isinstance(schema, dict):
        return {
            key: one.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(one)
            for key, one in schema.items()
        }
    return [_moved(one) for one in schema] if isinstance(schema, list) else schema


def _without_titles(schema: Any) -> Any:
    """Pydantic's titles only repeat the names."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(one) for key, one in schema.items() if not (key == "title" and isinstance(one, str))
        }
    return [_without_titles(one) for one in schema] if isinstance(schema, list) else schema
