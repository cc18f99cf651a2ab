"""What the API answers, as types: the code that writes an answer is checked by them, and OpenAPI shows them.

Nothing here is checked while the service runs, so that an answer costs nothing for it.
"""

from typing import Annotated, Any, Final

from typing_extensions import TypedDict

from clawjob.domain.access import Role
from clawjob.domain.dead_letters import LetterKind
from clawjob.domain.job_version import Change
from clawjob.domain.run import Outcome, Reason, RunKind, State


class Says:
    """What a value is, for people who read the OpenAPI document."""

    def __init__(self, description: str = "", example: Any = None, **more: Any) -> None:
        self._schema: dict[str, Any] = {"description": description} if description else {}
        if example is not None:
            self._schema["examples"] = [example]
        self._schema |= more

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Add it to a schema; pydantic calls this."""
        return {**handler(schema), **self._schema}


INSTANT: Final = Says("", "2024-03-10T07:00:00.000Z", format="date-time")
Instant = Annotated[str, INSTANT]
Cursor = Annotated[str | None, Says("Give it back for the next page; null at the end.")]
Name = Annotated[str, Says("", "daily_news_crawl")]


class Health(TypedDict):
    """The API answers."""

    status: Annotated[str, Says("", "ok")]
    now: Annotated[Instant, Says("What the service's clock shows.")]


class OpenApi(TypedDict):
    """An OpenAPI document."""

    openapi: Annotated[str, Says("", "3.1.0")]
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


class WhoAmI(TypedDict):
    """Whose token it is."""

    token_id: Annotated[str, Says("", "4mZkQ0sY")]
    name: Annotated[str, Says("", "anna@laptop")]
    role: Role | None


class Token(TypedDict):
    """An access token, without what could be used as one."""

    token_id: Annotated[str, Says("", "4mZkQ0sY")]
    name: Annotated[str, Says("Whose it is or what for.", "ci")]
    role: Role
    created_at: Instant
    created_by: Annotated[str, Says("Id of the token that made it, or `aws`.")]


class NewToken(Token):
    """An access token that was just made."""

    token: Annotated[str, Says("The token itself, shown this once.", "cj_4mZkQ0sY_...")]


class TokenPage(TypedDict):
    """Tokens, oldest first."""

    items: list[Token]
    cursor: Cursor


class Occurrence(TypedDict):
    """An instant of a schedule."""

    scheduled_at: Instant
    local: Annotated[str, Says("In the schedule's zone.", "2024-03-10T03:00:00-04:00")]
    nominal_local: Annotated[str, Says("The wall time that the schedule names.", "2024-03-10T02:30:00")]
    moved: Annotated[str | None, Says("Why it is not at its wall time, where a change of the clock moved it.")]


class Decision(TypedDict):
    """What the service last decided about a job."""

    reason: Reason
    at: Instant
    scheduled_at: Annotated[Instant | None, Says("The instant that it speaks of.")]
    count: Annotated[int, Says("How many instants it speaks of.")]
    explanation: Annotated[str, Says("The same in words.")]


class JobStatus(TypedDict):
    """What the service knows of a job."""

    uid: str
    version: Annotated[int, Says("Rises with each change; the ETag is this number in quotes.", 3)]
    enabled: bool
    created_at: Instant
    changed_at: Instant
    next_runs: list[Occurrence]
    active_run: Annotated[str | None, Says("The run that took the overlap slot last.")]
    last_decision: Decision | None
    invalid: Annotated[str | None, Says("Why the stored job cannot be read; the next edit heals it.")]


class JobDocument(TypedDict):
    """The document of a job; its fields are those of the job reference."""


class Job(TypedDict):
    """A job: its document in full form, and `state`. The document's own fields are those of the job reference."""

    state: JobStatus


class JobPage(TypedDict):
    """Jobs by name."""

    items: list[Job]
    cursor: Cursor


class NextTimes(TypedDict):
    """The next instants of a job."""

    name: Name
    timezone: Annotated[str, Says("", "Europe/Berlin")]
    items: list[Occurrence]


class Version(TypedDict):
    """A version of a job: who made it, when and why."""

    version: Annotated[int, Says("", 3)]
    at: Instant
    change: Change | None
    by: Annotated[str, Says("Id of the token; empty where it is not known.")]
    by_name: Annotated[str, Says("Whose token it is.", "anna@laptop")]
    why: str


class VersionPage(TypedDict):
    """Versions, newest first."""

    items: list[Version]
    cursor: Cursor


class FieldChange(TypedDict):
    """A field that differs; null where it is not given."""

    field: Annotated[str, Says("", "retry.delay")]
    before: Any
    after: Any


class VersionDetail(Version):
    """A version with its document, and what it changed."""

    document: JobDocument
    against: Annotated[int | None, Says("The version that it is compared with; null for the first.", 2)]
    changes: list[FieldChange]


