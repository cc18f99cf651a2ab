"""The job document as one strict model, from which its JSON Schema is made.

Promise: what the model takes has the right fields, types and ranges, and nothing was coerced. What fits together is
looked at in `job_checks`.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from clawjob.domain.definition import DEFAULT_POOL, CatchUp, CatchUpMode, Overlap, ParamValue, RetryPolicy
from clawjob.domain.duration import duration_text
from clawjob.domain.job_values import (
    Bytes,
    Choice,
    Distinct,
    Duration,
    End,
    EnvName,
    Flag,
    Given,
    Instant,
    Name,
    Number,
    Scalar,
    ShortForm,
    Text,
    Whole,
)
from clawjob.domain.priority import DEFAULT_PRIORITY
from clawjob.domain.retry import LONGEST_DELAY, SELECTABLE
from clawjob.domain.schedule import Missing, Repeated

MAX_TEXT_BYTES: Final = 32 * 1024
"""Of one element of args or value of env; Linux takes at most 131,072, and templates may make it longer."""

_ZERO: Final = timedelta(0)
_SECOND: Final = timedelta(seconds=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_ExitCodes = Annotated[list[Annotated[int, Whole(0, 255)]], Distinct()]
_End = Annotated[int | str, End(tuple(outcome.value for outcome in SELECTABLE))]
_Ends = Annotated[list[_End], Field(min_length=1), Distinct()]
_DELAY: Final = Duration(_ZERO, LONGEST_DELAY)
_Delays = Annotated[list[Annotated[timedelta, _DELAY]], Field(min_length=1, max_length=100)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class DstDocument(_Part):
    """What a cron job does where a change of the clock leaves out or repeats its time of day."""

    missing: Annotated[Missing, Choice(Missing)] = Field(Missing.SHIFT, examples=["skip"])
    """A time of day that a day does not have: run at the first instant after the gap, or not at all."""
    repeated: Annotated[Repeated, Choice(Repeated)] = Field(Repeated.FIRST, examples=["both"])
    """A time of day that a day has twice: run at the first, the second, or both."""


class ScheduleDocument(_Part):
    """When the job runs: exactly one of cron, every and at."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in ("cron", "every", "at")]})

    cron: Annotated[str | None, Text(512, 1)] = Field(None, examples=["0 2 * * *"])
    """Five fields: minute, hour, day of month, month, day of week. `H` is a value that the job's name gives."""
    every: Annotated[timedelta | None, Duration(_SECOND, 366 * _DAY)] = Field(None, examples=["15m"])
    """A fixed time between runs, counted from 1970-01-01T00:00:00Z."""
    offset: Annotated[timedelta, Duration(_ZERO, 366 * _DAY)] = Field(_ZERO, examples=["5m"])
    """With every: how far each run lies behind the multiple of it; less than every."""
    at: Annotated[datetime | None, Instant()] = Field(None, examples=["2026-05-01T02:00:00Z"])
    """One run at this instant."""
    timezone: Annotated[str | None, Text(64, 1, one_line=True)] = Field(None, examples=["Europe/Berlin"])
    """IANA name of the zone in which cron is meant and dates are written; UTC when no timezone is given."""
    dst: Annotated[DstDocument | None, Given(DstDocument)] = Field(
        None, examples=[{"missing": "skip", "repeated": "both"}]
    )
    """With cron: what to do where the clock changes."""
    start_at: Annotated[datetime | None, Instant()] = Field(None, examples=["2026-01-01T00:00:00Z"])
    """No run before this instant."""
    end_at: Annotated[datetime | None, Instant()] = Field(None, examples=["2026-12-31T23:59:59Z"])
    """No run after this instant."""
    jitter: Annotated[timedelta, Duration(_ZERO, _DAY)] = Field(_ZERO, examples=["2m"])
    """Each run starts up to so much later, always the same for the same run; less than half the smallest gap."""


