"""The version that each stored record and message carries, so that two versions of the service can share them.

Promise: what a newer version wrote is told from what is damaged; whoever cannot read it leaves it to those who can.
"""

from clawjob.domain.errors import NewerRecordError, UnreadableRecordError
from clawjob.domain.showing import shown


def check_version(key: str, found: object, known: int) -> None:
    """Refuse a record of another version than the one that we read.

    Args:
        key: names the record.
        found: its version; anything, as it was stored.
        known: ours.

    Raises:
        NewerRecordError: a newer version of the service wrote it, and can read it.
        UnreadableRecordError: it has no version, or one that nobody reads any more.
    """
    if type(found) is int and found > known:
        raise NewerRecordError(key, f"version {found} is newer than {known}")
    if type(found) is not int or found != known:
        raise UnreadableRecordError(key, f"{shown(found)} is not version {known}")
