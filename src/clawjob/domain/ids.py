"""Ids: how they are made from what they name, so that the same occurrence always has the same id in every process."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from zlib import crc32

SHARDS: Final = 16
"""Partitions of the due index; a change needs a reader of both counts for a while."""

UID_LENGTH: Final = 12
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def uid_from(number: int) -> str:
    """Write a random 60-bit number as a job uid: 12 characters of Crockford's base 32 in lower case."""
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(UID_LENGTH)))


def scheduled_run_id(uid: str, scheduled_at: datetime) -> str:
    """Name the run of a job at one nominal instant, such as `7k2m0x9c4b1d-20240310T070000Z`."""
    return f"{uid}-{_stamp(scheduled_at)}"


def manual_run_id(uid: str, unique: str) -> str:
    """Name a run that was asked for by hand without an idempotency key."""
    return f"{uid}-m{unique}"


def keyed_run_id(uid: str, idempotency_key: str) -> str:
    """Name a run that was asked for with an idempotency key: the same key gives the same run."""
    return f"{uid}-k{sha256(idempotency_key.encode()).hexdigest()[:24]}"


def gap_id(uid: str, from_at: datetime) -> str:
    """Name the record of a gap: as the run of its first instant, so that of record and run only one can be put."""
    return scheduled_run_id(uid, from_at)


def uid_of(run_id: str) -> str:
    """Return the uid of the job that a run or gap id belongs to; empty when the id has another form."""
    uid, dash, _ = run_id.partition("-")
    return uid if dash and len(uid) == UID_LENGTH and set(uid) <= set(_ALPHABET) else ""


def shard_of(identifier: str) -> int:
    """Return the shard of the due index that holds an id."""
    return crc32(identifier.encode()) % SHARDS


def _stamp(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
