"""What the API does with runs."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from clawjob.api.answers import Answer
from clawjob.api.cursors import give_cursor, take_cursor, wrong_cursor
from clawjob.api.problems import CONFLICT, NOT_FOUND
from clawjob.api.request import BodyField, Request, any_text, whole
from clawjob.api.route import Gives, Route, route
from clawjob.api.shapes import LogPage as LogPageShape
from clawjob.api.shapes import Run, RunDetail
from clawjob.api.views import run_detail_json, run_json
from clawjob.aws.dynamo import call
from clawjob.aws.log_streams import LogPage, LogStreams, stream_name
from clawjob.domain.access import Role
from clawjob.domain.errors import InvalidInputError, RunNotFoundError, UnavailableError
from clawjob.domain.ids import uid_of
from clawjob.domain.instants import to_text
from clawjob.domain.run import State
from clawjob.operations import insights
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.context import Context

_RUN_ID: Final = re.compile(r"[0-9A-Za-z-]{1,80}")
_MAX_LINES: Final = 1000
_MAX_ATTEMPT: Final = 100_000
_MAX_WHY: Final = 60


@dataclass(frozen=True, slots=True)
class RunRoutes:
    """Runs, their output, their cancelling."""

    ctx: Context
    logs: LogStreams | None
    """None where the output of runs is not kept."""

    @route(Route("GET", "/runs/<run_id>", Role.VIEWER, {200: Gives(RunDetail, "The run.")}, refuses=(NOT_FOUND,)))
    def get_run(self, request: Request, run_id: str) -> Answer:
        """Show a run: all its attempts, params, outputs, last output of a failure."""
        return Answer(200, run_detail_json(insights.get_run(self.ctx, _known(run_id))))

    @route(
        Route(
            "POST",
            "/runs/<run_id>/cancel",
            Role.OPERATOR,
            {
                200: Gives(Run, "The run, which is cancelled, or had ended."),
                202: Gives(Run, "The run, which its worker will end."),
            },
            refuses=(NOT_FOUND, CONFLICT),
            body={"why": BodyField(str, "Kept with the run.", "wrong page", longest=_MAX_WHY)},
        )
    )
    def cancel_run(self, request: Request, run_id: str) -> Answer:
        """Cancel a run."""
        run = cancel_run(self.ctx, _known(run_id), request.caller, request.given.get("why", ""))
        # A running one ends when its worker hears of it.
        return Answer(202 if run.state is State.RUNNING else 200, run_json(run))

    @route(
        Route(
            "GET",
            "/runs/<run_id>/log",
            Role.VIEWER,
            {200: Gives(LogPageShape, "Lines, oldest first; `cursor` continues also after the last.")},
            refuses=(NOT_FOUND,),
            query={
                "attempt": whole(1, _MAX_ATTEMPT, None),
                "cursor": any_text(),
                "limit": whole(1, _MAX_LINES, _MAX_LINES),
            },
        )
    )
    def read_run_log(self, request: Request, run_id: str) -> Answer:
        """Read the output of an attempt, the last one by default."""
        asked = request.asked
        run = insights.get_run(self.ctx, _known(run_id)).run
        attempt = asked["attempt"] or max(run.token, 1)
        if asked["attempt"] is not None and attempt > run.token:
            remedy = f"Give a number from 1 to {run.token}." if run.token else "Wait until the run has started."
            raise InvalidInputError.of("attempt", f"The run has had {run.token} attempts.", remedy)
        scope = f"log of {run_id}/{attempt}"
        page = self._read(stream_name(run_id, attempt), take_cursor(scope, asked["cursor"]) or "", asked["limit"])
        has_ended = run.is_final or attempt < run.token or run.state is not State.RUNNING
        body = {
            "run_id": run_id,
            "attempt": attempt,
            "lines": [{"at": _instant(at_ms), "text": text} for at_ms, text in page.events],
            "cursor": give_cursor(scope, page.next_token or None),
            "has_ended": has_ended and run.token > 0,
        }
        return Answer(200, body)

    def _read(self, stream: str, token: str, limit: int) -> LogPage:
        logs = self.logs
        if logs is None:
            return LogPage([], token)
        try:
            return call("GetLogEvents", lambda: logs.read(stream, token, limit))
        except UnavailableError as error:
            if error.why == "InvalidParameterException":
                # The service forgets its tokens after a day.
                raise wrong_cursor() from error
            raise


def _known(run_id: str) -> str:
    """An id that a run can have; no run has another."""
    if not _RUN_ID.fullmatch(run_id) or not uid_of(run_id):
        raise RunNotFoundError(run_id[:100])
    return run_id


def _instant(milliseconds: int) -> str:
    return to_text(datetime.fromtimestamp(milliseconds / 1000, UTC))
