"""What the API does with versions of jobs."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from clawjob.api.answers import Answer
from clawjob.api.cursors import give_cursor, take_cursor, wrong_cursor
from clawjob.api.documents import document_of, parse_document
from clawjob.api.job_routes import job_answer, known_name, replaced
from clawjob.api.problems import CONFLICT, NOT_FOUND, PRECONDITION_REQUIRED, STALE_VERSION
from clawjob.api.request import BodyField, Request, any_text, whole
from clawjob.api.route import IF_MATCH, Gives, Route, route
from clawjob.api.shapes import FieldChange, Job, Version, VersionDetail, VersionPage
from clawjob.domain.access import Role
from clawjob.domain.errors import VersionNotFoundError
from clawjob.domain.instants import to_text
from clawjob.domain.job_version import MAX_WHY, Change, JobVersion, field_changes
from clawjob.operations import insights
from clawjob.operations.context import Context

_HIGHEST: Final = 99_999_999


@dataclass(frozen=True, slots=True)
class VersionRoutes:
    """Versions, what each changed, and the way back."""

    ctx: Context
    pools: Collection[str]

    @route(
        Route(
            "GET",
            "/jobs/<name>/versions",
            Role.VIEWER,
            {200: Gives(VersionPage, "A page of versions.")},
            refuses=(NOT_FOUND,),
            query={"limit": whole(1, insights.MAX_LIMIT, 20), "cursor": any_text()},
        )
    )
    def list_versions(self, request: Request, name: str) -> Answer:
        """List a job's versions, newest first."""
        scope = f"versions of {known_name(name)}"
        before = take_cursor(scope, request.asked["cursor"])
        if before is not None and not (before.isdigit() and 0 < int(before) <= _HIGHEST):
            raise wrong_cursor()
        page = insights.list_versions(self.ctx, name, request.asked["limit"], int(before) if before else None)
        answer: VersionPage = {
            "items": [_version_json(version) for version in page.items],
            "cursor": give_cursor(scope, page.cursor),
        }
        return Answer(200, answer)

    @route(
        Route(
            "GET",
            "/jobs/<name>/versions/<number>",
            Role.VIEWER,
            {200: Gives(VersionDetail, "The version, its document, and what it changed.")},
            refuses=(NOT_FOUND,),
            query={"against": whole(1, _HIGHEST, None)},
        )
    )
    def get_version(self, request: Request, name: str, number: str) -> Answer:
        """Show a version of a job, compared with the one before it, or with the one that `against` names."""
        version = _known_number(known_name(name), number)
        found = insights.get_version(self.ctx, name, version)
        against: int | None = request.asked["against"] or version - 1 or None
        document = document_of(found.definition)
        changes: list[FieldChange] = []
        if against is not None:
            before = document_of(insights.get_version(self.ctx, name, against).definition)
            changes = [
                {"field": one.field, "before": one.before, "after": one.after}
                for one in field_changes(before, document)
            ]
        answer: VersionDetail = {
            **_version_json(found.version),
            "document": document,  # type: ignore[typeddict-item]  # its fields are those of the model
            "against": against,
            "changes": changes,
        }
        return Answer(200, answer)

    @route(
        Route(
            "POST",
            "/jobs/<name>/rollback",
            Role.OPERATOR,
            {200: Gives(Job, "The job, with the old document as its newest version.", headers=("ETag",))},
            refuses=(NOT_FOUND, CONFLICT, STALE_VERSION, PRECONDITION_REQUIRED),
            body={
                "version": BodyField(int, "The one to go back to.", 2, required=True),
                "why": BodyField(str, "Kept with the new version.", "the new spider finds nothing", longest=MAX_WHY),
            },
            headers=(IF_MATCH,),
        )
    )
    def rollback_job(self, request: Request, name: str) -> Answer:
        """Put the document of an older version in force again, as a new version."""
        expected = request.expected_version()
        wanted = insights.get_version(self.ctx, known_name(name), request.given["version"])
        # What was right then may be wrong now: a pool that is gone, an instant that is past.
        definition = parse_document(document_of(wanted.definition), self.ctx.clock(), self.pools)
        view = replaced(self.ctx, name, definition, expected, request.editor(), Change.ROLLED_BACK)
        return job_answer(self.ctx, view)


def _known_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _HIGHEST) or text.startswith("0"):
        raise VersionNotFoundError(name, text[:20])
    return int(text)


def _version_json(version: JobVersion) -> Version:
    return {
        "version": version.version,
        "at": to_text(version.at),
        "change": version.change,
        "by": version.editor.by,
        "by_name": version.editor.name,
        "why": version.editor.why,
    }
