"""Who may do what: every route with every role; tokens through the API."""

from collections.abc import Mapping
from typing import Any

import pytest

from clawjob.api.app import Api
from clawjob.domain.access import Role
from support.api import Client, event_of, job
from support.service import Service

VIEW = {
    "GET /whoami",
    "GET /openapi.json",
    "GET /jobs",
    "GET /jobs/<name>",
    "GET /jobs/<name>/runs",
    "GET /jobs/<name>/next",
    "GET /jobs/<name>/why",
    "GET /jobs/<name>/versions",
    "GET /jobs/<name>/versions/<number>",
    "GET /runs/<run_id>",
    "GET /runs/<run_id>/log",
    "GET /dead-letters",
}
OPERATE = {
    "POST /jobs",
    "PUT /jobs/<name>",
    "DELETE /jobs/<name>",
    "POST /jobs/<name>/pause",
    "POST /jobs/<name>/resume",
    "POST /jobs/<name>/rollback",
    "POST /jobs/<name>/runs",
    "POST /runs/<run_id>/cancel",
    "POST /dead-letters/<queue>/redrive",
    "DELETE /dead-letters/<queue>",
}
ADMIN = {"GET /tokens", "POST /tokens", "DELETE /tokens/<token_id>"}
OPEN = {"GET /health"}


def ask(api: Api, method: str, path: str, role: str | None, body: object = None) -> Any:
    event = event_of(method, f"/api/v1{path}", body)
    event["requestContext"]["authorizer"] = None if role is None else {"lambda": {"token_id": "a", "role": role}}
    return api.answer(event).response


@pytest.fixture
def app(service: Service) -> Api:
    return Api(service.context, frozenset({"default"}), None)


def test_every_route_is_in_exactly_one_row_of_the_table(app: Api) -> None:
    routes = [f"{one.route.method} {one.route.path}" for one in app._routes]
    assert sorted(routes) == sorted([*VIEW, *OPERATE, *ADMIN, *OPEN])


@pytest.mark.parametrize("role", [None, "root", "viewer", "operator", "admin"])
@pytest.mark.parametrize("route", sorted(VIEW | OPERATE | ADMIN | OPEN))
def test_each_role_reaches_exactly_its_routes(app: Api, service: Service, route: str, role: str | None) -> None:
    method, _, rule = route.partition(" ")
    path = (
        rule.replace("<name>", "nothing")
        .replace("<queue>", "nothing")
        .replace("<run_id>", "nothing-1")
        .replace("<number>", "1")
        .replace("<token_id>", "nothing")
    )
    before = service.items()
    status = ask(app, method, path, role)["statusCode"]
    allowed = {"viewer": VIEW | OPEN, "operator": VIEW | OPERATE | OPEN, "admin": VIEW | OPERATE | OPEN | ADMIN}
    assert (status != 403) == (route in allowed.get(str(role), OPEN))
    if status == 403:
        assert service.items() == before


def test_head_needs_the_role_of_get(app: Api) -> None:
    assert ask(app, "HEAD", "/tokens", "operator")["statusCode"] == 403
    assert ask(app, "HEAD", "/jobs", "viewer")["statusCode"] == 200


def test_a_refusal_says_which_role_it_takes(app: Api) -> None:
    refused = Client(lambda event: app.answer(_as(event, "viewer")))("POST", "/jobs", job())
    assert refused.status == 403
    assert refused.json["type"].endswith(":forbidden")
    assert refused.json["detail"] == "This needs a token of role operator; yours has viewer."


def _as(event: Mapping[str, Any], role: str) -> dict[str, Any]:
    context = {**event["requestContext"], "authorizer": {"lambda": {"token_id": "a", "role": role, "name": "anna"}}}
    return {**event, "requestContext": context}


@pytest.fixture
def api(app: Api) -> Client:
    return Client(app.answer)


def test_a_token_is_made_shown_once_listed_and_revoked(api: Client) -> None:
    made = api("POST", "/tokens", {"name": "ci", "role": "operator"})
    assert made.status == 201
    assert made.json["token"].startswith(f"cj_{made.json['token_id']}_")
    assert made.json["created_by"] == "anna"
    (listed,) = api("GET", "/tokens").json["items"]
    assert listed == {name: value for name, value in made.json.items() if name != "token"}
    assert api("DELETE", f"/tokens/{made.json['token_id']}").status == 204
    assert api("GET", "/tokens").json["items"] == []
    assert api("DELETE", f"/tokens/{made.json['token_id']}").status == 404


def test_tokens_are_listed_page_by_page(api: Client) -> None:
    for number in range(5):
        api("POST", "/tokens", {"name": f"t{number}", "role": "viewer"})
    names: list[str] = []
    cursor = ""
    while True:
        page = api("GET", f"/tokens?limit=2{cursor}").json
        names += [one["name"] for one in page["items"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert names == [f"t{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["name", "role"]),
        ({"name": "x"}, ["role"]),
        ({"name": "x", "role": "root"}, ["role"]),
        ({"name": "", "role": "viewer"}, ["name"]),
        ({"name": "x", "role": 1}, ["role"]),
        ({"name": "x", "role": "viewer", "secret": "mine"}, ["secret"]),
    ],
)
def test_a_token_that_cannot_be_made_is_refused_by_its_field(
    api: Client, service: Service, body: dict[str, Any], fields: list[str]
) -> None:
    refused = api("POST", "/tokens", body)
    assert (refused.status, refused.fields) == (400, fields)
    assert service.items() == []


def test_whoami_tells_the_token_and_never_its_secret(app: Api) -> None:
    answer = Client(lambda event: app.answer(_as(event, "viewer")))("GET", "/whoami")
    assert answer.json == {"token_id": "a", "name": "anna", "role": "viewer"}


def test_roles_are_those_of_the_table() -> None:
    assert [role.value for role in Role] == ["viewer", "operator", "admin"]
