"""What the API does with dead letters."""

import logging
from dataclasses import dataclass
from typing import Final

from clawjob.api.answers import Answer
from clawjob.api.problems import CONFLICT, NOT_FOUND
from clawjob.api.request import BodyField, Request, any_text, whole
from clawjob.api.route import Gives, Route, route
from clawjob.api.shapes import DeadLetter, DeadQueue, DeadQueues, Dropped, SentBack
from clawjob.aws.dead_letters import DeadLetters
from clawjob.domain.access import Role
from clawjob.domain.dead_letters import after_drop
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.instants import to_text
from clawjob.operations.context import Context
from clawjob.operations.dead_letters import (
    MOST_SHOWN,
    DeadQueueView,
    Handled,
    LetterView,
    drop,
    list_dead_letters,
    redrive,
)

log = logging.getLogger(__name__)

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class DeadLetterRoutes:
    """Messages that nobody handled."""

    ctx: Context
    dead: DeadLetters

    @route(
        Route(
            "GET",
            "/dead-letters",
            Role.VIEWER,
            {200: Gives(DeadQueues, "Counts, and up to `limit` messages of each queue, or of one.")},
            refuses=(NOT_FOUND,),
            query={"queue": any_text(), "limit": whole(0, MOST_SHOWN, _SHOWN)},
        )
    )
    def list_dead_letters(self, request: Request) -> Answer:
        """List messages that nobody handled."""
        asked = request.asked
        views = list_dead_letters(self.ctx, self.dead, asked["queue"], asked["limit"])
        answer: DeadQueues = {"items": [_queue_json(view) for view in views]}
        return Answer(200, answer)

    @route(
        Route(
            "POST",
            "/dead-letters/<queue>/redrive",
            Role.OPERATOR,
            {200: Gives(SentBack, "How many went back, and how many did not.")},
            refuses=(NOT_FOUND, CONFLICT),
            body={"message_id": BodyField(str, "This one; all without it.", "5fea7756-0ea4-451a-a703-a558b933e274")},
        )
    )
    def redrive_dead_letters(self, request: Request, queue: str) -> Answer:
        """Send messages back to where they came from: all, or the one that the body names."""
        handled = redrive(self.ctx, self.dead, queue, request.given.get("message_id"))
        _log("dead letters sent back", request, queue, handled)
        answer: SentBack = {
            "queue": queue,
            "sent_back": handled.done,
            "refused": handled.refused,
            "has_more": handled.has_more,
        }
        return Answer(200, answer)

    @route(
        Route(
            "DELETE",
            "/dead-letters/<queue>",
            Role.OPERATOR,
            {200: Gives(Dropped, "How many were dropped, and what follows.")},
            refuses=(NOT_FOUND,),
            query={"message_id": any_text(), "all": any_text()},
            body={},
        )
    )
    def drop_dead_letters(self, request: Request, queue: str) -> Answer:
        """Drop the message that `message_id` names, or all for `all=true`."""
        asked = request.asked
        if (asked["all"] == "true") == (asked["message_id"] is not None) or asked["all"] not in (None, "true"):
            remedy = "Give message_id=ID for one message, or all=true for all of the queue."
            raise InvalidInputError.of("message_id", "It must be said what is to be dropped.", remedy)
        handled = drop(self.ctx, self.dead, queue, asked["message_id"])
        _log("dead letters dropped", request, queue, handled)
        note = after_drop(self.dead.kind(queue))
        answer: Dropped = {
            "queue": queue,
            "dropped": handled.done,
            "refused": handled.refused,
            "has_more": handled.has_more,
            "note": note,
        }
        return Answer(200, answer)


def _log(what: str, request: Request, queue: str, handled: Handled) -> None:
    log.info(what, extra={"queue": queue, "count": handled.done, "refused": handled.refused, "by": request.caller})


def _queue_json(view: DeadQueueView) -> DeadQueue:
    return {
        "queue": view.name,
        "kind": view.kind,
        "count": view.counts.waiting,
        "held": view.counts.held,
        "messages": [_message_json(one) for one in view.letters],
    }


def _message_json(view: LetterView) -> DeadLetter:
    message, letter = view.message, view.letter
    return {
        "message_id": message.message_id,
        "sent_at": to_text(message.sent_at),
        "receives": message.receives,
        "what": letter.what,
        "why": view.why,
        "run_id": letter.run_id,
        "job": view.job,
        "attempt": letter.attempt,
        "retry": letter.retry,
    }
