"""A job document in, a definition out, and back.

Promise: every field that is wrong is named at once with its remedy; short forms end here, behind this edge there is one
form; what `document_of` gives is read back as the same definition. Of the domain only this module and its parts
`job_*` need pydantic.
"""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import ValidationError

from clawjob.domain.definition import CatchUp, Definition, Resources, RetryPolicy, stored_size
from clawjob.domain.duration import duration_text
from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.job_checks import delays_of, problems_between, read_schedule
from clawjob.domain.job_model import JobDocument, json_schema
from clawjob.domain.job_problems import problems_of, shortened
from clawjob.domain.job_values import bytes_text
from clawjob.domain.schedule import ScheduleSpec

__all__ = ["JobDocument", "document_of", "json_schema", "parse_document"]

MAX_STORED_BYTES: Final = 64 * 1024
"""Of a definition as stored JSON, in UTF-8. A table's item holds 400 KB, a process's arguments about 2 MB."""
MAX_DOCUMENT_BYTES: Final = 512 * 1024
"""Of what is looked at in detail; several times what any definition needs, written out with its defaults."""

_SECOND: Final = timedelta(seconds=1)
_STAND_INS: Final[Mapping[str, object]] = {"name": "job", "command": "job"}
"""In place of a required field that is wrong, so that the others can still be looked at."""


def parse_document(data: object, now: datetime, pools: Collection[str], kept: ScheduleSpec | None = None) -> Definition:
    """Read a job document, in short or full form.

    Args:
        data: the document as JSON gives it.
        now: the present instant; a schedule must still fire after it.
        pools: names of the pools that there are.
        kept: the schedule in force; if the document has the same, it need not fire any more.

    Raises:
        InvalidInputError: names every field that is wrong.
    """
    _check_size(data)
    document, problems, wrong = _read(data)
    spec: ScheduleSpec | None = None
    if wrong.isdisjoint({"schedule", "timezone"}):
        spec, more = read_schedule(document, now, kept)
        problems += more
    problems += problems_between(document, wrong, pools)
    if problems:
        raise InvalidInputError(shortened(problems))
    definition = _definition(document, spec)
    if (size := stored_size(definition)) > MAX_STORED_BYTES:
        raise _too_large("The job takes", size, MAX_STORED_BYTES)
    return definition


def document_of(definition: Definition) -> dict[str, object]:
    """Give the full form of the document that makes this definition, with its defaults."""
    document: dict[str, object] = {
        "name": definition.name,
        "description": definition.description,
        "labels": dict(definition.labels),
        "command": definition.command,
        "args": list(definition.args),
        "env": dict(definition.env),
        "params": dict(definition.params),
        "enabled": definition.enabled,
        "schedule": None if definition.schedule is None else _schedule_document(definition.schedule),
        "timezone": definition.timezone if definition.schedule is None else None,
        "timeout": duration_text(definition.timeout),
        "grace": duration_text(definition.grace),
        "queue_deadline": _duration_or_none(definition.queue_deadline),
        "catch_up": {
            "mode": definition.catch_up.mode.value,
            "window": duration_text(definition.catch_up.window),
            "max": definition.catch_up.max,
        },
        "overlap": definition.overlap.value,
        "max_retry": definition.max_retry,
        "retry": _retry_document(definition.retry),
        "resources": _resources_document(definition.resources),
        "pool": definition.pool,
        "priority": definition.priority,
        "success_exit_codes": list(definition.success_exit_codes),
        "empty_exit_codes": list(definition.empty_exit_codes),
        "min_items": definition.min_items,
    }
    return _given(document)


