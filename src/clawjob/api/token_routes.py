"""What the API does with access tokens."""

from dataclasses import dataclass
from typing import Final

from clawjob.api.answers import Answer
from clawjob.api.cursors import give_cursor, take_cursor
from clawjob.api.problems import NOT_FOUND
from clawjob.api.request import BodyField, Request, any_text, whole
from clawjob.api.route import Gives, Route, route
from clawjob.api.shapes import NewToken, Token, TokenPage, WhoAmI
from clawjob.domain.access import MAX_NAME, AccessToken, Role, role_of
from clawjob.domain.instants import to_text
from clawjob.operations import access, insights
from clawjob.operations.context import Context

_TOKENS: Final = "tokens"


@dataclass(frozen=True, slots=True)
class TokenRoutes:
    """Tokens, and who the caller is."""

    ctx: Context

    @route(Route("GET", "/whoami", Role.VIEWER, {200: Gives(WhoAmI, "The caller.")}))
    def whoami(self, request: Request) -> Answer:
        """Say whose token it is."""
        who: WhoAmI = {"token_id": request.caller, "name": request.caller_name, "role": request.role}
        return Answer(200, who)

    @route(
        Route(
            "POST",
            "/tokens",
            Role.ADMIN,
            {201: Gives(NewToken, "The token, shown this once.")},
            body={
                "name": BodyField(str, "Whose it is or what for.", "ci or anna@laptop", True, MAX_NAME),
                "role": BodyField(str, "What it may do.", "operator", required=True, words=tuple(Role)),
            },
        )
    )
    def create_token(self, request: Request) -> Answer:
        """Make an access token."""
        given = request.given
        made = access.create_token(self.ctx, given["name"], role_of(given["role"]), request.caller)
        return Answer(201, {**token_json(made.token), "token": made.text})

    @route(
        Route(
            "GET",
            "/tokens",
            Role.ADMIN,
            {200: Gives(TokenPage, "A page of tokens.")},
            query={"limit": whole(1, insights.MAX_LIMIT, 50), "cursor": any_text()},
        )
    )
    def list_tokens(self, request: Request) -> Answer:
        """List access tokens, oldest first."""
        asked = request.asked
        page = insights.list_tokens(self.ctx, asked["limit"], take_cursor(_TOKENS, asked["cursor"]))
        items = [token_json(token) for token in page.items]
        return Answer(200, {"items": items, "cursor": give_cursor(_TOKENS, page.cursor)})

    @route(
        Route(
            "DELETE",
            "/tokens/<token_id>",
            Role.ADMIN,
            {204: Gives(None, "It is revoked; the gateway may take it for another minute.")},
            refuses=(NOT_FOUND,),
            body={},
        )
    )
    def revoke_token(self, request: Request, token_id: str) -> Answer:
        """Revoke an access token."""
        access.revoke_token(self.ctx, token_id)
        return Answer(204)


def token_json(token: AccessToken) -> Token:
    """Show a token, without anything that could be used as one."""
    return {
        "token_id": token.token_id,
        "name": token.name,
        "role": token.role,
        "created_at": to_text(token.created_at),
        "created_by": token.created_by,
    }
