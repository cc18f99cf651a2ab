"""What the API does with dead letters."""

import logging
from dataclasses import dataclass
from typing import Any, Final

from clawjob.api.answers import Answer
from clawjob.api.request import Request, any_text, whole
from clawjob.aws.dead_letters import DeadLetters
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

    def list_all(self, request: Request) -> Answer:
        """`GET /dead-letters`: counts, and up to `limit` messages of each queue, or of one."""
        asked = request.parameters(queue=any_text(), limit=whole(0, MOST_SHOWN, _SHOWN))
        views = list_dead_letters(self.ctx, self.dead, asked["queue"], asked["limit"])
        return Answer(200, {"items": [_queue_json(view) for view in views]})

    def redrive(self, request: Request, queue: str) -> Answer:
        """`POST /dead-letters/{queue}/redrive`: all, or the one that the body names."""
        request.parameters()
        message_id = request.fields(message_id=str).get("message_id")
        handled = redrive(self.ctx, self.dead, queue, message_id)
        _log("dead letters sent back", request, queue, handled)
        return Answer(200, {"queue": queue, "sent_back": handled.done, **_rest(handled)})

    def drop(self, request: Request, queue: str) -> Answer:
        """`DELETE /dead-letters/{queue}`: the one that `message_id` names, or all for `all=true`."""
        asked = request.parameters(message_id=any_text(), all=any_text())
        request.fields()
        if (asked["all"] == "true") == (asked["message_id"] is not None) or asked["all"] not in (None, "true"):
            remedy = "Give message_id=ID for one message, or all=true for all of the queue."
            raise InvalidInputError.of("message_id", "It must be said what is to be dropped.", remedy)
        handled = drop(self.ctx, self.dead, queue, asked["message_id"])
        _log("dead letters dropped", request, queue, handled)
        note = after_drop(self.dead.kind(queue))
        return Answer(200, {"queue": queue, "dropped": handled.done, **_rest(handled), "note": note})


def _log(what: str, request: Request, queue: str, handled: Handled) -> None:
    log.info(what, extra={"queue": queue, "count": handled.done, "refused": handled.refused, "by": request.caller})


def _rest(handled: Handled) -> dict[str, Any]:
    return {"refused": handled.refused, "has_more": handled.has_more}


def _queue_json(view: DeadQueueView) -> dict[str, Any]:
    return {
        "queue": view.name,
        "kind": view.kind.value,
        "count": view.counts.waiting,
        "held": view.counts.held,
        "messages": [_message_json(one) for one in view.letters],
    }


def _message_json(view: LetterView) -> dict[str, Any]:
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