class CatchUpDocument(_Part):
    """Which instants are run that passed while nothing could dispatch them."""

    mode: Annotated[CatchUpMode, Choice(CatchUpMode)] = Field(CatchUpMode.LAST, examples=["all"])
    """None of them, the last one, or all."""
    window: Annotated[timedelta, Duration(timedelta(minutes=1), 30 * _DAY)] = Field(CatchUp().window, examples=["6h"])
    """Instants older than this are not run."""
    max: Annotated[int, Whole(1, 1000)] = Field(CatchUp().max, examples=[10])
    """With all: at most so many, the newest."""


class RetryDocument(_Part):
    """How long to wait before another attempt, and after which ends there is one."""

    delay: Annotated[timedelta, _DELAY] = Field(RetryPolicy().delays[0], examples=["5m"])
    """Before the first retry."""
    delays: Annotated[list[timedelta] | None, Given(_Delays)] = Field(None, examples=[["1m", "5m", "10m"]])
    """In place of delay: before the first retry, the second, and so on; the last one repeats."""
    factor: Annotated[float, Number(1, 10)] = Field(1.0, examples=[2])
    """With delay: each further wait is so many times as long."""
    cap: Annotated[timedelta | None, _DELAY] = Field(None, examples=["15m"])
    """With delay: no wait is longer; at least delay. Without it 168h."""
    jitter: Annotated[float, Number(0, 1)] = Field(0.1, examples=[0.1])
    """Share of the wait by which it is spread, shorter or longer."""
    retry_on: Annotated[list[int | str] | None, Given(_Ends)] = Field(None, examples=[[2, "timed_out"]])
    """Exactly these exit codes and outcomes are retried. Without it: failed, signalled, out_of_memory, timed_out."""
    fail_on: Annotated[list[int | str] | None, Given(_Ends)] = Field(None, examples=[[1]])
    """These are never retried, also where retry_on names them."""


class ResourcesDocument(_Part):
    """Limits of one attempt."""

    memory: Annotated[int | None, Bytes(16 * 2**20, 2**40)] = Field(None, examples=["512MiB"])
    """Memory of the attempt's processes; over it they are ended as out_of_memory. Without it no limit of its own."""
    cpu_time: Annotated[timedelta | None, Duration(_SECOND, 7 * _DAY)] = Field(None, examples=["20m"])
    """CPU time of a process, in whole seconds. Without it no limit."""
    open_files: Annotated[int | None, Whole(16, 1_048_576)] = Field(None, examples=[1024])
    """Files that a process may have open at once. Without it the worker's own limit."""


