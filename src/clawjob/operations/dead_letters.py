"""Looks at dead letters, sends them back, drops them.

Sent first and deleted then, so that a crash between leaves a copy and never loses one; a copy is harmless, because
claim and settlement know what a message is about. Of two who ask for a message at once, one gets it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from clawjob.aws.dead_letters import Counts, DeadLetter, DeadLetters
from clawjob.aws.run_item import run_of
from clawjob.domain.dead_letters import Letter, LetterKind, RunFound, read_letter, why_dead
from clawjob.domain.errors import ConflictError, NotFoundError, UnavailableError, UnreadableRecordError
from clawjob.operations.context import Context

Work = Callable[[Sequence[DeadLetter]], list[DeadLetter]]
"""Does something with messages; tells with which it did."""

MOST_SHOWN: Final = 100
"""Messages of one queue."""
MOST_AT_ONCE: Final = 500
"""Messages that one call sends back or drops; the next goes on."""
_LOOK: Final = timedelta(seconds=15)
_WORK: Final = timedelta(seconds=15)
"""After it a call ends early, well before the gateway gives up."""
_HOLD: Final = 3 * _WORK


class NoWayBackError(ConflictError):
    """The message came from no queue."""

    def __init__(self) -> None:
        super().__init__(
            "a tick has no queue to go back to, and needs none: the next tick does what it was to do; drop it"
        )


class LetterNotFoundError(NotFoundError):
    """The queue did not give out this message."""

    def __init__(self, queue: str, message_id: str, looked_at: int) -> None:
        self.message_id = message_id
        super().__init__(
            f"there is no message {message_id!r} among the {looked_at} dead letters of {queue} that could be seen; "
            "one that somebody else looks at just now is there again within a minute"
        )


@dataclass(frozen=True, slots=True)
class LetterView:
    """A message, and what is known of it."""

    message: DeadLetter
    letter: Letter
    job: str | None
    why: str


@dataclass(frozen=True, slots=True)
class DeadQueueView:
    """The dead letters of one queue."""

    name: str
    kind: LetterKind
    counts: Counts
    letters: tuple[LetterView, ...]
    """As many as were asked for, in no order."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of the messages."""

    done: int
    refused: int
    """Still there, because SQS did not take them."""
    has_more: bool
    """Whether the call ended before the queue was empty."""


def list_dead_letters(ctx: Context, dead: DeadLetters, queue: str | None, most: int) -> list[DeadQueueView]:
    """Look at one queue or all; the messages are hidden from others for a moment and given back at once.

    Raises:
        DeadQueueNotFoundError: there is no such queue.
        UnavailableError: a service did not answer.
    """
    ends_at = ctx.clock() + _WORK
    # Of many long queues the last ones are only counted.
    return [_look(ctx, dead, name, most if ctx.clock() < ends_at else 0) for name in ([queue] if queue else dead.names)]


def redrive(ctx: Context, dead: DeadLetters, queue: str, message_id: str | None) -> Handled:
    """Send one message, or all, back to the queue from which they came.

    Raises:
        NoWayBackError: they came from none.
        DeadQueueNotFoundError: there is no such queue.
        LetterNotFoundError: there is no such message.
        UnavailableError: a service did not answer; nothing is lost.
    """
    if dead.kind(queue) is LetterKind.TICK:
        raise NoWayBackError

    def send_back(letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        sent = dead.send_back(queue, letters)
        if sent:
            dead.remove(queue, sent)
        return sent

    return _handle(ctx, dead, queue, message_id, send_back)


def drop(ctx: Context, dead: DeadLetters, queue: str, message_id: str | None) -> Handled:
    """Delete one message, or all.

    Raises:
        DeadQueueNotFoundError: there is no such queue.
        LetterNotFoundError: there is no such message.
        UnavailableError: a service did not answer.
    """
    return _handle(ctx, dead, queue, message_id, lambda letters: dead.remove(queue, letters))


def _handle(ctx: Context, dead: DeadLetters, queue: str, message_id: str | None, work: Work) -> Handled:
    if message_id is None:
        return _handle_all(ctx, dead, queue, work)
    return _handle_one(ctx, dead, queue, message_id, work)


def _look(ctx: Context, dead: DeadLetters, name: str, most: int) -> DeadQueueView:
    kind, counts = dead.kind(name), dead.counts(name)
    found: list[DeadLetter] = []
    if most and counts.waiting:
        with _held(dead, name) as held:
            for letters in dead.take(name, _LOOK):
                held += letters
                if len(held) >= most:
                    break
            found = sorted(held, key=lambda one: one.sent_at)[:most]
    read = [read_letter(kind, one.body) for one in found]
    runs = _runs(ctx, [letter.run_id for letter in read if letter.run_id])
    views = []
    for one, letter in zip(found, read, strict=True):
        run = runs.get(letter.run_id) if letter.run_id else None
        job = run.run.job if run and run.run else None
        views.append(LetterView(one, letter, job, why_dead(kind, letter, run, one.error)))
    return DeadQueueView(name, kind, counts, tuple(views))


def _runs(ctx: Context, run_ids: Sequence[str]) -> dict[str, RunFound]:
    ids = list(dict.fromkeys(run_ids))
    items = ctx.runs.get_items(ids) if ids else {}
    found = {}
    for run_id in ids:
        try:
            found[run_id] = RunFound(run_of(items[run_id]) if run_id in items else None)
        except UnreadableRecordError:
            found[run_id] = RunFound(None, is_readable=False)
    return found


def _handle_all(ctx: Context, dead: DeadLetters, queue: str, work: Work) -> Handled:
    ends_at = ctx.clock() + _WORK
    done, has_more = 0, False
    with _held(dead, queue) as held:
        for letters in dead.take(queue, _HOLD):
            handled = work(letters)
            done += len(handled)
            held += [one for one in letters if one not in handled]
            if done + len(held) >= MOST_AT_ONCE or ctx.clock() >= ends_at:
                has_more = True
                break
        return Handled(done, len(held), has_more)


def _handle_one(ctx: Context, dead: DeadLetters, queue: str, message_id: str, work: Work) -> Handled:
    ends_at = ctx.clock() + _WORK
    with _held(dead, queue) as held:
        for letters in dead.take(queue, _HOLD):
            held += letters
            wanted = [one for one in letters if one.message_id == message_id]
            if wanted:
                done = len(work(wanted))
                if done:
                    held.remove(wanted[0])
                return Handled(done, 1 - done, has_more=False)
            if ctx.clock() >= ends_at:
                break
        raise LetterNotFoundError(queue, message_id[:100], len(held))


@contextmanager
def _held(dead: DeadLetters, queue: str) -> Iterator[list[DeadLetter]]:
    """Messages that are given back at the end, whatever happens."""
    held: list[DeadLetter] = []
    try:
        yield held
    finally:
        # Without it they come back by themselves a little later.
        with suppress(UnavailableError):
            dead.give_back(queue, held)
