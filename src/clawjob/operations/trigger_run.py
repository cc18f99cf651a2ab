"""Starts a run by hand. With an idempotency key the same request gives the same run, however often it comes."""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256

from clawjob.domain.definition import Definition, ParamValue
from clawjob.domain.errors import (
    IdempotencyKeyReusedError,
    InvalidInputError,
    JobNotFoundError,
    Problem,
    UnavailableError,
)
from clawjob.domain.ids import keyed_run_id, manual_run_id
from clawjob.domain.priority import queue_class_of
from clawjob.domain.rescuing import SEND_AT_FIRST_CHECK
from clawjob.domain.run import Run, RunKind, State
from clawjob.operations.context import Context

log = logging.getLogger(__name__)

MAX_PARAMS_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Triggered:
    """The run, and whether this request made it."""

    run: Run
    created: bool


def trigger_run(ctx: Context, name: str, params: Mapping[str, ParamValue], key: str | None) -> Triggered:
    """Put a run of a job on its queue now; a paused job can be run by hand, overlap holds as for any run.

    Args:
        ctx: the service.
        name: which job.
        params: values for declared params; the others keep their defaults.
        key: the caller's idempotency key.

    Raises:
        JobNotFoundError: there is no such job.
        InvalidInputError: a param is not declared, has another type than its default, or they are too long.
        IdempotencyKeyReusedError: the key came with another request before.
    """
    state = ctx.jobs.get(name)
    definition = ctx.jobs.definition(state.uid, state.version)
    _check(definition, params)
    fingerprint = sha256(json.dumps([name, dict(params)], sort_keys=True).encode()).hexdigest()[:16]
    now = ctx.clock()
    run = Run(
        run_id=keyed_run_id(state.uid, key) if key else manual_run_id(state.uid, ctx.new_unique()),
        uid=state.uid,
        job=state.name,
        kind=RunKind.MANUAL,
        state=State.QUEUED,
        version=state.version,
        pool=definition.pool,
        queue=queue_class_of(definition.priority),
        scheduled_at=now,
        not_before=now,
        queued_at=now,
        due_at=now + ctx.times.send_check,
        checks=SEND_AT_FIRST_CHECK,
        input_hash=fingerprint,
    )
    first = ctx.runs.put_new(run, params)
    if first is not None and first.input_hash != fingerprint:
        raise IdempotencyKeyReusedError(key or "")
    if ctx.jobs.get(name).uid != state.uid:
        raise JobNotFoundError(name)
    known = first or run
    if known.state is State.QUEUED and known.token == 0:
        # A refused send is no error: the run is stored, and its check sends it.
        with suppress(UnavailableError):
            ctx.queues.send_run(known)
    log.info("run triggered", extra={"run_id": known.run_id, "job": name, "new": first is None})
    return Triggered(known, first is None)


def _check(definition: Definition, params: Mapping[str, ParamValue]) -> None:
    problems: list[Problem] = []
    declared = definition.params
    for name, value in params.items():
        field = f"params.{name:.60}"
        if name not in declared:
            near = get_close_matches(name, declared, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Declared are: {', '.join(declared) or 'none'}."
            problems.append(Problem(field, "The job does not declare it.", hint))
        elif not _same_type(value, declared[name]):
            kind = type(declared[name]).__name__
            problems.append(Problem(field, "It has another type than its default.", f"Give a value of type {kind}."))
        elif isinstance(value, str) and "\0" in value:
            problems.append(Problem(field, "It holds a NUL character.", "Take it out."))
    if not problems and len(json.dumps(dict(params), ensure_ascii=False).encode()) > MAX_PARAMS_BYTES:
        problems.append(Problem("params", f"They are over {MAX_PARAMS_BYTES:,} bytes.", "Pass a reference instead."))
    if problems:
        raise InvalidInputError(problems)


def _same_type(value: object, default: object) -> bool:
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return type(value) is type(default)
