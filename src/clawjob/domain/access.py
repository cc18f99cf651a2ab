"""Access tokens of the API, `cj_<id>_<secret>`, and the three roles.

The service keeps a hash of the secret and never the secret: whoever reads the table cannot use what stands there.
"""

import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from clawjob.domain.errors import InvalidInputError

MAX_NAME: Final = 100
_TEXT: Final = re.compile(r"cj_([0-9A-Za-z]{1,32})_([0-9A-Za-z]{32,128})")
_ID: Final = re.compile(r"[0-9A-Za-z]{1,32}")


class Role(StrEnum):
    """What a token may do; each role may do what those before it may."""

    VIEWER = "viewer"
    """Looks at jobs, runs and logs."""
    OPERATOR = "operator"
    """Creates, changes, triggers and cancels too."""
    ADMIN = "admin"
    """Makes and revokes tokens too."""

    def includes(self, needed: "Role") -> bool:
        """Whether this role may do what another may."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is kept of a token."""

    token_id: str
    name: str
    """Whose it is or what for, as its maker wrote it."""
    role: Role
    secret_hash: str
    created_at: datetime
    created_by: str
    """Id of the token that asked for it, or whose AWS credentials did."""

    def fits(self, secret: str) -> bool:
        """Whether a secret is this token's, compared in constant time."""
        return hmac.compare_digest(self.secret_hash, hash_of(secret))


def token_text(token_id: str, secret: str) -> str:
    """Write a token as its owner sends it.

    Raises:
        ValueError: id or secret have a character or a length that no token has.
    """
    text = f"cj_{token_id}_{secret}"
    if not _TEXT.fullmatch(text):
        raise ValueError("id or secret cannot stand in a token")
    return text


def read_token(text: str) -> tuple[str, str] | None:
    """Read a token's id and secret; None when the text is no token."""
    match = _TEXT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def is_token_id(text: str) -> bool:
    """Whether a token can have this id."""
    return _ID.fullmatch(text) is not None


def bearer_token(header: str) -> str:
    """Take the token out of an `Authorization` header; empty when it holds none."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def hash_of(secret: str) -> str:
    """Hash a secret, in hexadecimal digits.

    Plain SHA-256: a secret of 160 random bits cannot be guessed, so nothing is won by a slow hash.
    """
    return sha256(secret.encode()).hexdigest()


def check_name(name: str) -> str:
    """Check a token's name.

    Raises:
        InvalidInputError: it is empty, too long or not of printable characters.
    """
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        remedy = f"Give 1 to {MAX_NAME} printable characters, such as ci or anna@laptop."
        raise InvalidInputError.of("name", f"{name[:40]!a} is no name for a token.", remedy)
    return name


def role_of(text: str) -> Role:
    """Read a role's name.

    Raises:
        InvalidInputError: there is no such role.
    """
    try:
        return Role(text)
    except ValueError as error:
        known = ", ".join(role.value for role in Role)
        raise InvalidInputError.of("role", f"There is no role {text[:40]!a}.", f"Give one of {known}.") from error
