"""The authorizer: yes for a token that is kept, no for everything else, and never an error."""

from typing import Any

import pytest

from clawjob.domain.access import Role
from clawjob.operations.access import create_token, revoke_token
from support.authorizer import authorizer_of
from support.lambda_context import LambdaContext
from support.service import TABLE, Service

NO = {"isAuthorized": False}


@pytest.fixture
def ask(service: Service) -> Any:
    handler = authorizer_of(service)
    return lambda header: handler(
        {"version": "2.0", "type": "REQUEST", "headers": {} if header is None else {"authorization": header}},
        LambdaContext(),
    )


def test_a_token_that_was_made_is_taken_with_its_id_name_and_role_until_it_is_revoked(
    ask: Any, service: Service
) -> None:
    made = create_token(service.context, "ci", Role.OPERATOR, "anna")
    assert ask(f"Bearer {made.text}") == {
        "isAuthorized": True,
        "context": {"token_id": made.token.token_id, "role": "operator", "name": "ci"},
    }
    revoke_token(service.context, made.token.token_id)
    assert ask(f"Bearer {made.text}") == NO


def test_the_table_does_not_hold_the_secret(service: Service) -> None:
    made = create_token(service.context, "ci", Role.ADMIN, "anna")
    secret = made.text.rpartition("_")[2]
    assert secret not in str(service.items())


def test_what_is_no_known_token_is_refused(ask: Any, service: Service) -> None:
    made = create_token(service.context, "ci", Role.ADMIN, "anna")
    other = create_token(service.context, "cd", Role.VIEWER, "anna")
    mixed = f"cj_{made.token.token_id}_{other.text.rpartition('_')[2]}"
    two = f"Bearer {made.text},Bearer {other.text}"
    for header in (None, "", made.text, f"Basic {made.text}", f"Bearer {mixed}", two, "Bearer cj_x", "Bearer \x00é"):
        assert ask(header) == NO


@pytest.mark.parametrize("change", [{"v": {"N": "99"}}, {"role": {"S": "root"}}, {"role": {"N": "1"}}])
def test_a_token_that_cannot_be_read_is_refused_and_logged(
    ask: Any, service: Service, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    made = create_token(service.context, "ci", Role.ADMIN, "anna")
    (item,) = (item for item in service.items() if item["pk"]["S"].startswith("TOKEN#"))
    service.dynamodb.put_item(TableName=TABLE, Item={**item, **change})
    with caplog.at_level("WARNING", logger="clawjob"):
        assert ask(f"Bearer {made.text}") == NO
    assert "could not be checked" in caplog.text


def test_without_the_table_nobody_is_let_in(ask: Any, service: Service) -> None:
    made = create_token(service.context, "ci", Role.ADMIN, "anna")
    service.dynamodb.delete_table(TableName=TABLE)
    assert ask(f"Bearer {made.text}") == NO
