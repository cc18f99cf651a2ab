"""What the API does with access tokens."""

from dataclasses import dataclass
from typing import Any, Final

from clawjob.api.answers import Answer
from clawjob.api.cursors import give_cursor, take_cursor
from clawjob.api.request import Request, any_text, whole
from clawjob.domain.access import AccessToken, role_of
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.instants import to_text
from clawjob.operations import access, insights
from clawjob.operations.context import Context

_TOKENS: Final = "tokens"


@dataclass(frozen=True, slots=True)
class TokenRoutes:
    """Tokens, and who the caller is."""

    ctx: Context

    def whoami(self, request: Request) -> Answer:
        """`GET /whoami`."""
        request.parameters()
        role = request.role.value if request.role else None
        return Answer(200, {"token_id": request.caller, "name": request.caller_name, "role": role})

    def create(self, request: Request) -> Answer:
        """`POST /tokens`."""
        request.parameters()
        given = request.fields(name=str, role=str)
        for name, example in (("name", "ci or anna@laptop"), ("role", "operator")):
            if name not in given:
                raise InvalidInputError.of(name, "It is missing.", f"Give one, such as {example}.")
        made = access.create_token(self.ctx, given["name"], role_of(given["role"]), request.caller)
        return Answer(201, {**token_json(made.token), "token": made.text})

    def list_all(self, request: Request) -> Answer:
        """`GET /tokens`."""
        asked = request.parameters(limit=whole(1, insights.MAX_LIMIT, 50), cursor=any_text())
        page = insights.list_tokens(self.ctx, asked["limit"], take_cursor(_TOKENS, asked["cursor"]))
        items = [token_json(token) for token in page.items]
        return Answer(200, {"items": items, "cursor": give_cursor(_TOKENS, page.cursor)})

    def revoke(self, request: Request, token_id: str) -> Answer:
        """`DELETE /tokens/{token_id}`."""
        request.parameters()
        request.fields()
        access.revoke_token(self.ctx, token_id)
        return Answer(204)


def token_json(token: AccessToken) -> dict[str, Any]:
    """Show a token, without anything that could be used as one."""
    return {
        "token_id": token.token_id,
        "name": token.name,
        "role": token.role.value,
        "created_at": to_text(token.created_at),
        "created_by": token.created_by,
    }
