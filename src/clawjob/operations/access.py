"""Making, checking and revoking access tokens. A token's text exists once, in the answer that made it."""

from dataclasses import dataclass

from clawjob.domain.access import AccessToken, Role, check_name, hash_of, is_token_id, read_token, token_text
from clawjob.domain.errors import TokenNotFoundError
from clawjob.operations.context import Context


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made."""

    token: AccessToken
    text: str
    """What its owner sends. It is kept nowhere."""


def create_token(ctx: Context, name: str, role: Role, by: str) -> NewToken:
    """Make a token.

    Args:
        ctx: the service.
        name: whose it is or what for.
        role: what it may do.
        by: who asks for it.

    Raises:
        InvalidInputError: the name cannot be taken.
    """
    secret = ctx.new_secret()
    token = AccessToken(ctx.new_uid(), check_name(name), role, hash_of(secret), ctx.clock(), by)
    ctx.tokens.add(token)
    return NewToken(token, token_text(token.token_id, secret))


def keep_token(ctx: Context, text: str, name: str, role: Role, by: str) -> AccessToken:
    """Keep a token whose text is already known, whatever had its id before.

    Raises:
        ValueError: the text is no token.
    """
    read = read_token(text)
    if read is None:
        raise ValueError("the text is no token")
    token = AccessToken(read[0], check_name(name), role, hash_of(read[1]), ctx.clock(), by)
    ctx.tokens.replace(token)
    return token


def authenticate(ctx: Context, text: str) -> AccessToken | None:
    """Tell which token a text is; None when it is none that is known. Reads one item.

    Raises:
        UnavailableError: the table does not answer.
        UnreadableRecordError: what is kept of the token cannot be read.
    """
    read = read_token(text)
    token = None if read is None else ctx.tokens.find(read[0])
    return token if read is not None and token is not None and token.fits(read[1]) else None


def revoke_token(ctx: Context, token_id: str) -> None:
    """Revoke a token. The gateway may still take it for a minute, as long as it remembers an answer.

    Raises:
        TokenNotFoundError: there is none.
    """
    if not is_token_id(token_id):
        raise TokenNotFoundError(token_id[:40])
    ctx.tokens.remove(token_id)