class WhyLine(TypedDict):
    """One fact."""

    label: Annotated[str, Says("", "schedule")]
    text: str


class Why(TypedDict):
    """Why a job does or does not run."""

    name: Name
    lines: list[WhyLine]


class AttemptFields(TypedDict):
    """How an attempt went; null where that is not known, or not yet."""

    worker: str | None
    started_at: Instant | None
    ended_at: Instant | None
    duration_seconds: float | None
    outcome: Outcome | None
    exit_code: int | None
    exit: Annotated[str | None, Says("The exit code in words.", "0: success")]
    signal: Annotated[str | None, Says("What ended it.", "SIGKILL")]
    detail: str | None
    items: Annotated[int | None, Says("What the crawler said that it brought.")]
    log_bytes: int | None
    log_dropped_bytes: Annotated[int | None, Says("Output that was not kept.")]


class Attempt(AttemptFields):
    """One attempt of a run."""

    number: int


class Cancel(TypedDict):
    """A wish to cancel."""

    at: Instant
    by: Annotated[str, Says("Id of the token.")]
    why: str


class Missed(TypedDict):
    """The instants that a record of a gap stands for."""

    until: Instant
    count: int


class Run(AttemptFields):
    """A run, with its present or last attempt."""

    run_id: str
    job: Name
    kind: RunKind
    state: State
    is_final: bool
    reason: Reason | None
    explanation: Annotated[str, Says("Where the run is and why, in words.")]
    version: Annotated[int, Says("Of the job's document.")]
    pool: Annotated[str, Says("", "default")]
    scheduled_at: Annotated[Instant, Says("The instant that it is for.")]
    due_at: Annotated[Instant, Says("It does not start before.")]
    queued_at: Instant
    nominal_local: str | None
    attempt: Annotated[int, Says("Number of the present or last attempt; 0 before the first.")]
    retry: Annotated[int, Says("How many retries it has used.")]
    lateness_seconds: Annotated[float | None, Says("From the due instant to the start.")]
    final_at: Instant | None
    cancel: Cancel | None
    missed: Missed | None


class RunDetail(Run):
    """A run with all its attempts, and what it was given and gave."""

    attempts: list[Attempt]
    params: dict[str, Any]
    outputs: dict[str, Any]
    log_tail: Annotated[str, Says("The last output of the last attempt that failed.")]


class RunPage(TypedDict):
    """Runs, newest first."""

    items: list[Run]
    cursor: Cursor


class LogLine(TypedDict):
    """A line of output."""

    at: Instant
    text: str


class LogPage(TypedDict):
    """Output of one attempt, oldest line first."""

    run_id: str
    attempt: int
    lines: list[LogLine]
    cursor: Annotated[str | None, Says("Continues also after the last line; null when nothing was written yet.")]
    has_ended: Annotated[bool, Says("No more will come.")]


class DeadLetter(TypedDict):
    """A message that nobody handled; its body is never shown."""

    message_id: str
    sent_at: Instant
    receives: Annotated[int, Says("How often it was received.")]
    what: Annotated[str, Says("What it is, in words.")]
    why: Annotated[str, Says("Why it is here, as far as it can be told.")]
    run_id: str | None
    job: str | None
    attempt: int | None
    retry: int | None


class DeadQueue(TypedDict):
    """The dead letters of one queue."""

    queue: Annotated[str, Says("", "runs-default-low")]
    kind: LetterKind
    count: Annotated[int, Says("Messages, as SQS counts them: up to a minute late.")]
    held: Annotated[int, Says("More that somebody looks at right now.")]
    messages: list[DeadLetter]


class DeadQueues(TypedDict):
    """All of them."""

    items: list[DeadQueue]


class SentBack(TypedDict):
    """What became of the messages."""

    queue: str
    sent_back: int
    refused: Annotated[int, Says("Still there, because SQS did not take them.")]
    has_more: Annotated[bool, Says("Ask again for the rest.")]


class Dropped(TypedDict):
    """What became of the messages."""

    queue: str
    dropped: int
    refused: Annotated[int, Says("Still there, because SQS did not take it.")]
    has_more: Annotated[bool, Says("Ask again for the rest.")]
    note: Annotated[str, Says("What follows for the runs.")]


class FieldProblem(TypedDict):
    """One thing that is wrong, and what to do."""

    field: Annotated[str, Says("Path of the field; empty for the whole.", "schedule.cron")]
    message: str
    remedy: str


class ProblemDocument(TypedDict):
    """Why a request was refused (RFC 9457)."""

    type: Annotated[str, Says("Programs decide by it; it never changes.", "urn:clawjob:problem:invalid-input")]
    title: str
    status: int
    detail: str
    problems: list[FieldProblem]
    request_id: str


class GatewayRefusal(TypedDict):
    """Why the gateway refused a request that the API never saw."""

    message: Annotated[str, Says("", "Forbidden")]
