"""Every error that a caller may see. Each takes the ids it speaks of, keeps them, and builds its own message."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input."""

    field: str
    """Path of the field, such as `schedule.cron` or `args[1]`; empty for the whole input."""
    message: str
    """What is wrong, in one sentence without the field's name."""
    remedy: str
    """What to write instead."""

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.message} {self.remedy}".strip()


class ClawjobError(Exception):
    """Root of all errors that clawjob raises on purpose."""


class InvalidInputError(ClawjobError):
    """Something that a user gave cannot be taken; names every field that is wrong."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))

    @classmethod
    def of(cls, field: str, message: str, remedy: str) -> "InvalidInputError":
        """Make the error for one field."""
        return cls([Problem(field, message, remedy)])


class NotFoundError(ClawjobError):
    """The thing that was asked for is not there."""


class JobNotFoundError(NotFoundError):
    """No job has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no job named {name!r}")


class VersionNotFoundError(NotFoundError):
    """The job never had this version."""

    def __init__(self, name: str, version: int | str) -> None:
        self.name = name
        self.version = version
        super().__init__(f"job {name!r} has no version {version!r}")


class RunNotFoundError(NotFoundError):
    """No run has this id (it may have been removed after its retention)."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id!r}")


class TokenNotFoundError(NotFoundError):
    """No access token has this id, or it was revoked."""

    def __init__(self, token_id: str) -> None:
        self.token_id = token_id
        super().__init__(f"there is no access token {token_id!r}")


class ConflictError(ClawjobError):
    """What was asked for does not fit the present state."""


class DuplicateJobError(ConflictError):
    """A job of this name exists already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"a job named {name!r} exists already")


class StaleVersionError(ConflictError):
    """The job was changed since the caller read it."""

    def __init__(self, name: str, expected: int, actual: int) -> None:
        self.name = name
        self.expected = expected
        self.actual = actual
        super().__init__(f"job {name!r} is at version {actual}, not {expected}")


class IdempotencyKeyReusedError(ConflictError):
    """The same Idempotency-Key came with another body."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the Idempotency-Key {key!r} was used with another body")


class LeaseLostError(ConflictError):
    """The worker's lease on a run is over or taken by another."""

    def __init__(self, run_id: str, token: int) -> None:
        self.run_id = run_id
        self.token = token
        super().__init__(f"the lease with token {token} on run {run_id!r} is lost")


class IllegalMoveError(ClawjobError):
    """A run was about to make a move that the transition table does not have: a fault of the program."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        super().__init__(f"no move leads from {source} to {target}")


class UnreadableRecordError(ClawjobError):
    """A stored record cannot be read: written by hand, damaged, or by a newer version."""

    def __init__(self, key: str, why: str) -> None:
        self.key = key
        self.why = why
        super().__init__(f"cannot read {key}: {why}")


class NewerRecordError(UnreadableRecordError):
    """What cannot be read was written by a newer version, which can: it is left as it is."""


class UnavailableError(ClawjobError):
    """A service did not answer or refused for now; the same call may be made again."""

    def __init__(self, call: str, why: str) -> None:
        self.call = call
        self.why = why
        super().__init__(f"{call} is not possible now: {why}")


def is_spoiled(error: Exception) -> bool:
    """Whether the trouble with a job or run is in what is stored of it, and stays until somebody mends it.

    What a newer version wrote is not: that version reads it.
    """
    return isinstance(error, UnreadableRecordError | InvalidInputError) and not isinstance(error, NewerRecordError)