def _check_size(data: object) -> None:
    try:
        size = len(json.dumps(data, ensure_ascii=False).encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError.of("", "It holds half a surrogate pair.", "Send valid Unicode text.") from error
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidInputError.of("", "It is no JSON value.", "Send one JSON object.") from error
    if size > MAX_DOCUMENT_BYTES:
        raise _too_large("The document takes", size, MAX_DOCUMENT_BYTES)


def _too_large(what: str, size: int, limit: int) -> InvalidInputError:
    return InvalidInputError.of(
        "", f"{what} {size:,} bytes in UTF-8.", f"Keep it within {limit:,}; pass large values in a file."
    )


def _read(data: object) -> tuple[JobDocument, list[Problem], set[str]]:
    """The document, what is wrong with its fields, and the names of those; they stand at their defaults then."""
    try:
        return JobDocument.model_validate(data), [], set()
    except ValidationError as error:
        errors = error.errors(include_url=False)
    problems = problems_of(errors, data, JobDocument)
    if not isinstance(data, Mapping):
        raise InvalidInputError(problems)
    wrong = {str(details["loc"][0]) for details in errors}
    right = {name: value for name, value in data.items() if name in JobDocument.model_fields and name not in wrong}
    return JobDocument.model_validate({**_STAND_INS, **right}), problems, wrong


def _definition(document: JobDocument, spec: ScheduleSpec | None) -> Definition:
    retry, limits = document.retry, document.resources
    return Definition(
        name=document.name,
        description=document.description,
        labels=document.labels,
        command=document.command,
        args=tuple(document.args),
        env=document.env,
        params=document.params,
        enabled=document.enabled,
        schedule=spec,
        timezone=document.timezone or "UTC" if spec is None else "UTC",
        timeout=document.timeout,
        grace=document.grace,
        queue_deadline=document.queue_deadline,
        catch_up=CatchUp(document.catch_up.mode, document.catch_up.window, document.catch_up.max),
        overlap=document.overlap,
        max_retry=document.max_retry,
        retry=RetryPolicy(
            delays=delays_of(retry),
            factor=retry.factor,
            cap=retry.cap,
            jitter=retry.jitter,
            retry_on=tuple(retry.retry_on or ()),
            fail_on=tuple(retry.fail_on or ()),
        ),
        resources=Resources(
            memory_bytes=limits.memory,
            cpu_seconds=None if limits.cpu_time is None else limits.cpu_time // _SECOND,
            open_files=limits.open_files,
        ),
        pool=document.pool,
        priority=document.priority,
        success_exit_codes=tuple(document.success_exit_codes),
        empty_exit_codes=tuple(document.empty_exit_codes),
        min_items=document.min_items,
    )


def _schedule_document(spec: ScheduleSpec) -> dict[str, object]:
    return _given(
        {
            "cron": spec.cron,
            "every": _duration_or_none(spec.every),
            "offset": None if spec.every is None else duration_text(spec.offset),
            "at": _instant_or_none(spec.at),
            "timezone": spec.timezone,
            "dst": None if spec.cron is None else {"missing": spec.missing.value, "repeated": spec.repeated.value},
            "start_at": _instant_or_none(spec.start_at),
            "end_at": _instant_or_none(spec.end_at),
            "jitter": duration_text(spec.jitter),
        }
    )


def _retry_document(policy: RetryPolicy) -> dict[str, object]:
    delays = [duration_text(delay) for delay in policy.delays]
    is_list = len(delays) > 1
    return _given(
        {
            "delay": None if is_list else delays[0],
            "delays": delays if is_list else None,
            "factor": None if is_list else policy.factor,
            "cap": _duration_or_none(policy.cap),
            "jitter": policy.jitter,
            "retry_on": list(policy.retry_on) or None,
            "fail_on": list(policy.fail_on) or None,
        }
    )


def _resources_document(limits: Resources) -> dict[str, object]:
    return _given(
        {
            "memory": None if limits.memory_bytes is None else bytes_text(limits.memory_bytes),
            "cpu_time": None if limits.cpu_seconds is None else duration_text(timedelta(seconds=limits.cpu_seconds)),
            "open_files": limits.open_files,
        }
    )


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _duration_or_none(duration: timedelta | None) -> str | None:
    return None if duration is None else duration_text(duration)


def _instant_or_none(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
