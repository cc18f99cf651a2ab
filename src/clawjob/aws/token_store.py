"""Access tokens in the table. One consistent read tells whether a token is known; a revoked one has no item."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from clawjob.aws.codec import Value
from clawjob.aws.dynamo import Condition, Item, delete, get, get_many, list_page, put, write
from clawjob.aws.table import ALL_TOKENS, LIST_KEY, LIST_SORT, PK, SK, TOKEN, token_key
from clawjob.domain.access import AccessToken, Role
from clawjob.domain.errors import ConflictError, TokenNotFoundError, UnreadableRecordError
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.stored_version import check_version

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

VERSION: Final = 1


class TokenStore:
    """Reads and writes tokens."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def add(self, token: AccessToken) -> None:
        """Keep a new token.

        Raises:
            ConflictError: its id is taken.
        """
        one = put(self._table, _item_of(token), Condition(("attribute_not_exists(#pk)",)))
        if write(self._client, one) is not None:
            raise ConflictError(f"there is a token {token.token_id!r} already")

    def replace(self, token: AccessToken) -> None:
        """Keep a token, whatever was there."""
        write(self._client, put(self._table, _item_of(token)))

    def find(self, token_id: str) -> AccessToken | None:
        """Read a token as it is now.

        Raises:
            UnreadableRecordError: its item is damaged or of a newer version.
        """
        item = get(self._client, self._table, token_key(token_id))
        return None if item is None else _token_of(item)

    def list_all(self, limit: int, start: Item | None) -> tuple[tuple[AccessToken, ...], Item | None]:
        """List tokens, oldest first: a page, and where the next one begins. What cannot be read is left out."""
        keys, last = list_page(self._client, self._table, ALL_TOKENS, limit, start)
        items = get_many(self._client, self._table, keys)
        tokens: list[AccessToken] = []
        for key in keys:
            # The index is a moment behind: what was revoked meanwhile is gone.
            with suppress(KeyError, UnreadableRecordError):
                tokens.append(_token_of(items[key]))
        return tuple(tokens), last

    def remove(self, token_id: str) -> None:
        """Forget a token: nobody can use it from now on.

        Raises:
            TokenNotFoundError: there is none.
        """
        one = delete(self._table, token_key(token_id), Condition(("attribute_exists(#pk)",)))
        if write(self._client, one) is not None:
            raise TokenNotFoundError(token_id)


def _item_of(token: AccessToken) -> Item:
    pk, sk = token_key(token.token_id)
    created_at = to_text(token.created_at)
    return {
        PK: pk,
        SK: sk,
        LIST_KEY: ALL_TOKENS,
        LIST_SORT: f"{created_at}#{token.token_id}",
        "v": VERSION,
        "name": token.name,
        "role": token.role.value,
        "secret_hash": token.secret_hash,
        "created_at": created_at,
        "created_by": token.created_by,
    }


def _token_of(item: Item) -> AccessToken:
    key = f"{item.get(PK)}/{item.get(SK)}"
    check_version(key, item.get("v"), VERSION)
    try:
        return AccessToken(
            token_id=_text(item[PK]).removeprefix(f"{TOKEN}#"),
            name=_text(item["name"]),
            role=Role(_text(item["role"])),
            secret_hash=_text(item["secret_hash"]),
            created_at=from_text(_text(item["created_at"])),
            created_by=_text(item["created_by"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecordError(key, f"{type(error).__name__}: {error}") from error


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