class JobDocument(_Part):
    """A crawl job: what to run, when, within which limits, and what to do when it goes wrong."""

    model_config = ConfigDict(title="Job")

    name: Annotated[str, Name()] = Field(examples=["daily_news_crawl"])
    """The job's name; it cannot be changed."""
    description: Annotated[str, Text(2_000)] = Field("", examples=["News of the day before"])
    """For people."""
    labels: Annotated[dict[Annotated[str, Name()], Annotated[str, Text(256, one_line=True)]], Field(max_length=50)] = (
        Field({}, examples=[{"team": "news"}])
    )
    """For people and programs; clawjob gives them no meaning."""
    command: Annotated[str, Text(4_096, 1)] = Field(examples=["/data/spiders/news_spider"])
    """The program: a path, or a name on the worker's PATH. No shell, no templates."""
    args: Annotated[list[Annotated[str, Text(MAX_TEXT_BYTES)]], Field(max_length=1_000)] = Field(
        [], examples=[["--date", "{{.Yesterday}}"]]
    )
    """Its arguments, each passed on as one, whatever it holds. Templates are rendered."""
    env: Annotated[dict[Annotated[str, EnvName()], Annotated[str, Text(MAX_TEXT_BYTES)]], Field(max_length=200)] = (
        Field({}, examples=[{"SITE": "news", "DAY": "{{.Today}}"}])
    )
    """Environment variables, added to the worker's few. Templates are rendered in values."""
    params: Annotated[
        dict[Annotated[str, Name()], Annotated[ParamValue, Scalar(Text(16 * 1024))]], Field(max_length=100)
    ] = Field({}, examples=[{"page": 1, "lang": "en"}])
    """Parameters of a run with their defaults, for templates; a manual run may give other values of the same type."""
    enabled: Annotated[bool, Flag()] = Field(True, examples=[False])
    """False: paused; it is not run by its schedule."""
    schedule: Annotated[ScheduleDocument | None, ShortForm(ScheduleDocument, "cron")] = Field(
        None, examples=["0 2 * * *"]
    )
    """When it runs: a cron expression, or an object with more. Without it the job runs only when it is triggered."""
    timezone: Annotated[str | None, Text(64, 1, one_line=True)] = Field(None, examples=["Europe/Berlin"])
    """The same as schedule.timezone; for a job without schedule the zone of its dates. UTC when left out."""
    timeout: Annotated[timedelta, Duration(_SECOND, 11 * _HOUR + timedelta(minutes=30))] = Field(
        _HOUR, examples=["30m"]
    )
    """Of each attempt; then its processes are asked to end."""
    grace: Annotated[timedelta, Duration(_ZERO, timedelta(seconds=110))] = Field(
        timedelta(seconds=30), examples=["10s"]
    )
    """From being asked to end to being killed."""
    queue_deadline: Annotated[timedelta | None, Duration(_SECOND, 14 * _DAY)] = Field(None, examples=["2h"])
    """A run that waited longer than this for a worker is not started. Without it runs wait."""
    catch_up: Annotated[CatchUpDocument, ShortForm(CatchUpDocument, "mode")] = Field(
        CatchUpDocument(), examples=["none"]
    )
    """What becomes of instants that passed while the service was down: a word, or an object with more."""
    overlap: Annotated[Overlap, Choice(Overlap)] = Field(Overlap.SKIP, examples=["allow"])
    """What a run does while another run of the job has not ended: run beside it, or be skipped."""
    max_retry: Annotated[int, Whole(0, 100)] = Field(3, examples=[2])
    """Attempts after the first; 0: exactly one attempt."""
    retry: Annotated[RetryDocument, ShortForm(RetryDocument, "delay", "delays")] = Field(
        RetryDocument(), examples=["5m", ["1m", "5m", "10m"]]
    )
    """When to try again: one delay, a list of them, or an object with more."""
    resources: ResourcesDocument = Field(ResourcesDocument(), examples=[{"memory": "512MiB"}])
    """What one attempt may use."""
    pool: Annotated[str, Name()] = Field(DEFAULT_POOL, examples=["default"])
    """The workers that run it."""
    priority: Annotated[int, Whole(1, 5)] = Field(DEFAULT_PRIORITY, examples=[4])
    """Where both wait for a worker, 7 of 10 times runs of priority 4 and 5 are taken before those of 1 to 3."""
    success_exit_codes: Annotated[_ExitCodes, Field(min_length=1)] = Field([0], examples=[[0, 3]])
    """Exit codes that mean success."""
    empty_exit_codes: _ExitCodes = Field([], examples=[[4]])
    """Exit codes that mean: went well, found nothing; such an attempt ends as empty."""
    min_items: Annotated[int | None, Whole(1, 10**9)] = Field(None, examples=[1])
    """A success that reports fewer items than this ends as empty."""


def json_schema() -> dict[str, Any]:
    """Describe the document as JSON Schema (draft 2020-12).

    It refuses less than `parse_document`, which also knows pools, zones, the clock and what fits together.
    """
    schema = JobDocument.model_json_schema(schema_generator=_SchemaGenerator)
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema}


class _SchemaGenerator(GenerateJsonSchema):
    """Writes defaults as documents do; None is no value of a document; names that do not fit are refused."""

    def field_title_should_be_set(self, _: Any) -> bool:
        return False

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        return {**super().dict_schema(schema), "additionalProperties": False}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        if described.get("default", "") is None:
            del described["default"]
        return described

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, timedelta):
            return duration_text(dft)
        if isinstance(dft, BaseModel):
            return {
                name: self.encode_default(value)
                for name in type(dft).model_fields
                if (value := getattr(dft, name)) is not None
            }
        return super().encode_default(dft)
