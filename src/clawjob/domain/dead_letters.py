"""Dead letters in words: what a message that nobody handled is, why, and what follows when it is dropped.

A body is never shown: reports hold what crawlers wrote.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from clawjob.domain.errors import NewerRecordError, UnreadableRecordError
from clawjob.domain.ids import uid_of
from clawjob.domain.messages import RunMessage, result_from_body
from clawjob.domain.run import Run

_LONGEST_ID = 80
_LONGEST_ERROR = 200


class LetterKind(StrEnum):
    """What a queue's messages are."""

    RUN = "run"
    REPORT = "report"
    TICK = "tick"


@dataclass(frozen=True, slots=True)
class Letter:
    """What can be told of a message by its body alone."""

    what: str
    run_id: str | None = None
    attempt: int | None = None
    """Of a report."""
    retry: int | None = None
    """Of a message of a run."""
    trouble: str = ""
    """Why it cannot be read; empty when it can."""


@dataclass(frozen=True, slots=True)
class RunFound:
    """The run that a letter names, as it is now."""

    run: Run | None
    """None: it is not there, or cannot be read."""
    is_readable: bool = True


def read_letter(kind: LetterKind, body: str) -> Letter:
    """Read a message's body, whatever it holds."""
    if kind is LetterKind.TICK:
        return Letter(f"tick of {_time_of(body)}")
    try:
        letter = _read_run(body) if kind is LetterKind.RUN else _read_report(body)
    except NewerRecordError:
        newer = "It is of a newer version: send it back after the upgrade."
        return Letter(_unread(body), trouble=newer)
    except UnreadableRecordError:
        return Letter(_unread(body), trouble="No version of clawjob wrote it: nobody can read it. Drop it.")
    if letter.run_id is None or len(letter.run_id) > _LONGEST_ID or not uid_of(letter.run_id):
        return Letter(_unread(body), trouble="It names a run that cannot be. Drop it.")
    return letter


def why_dead(kind: LetterKind, letter: Letter, found: RunFound | None, error: str) -> str:
    """Say why a message is among the dead letters, as far as can be told now.

    Args:
        kind: of its queue.
        letter: what it says.
        found: the run that it names; None when it names none.
        error: what the sender of a tick noted on it.
    """
    if kind is LetterKind.TICK:
        return error[:_LONGEST_ERROR] or "It could not be delivered."
    if letter.trouble or found is None:
        return letter.trouble
    if not found.is_readable:
        return "The record of its run cannot be read: mend the record, then send the message back."
    run = found.run
    if run is None:
        return "Its run is not kept any more: sent back, it does nothing."
    now = f"Its run is {run.state.value}"
    if kind is LetterKind.RUN:
        if run.is_final:
            return f"{now}: sent back, it does nothing."
        if letter.retry is not None and letter.retry < run.retry:
            return f"{now}, at a later try: sent back, it does nothing."
        return f"{now}. No worker could handle the message: their log says why."
    if run.is_final or letter.attempt != run.token:
        return f"{now}, attempt {run.token}: sent back, it changes nothing."
    return f"{now}, at this attempt. The log of the results function says why it was not settled."


def after_drop(kind: LetterKind) -> str:
    """Say what follows when messages of a kind are dropped."""
    match kind:
        case LetterKind.RUN:
            return "No run is lost by it: the scheduler sends a run again whose message is gone, at its next check."
        case LetterKind.REPORT:
            return "A run whose report is gone counts as a lost attempt: the scheduler sends the run again."
        case LetterKind.TICK:
            return "No run is lost by it: the next tick does what this one was to do."


def _read_run(body: str) -> Letter:
    message = RunMessage.from_body(body)
    return Letter(f"run {message.run_id}, retry {message.retry}", message.run_id, retry=message.retry)


def _read_report(body: str) -> Letter:
    result = result_from_body(body)
    what = f"report of run {result.run_id}, attempt {result.token}: {result.outcome.value}"
    return Letter(what, result.run_id, attempt=result.token)


def _unread(body: str) -> str:
    return f"{len(body.encode()):,} bytes"


def _time_of(body: str) -> str:
    try:
        time = json.loads(body)["time"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return "an unknown instant"
    return time[:40] if isinstance(time, str) else "an unknown instant"
