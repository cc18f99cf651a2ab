"""What the API does with jobs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clawjob.api.answers import Answer
from clawjob.api.cursors import give_cursor, take_cursor
from clawjob.api.documents import parse_document
from clawjob.api.problems import (
    CONFLICT,
    DUPLICATE_NAME,
    KEY_REUSED,
    NOT_FOUND,
    PRECONDITION_REQUIRED,
    STALE_VERSION,
    RefusedError,
)
from clawjob.api.request import BodyField, Parameter, Request, any_text, whole
from clawjob.api.route import BASE, IDEMPOTENCY_KEY, IF_MATCH, Gives, Route, route
from clawjob.api.shapes import Job, JobDocument, JobPage, NextTimes, Run, RunPage, Why
from clawjob.api.strict_json import check_finite
from clawjob.api.views import job_json, occurrences_json, run_json
from clawjob.domain.access import Role
from clawjob.domain.definition import Definition
from clawjob.domain.errors import (
    ConflictError,
    InvalidInputError,
    JobNotFoundError,
    NewerRecordError,
    StaleVersionError,
    UnreadableRecordError,
)
from clawjob.domain.job_version import MAX_WHY, Change, Editor
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations import apply_job, insights, trigger_run
from clawjob.operations.apply_job import JobView
from clawjob.operations.context import Context
from clawjob.operations.dispatch import schedule_of

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
"""What the job document takes as a name."""
_NEXT_OF_ONE: Final = 5
_NEXT_OF_MANY: Final = 1
_JOBS: Final = "jobs"
_PAGE: Final[Mapping[str, Parameter[Any]]] = {"limit": whole(1, insights.MAX_LIMIT, 50), "cursor": any_text()}
_WHY: Final = {"why": BodyField(str, "Kept with the version.", "site is down until Monday", longest=MAX_WHY)}
_SHOWN: Final = Gives(Job, "The job as it is now.", headers=("ETag",))


@dataclass(frozen=True, slots=True)
class JobRoutes:
    """Jobs, their runs, their next times."""

    ctx: Context
    pools: frozenset[str]

    @route(
        Route(
            "POST",
            "/jobs",
            Role.OPERATOR,
            {201: Gives(Job, "The job that was created.", headers=("Location", "ETag"))},
            refuses=(DUPLICATE_NAME,),
            body=JobDocument,
        )
    )
    def create_job(self, request: Request) -> Answer:
        """Create a job from its document."""
        definition = parse_document(request.document(), self.ctx.clock(), self.pools)
        view = apply_job.create_job(self.ctx, definition, request.editor())
        return self._job(view, 201, {"Location": f"{BASE}/jobs/{definition.name}"})

    @route(Route("GET", "/jobs", Role.VIEWER, {200: Gives(JobPage, "A page of jobs.")}, query=_PAGE))
    def list_jobs(self, request: Request) -> Answer:
        """List jobs by name."""
        asked = request.asked
        page = insights.list_jobs(self.ctx, asked["limit"], take_cursor(_JOBS, asked["cursor"]))
        now = self.ctx.clock()
        items = [job_json(view, now, _NEXT_OF_MANY) for view in page.items]
        return Answer(200, {"items": items, "cursor": give_cursor(_JOBS, page.cursor)})

    @route(Route("GET", "/jobs/<name>", Role.VIEWER, {200: _SHOWN}, refuses=(NOT_FOUND,)))
    def get_job(self, request: Request, name: str) -> Answer:
        """Show a job."""
        return self._job(insights.get_job(self.ctx, known_name(name)))

    @route(
        Route(
            "PUT",
            "/jobs/<name>",
            Role.OPERATOR,
            {200: _SHOWN},
            refuses=(NOT_FOUND, CONFLICT, STALE_VERSION, PRECONDITION_REQUIRED),
            body=JobDocument,
            headers=(IF_MATCH,),
        )
    )
    def replace_job(self, request: Request, name: str) -> Answer:
        """Put another document in force; `name` may be left out of it."""
        expected = request.expected_version()
        definition = self._definition(request.document(), known_name(name))
        return self._job(replaced(self.ctx, name, definition, expected, request.editor()))

    @route(
        Route(
            "DELETE",
            "/jobs/<name>",
            Role.OPERATOR,
            {204: Gives(None, "It is deleted, and its name is free.")},
            refuses=(NOT_FOUND, CONFLICT),
            body={},
        )
    )
    def delete_job(self, request: Request, name: str) -> Answer:
        """Delete a job; its runs that wait are not started."""
        try:
            apply_job.delete_job(self.ctx, known_name(name))
        except StaleVersionError as error:
            raise _too_busy(name) from error
        return Answer(204)

    @route(
        Route(
            "POST",
            "/jobs/<name>/pause",
            Role.OPERATOR,
            {200: _SHOWN},
            refuses=(NOT_FOUND, CONFLICT),
            body=_WHY,
        )
    )
    def pause_job(self, request: Request, name: str) -> Answer:
        """Stop its schedule."""
        return self._set_enabled(request, name, enabled=False)

    @route(
        Route(
            "POST",
            "/jobs/<name>/resume",
            Role.OPERATOR,
            {200: _SHOWN},
            refuses=(NOT_FOUND, CONFLICT),
            body=_WHY,
        )
    )
    def resume_job(self, request: Request, name: str) -> Answer:
        """Start its schedule again."""
        return self._set_enabled(request, name, enabled=True)

    @route(
        Route(
            "POST",
            "/jobs/<name>/runs",
            Role.OPERATOR,
            {
                201: Gives(Run, "The run that was made.", headers=("Location",)),
                200: Gives(Run, "The run that this key made before.", headers=("Location",)),
            },
            refuses=(NOT_FOUND, KEY_REUSED),
            body={"params": BodyField(dict, "In the place of the job's own, by name.", {"page": 2})},
            headers=(IDEMPOTENCY_KEY,),
        )
    )
    def trigger_run(self, request: Request, name: str) -> Answer:
        """Run it now."""
        params = request.given.get("params", {})
        check_finite({"params": params})
        done = trigger_run.trigger_run(self.ctx, known_name(name), params, request.idempotency_key())
        location = {"Location": f"{BASE}/runs/{done.run.run_id}"}
        return Answer(201 if done.created else 200, run_json(done.run), location)

    @route(
        Route(
            "GET",
            "/jobs/<name>/runs",
            Role.VIEWER,
            {200: Gives(RunPage, "A page of runs.")},
            refuses=(NOT_FOUND,),
            query=_PAGE,
        )
    )
    def list_runs(self, request: Request, name: str) -> Answer:
        """List its runs, newest first."""
        asked = request.asked
        scope = f"runs of {known_name(name)}"
        page = insights.list_runs(self.ctx, name, asked["limit"], take_cursor(scope, asked["cursor"]))
        return Answer(200, {"items": [run_json(run) for run in page.items], "cursor": give_cursor(scope, page.cursor)})

    @route(
        Route(
            "GET",
            "/jobs/<name>/next",
            Role.VIEWER,
            {200: Gives(NextTimes, "Its next instants, by the code that the scheduler uses.")},
            refuses=(NOT_FOUND,),
            query={"count": whole(1, insights.MAX_LIMIT, _NEXT_OF_ONE)},
        )
    )
    def list_next_times(self, request: Request, name: str) -> Answer:
        """Tell its next instants."""
        definition = insights.get_job(self.ctx, known_name(name)).definition
        spec = definition.schedule
        found = insights.next_times(self.ctx, name, request.asked["count"])
        items = occurrences_json(found, schedule_of(spec, name)) if spec is not None else []
        return Answer(200, {"name": name, "timezone": definition.zone, "items": items})

    @route(
        Route("GET", "/jobs/<name>/why", Role.VIEWER, {200: Gives(Why, "The facts, one by one.")}, refuses=(NOT_FOUND,))
    )
    def explain_job(self, request: Request, name: str) -> Answer:
        """Say in plain words why it does or does not run."""
        found = insights.why(self.ctx, known_name(name))
        return Answer(200, {"name": name, "lines": [{"label": one.label, "text": one.text} for one in found.lines]})

    def _set_enabled(self, request: Request, name: str, *, enabled: bool) -> Answer:
        try:
            return self._job(apply_job.set_enabled(self.ctx, known_name(name), enabled, request.editor()))
        except StaleVersionError as error:
            raise _too_busy(name) from error

    def _definition(self, document: dict[str, Any], name: str) -> Definition:
        written = document.get("name", name)
        if written != name:
            remedy = f"Leave it out, or write {name!r}; a job cannot be renamed."
            raise InvalidInputError.of("name", "It is not the name in the address.", remedy)
        kept = self._schedule_in_force(name)
        return parse_document({**document, "name": name}, self.ctx.clock(), self.pools, kept)

    def _schedule_in_force(self, name: str) -> ScheduleSpec | None:
        try:
            return insights.get_job(self.ctx, name).definition.schedule
        except NewerRecordError:
            raise
        except UnreadableRecordError:
            # The document is to heal it.
            return None

    def _job(self, view: JobView, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
        return job_answer(self.ctx, view, status, headers)


def job_answer(ctx: Context, view: JobView, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Answer with a job and its ETag."""
    body = job_json(view, ctx.clock(), _NEXT_OF_ONE)
    return Answer(status, body, {**(headers or {}), "ETag": _etag(view.state.version)})


def replaced(
    ctx: Context,
    name: str,
    definition: Definition,
    expected: int | None,
    editor: Editor,
    change: Change = Change.REPLACED,
) -> JobView:
    """Put a definition in force.

    Raises:
        RefusedError: the job is at another version than expected.
        ConflictError: it changes all the time.
    """
    try:
        return apply_job.replace_job(ctx, name, definition, expected, editor, change)
    except StaleVersionError as error:
        if expected is None:
            raise _too_busy(name) from error
        detail = f"Job {name!r} is at version {error.actual}, not {expected}. Read it again, then send your change."
        raise RefusedError(STALE_VERSION, detail, headers={"ETag": _etag(error.actual)}) from error


def known_name(name: str) -> str:
    """A name that a job can have; no job has another."""
    if not NAME.fullmatch(name):
        raise JobNotFoundError(name[:100])
    return name


def _etag(version: int) -> str:
    return f'"{version}"'


def _too_busy(name: str) -> ConflictError:
    return ConflictError(f"job {name!r} changes all the time; send the request again")
