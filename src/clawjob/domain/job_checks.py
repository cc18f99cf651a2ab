"""What must fit together in a job document whose fields are right by themselves.

Promise: every check runs that can, so that a user sees all problems at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.job_model import DstDocument, JobDocument, RetryDocument, ScheduleDocument
from clawjob.domain.schedule import Schedule, ScheduleSpec
from clawjob.domain.showing import shown
from clawjob.domain.template import check
from clawjob.domain.zone import find_zone


def read_schedule(
    document: JobDocument, now: datetime, kept: ScheduleSpec | None = None
) -> tuple[ScheduleSpec | None, list[Problem]]:
    """Give the schedule in its one form, and what is wrong with it; see `parse_document` for `kept`."""
    written, zone = document.schedule, document.timezone
    try:
        if written is None:
            find_zone(zone or "UTC", "timezone")
            return None, []
    except InvalidInputError as error:
        return None, list(error.problems)
    problems = []
    if zone is not None and written.timezone not in (None, zone):
        message = f"It is {shown(zone)}, and schedule.timezone is {shown(written.timezone)}."
        problems.append(Problem("timezone", message, "Keep one of the two."))
    if written.dst is not None and written.cron is None:
        problems.append(Problem("schedule.dst", "It is for cron only.", "Leave it out."))
    spec = _spec(written, zone)
    try:
        schedule = Schedule(spec, document.name)
        if spec != kept:
            schedule.validate(now)
    except InvalidInputError as error:
        problems += error.problems
    if written.timezone is None:
        problems = [_at_top(problem) for problem in problems]
    return spec, problems


def problems_between(document: JobDocument, wrong: Collection[str], pools: Collection[str]) -> Iterator[Problem]:
    """Find what does not fit together, schedule apart.

    Args:
        document: its wrong fields stand at their defaults.
        wrong: names of the fields that are wrong by themselves; what depends on them is not looked at.
        pools: names of the pools that there are.
    """
    for needed, find in _CHECKS:
        if needed.isdisjoint(wrong):
            yield from find(document)
    if "pool" not in wrong and document.pool not in pools:
        known = ", ".join(sorted(pools)[:20])
        yield Problem("pool", f"There is no pool {shown(document.pool)}.", f"Known are {known}.")


def delays_of(retry: RetryDocument) -> tuple[timedelta, ...]:
    """Give the delays in their one form."""
    return (retry.delay,) if retry.delays is None else tuple(retry.delays)


def _at_top(problem: Problem) -> Problem:
    """The problem of a zone that was written at the top."""
    return replace(problem, field="timezone") if problem.field == "schedule.timezone" else problem


def _spec(written: ScheduleDocument, zone: str | None) -> ScheduleSpec:
    dst = written.dst or DstDocument()
    return ScheduleSpec(
        cron=written.cron,
        every=written.every,
        offset=written.offset,
        at=written.at,
        timezone=written.timezone or zone or "UTC",
        missing=dst.missing,
        repeated=dst.repeated,
        start_at=written.start_at,
        end_at=written.end_at,
        jitter=written.jitter,
    )


def _command_problems(document: JobDocument) -> Iterator[Problem]:
    if "{{" in document.command:
        yield Problem("command", "Templates are not rendered in it.", "Use them in args and env.")


def _template_problems(texts: Iterable[tuple[str, str]], document: JobDocument) -> Iterator[Problem]:
    for field, text in texts:
        try:
            check(text, document.params, field)
        except InvalidInputError as error:
            yield from error.problems


def _args_problems(document: JobDocument) -> Iterator[Problem]:
    return _template_problems(((f"args[{index}]", text) for index, text in enumerate(document.args)), document)


def _env_problems(document: JobDocument) -> Iterator[Problem]:
    return _template_problems(((f"env.{name}", text) for name, text in document.env.items()), document)


def _exit_code_problems(document: JobDocument) -> Iterator[Problem]:
    both = sorted(set(document.success_exit_codes) & set(document.empty_exit_codes))
    if both:
        yield Problem("empty_exit_codes", f"{both[0]} is in success_exit_codes too.", "Name it in one of the two.")


def _retry_problems(document: JobDocument) -> Iterator[Problem]:
    retry = document.retry
    if retry.delays is not None:
        for name in ("delay", "factor", "cap"):
            if name in retry.model_fields_set:
                yield Problem(f"retry.{name}", "It cannot stand beside delays.", f"Keep delays or {name}.")
    if retry.cap is not None and retry.cap < delays_of(retry)[0]:
        yield Problem("retry.cap", "It is shorter than the delay.", "Give a cap of at least the delay.")
    for name, ends in (("retry_on", retry.retry_on), ("fail_on", retry.fail_on)):
        for code in sorted({end for end in ends or () if isinstance(end, int)} & set(document.success_exit_codes)):
            yield Problem(f"retry.{name}", f"{code} is an exit code of success.", "Take it out of one of the two.")


_CHECKS: Final[tuple[tuple[frozenset[str], Callable[[JobDocument], Iterator[Problem]]], ...]] = (
    (frozenset({"command"}), _command_problems),
    (frozenset({"args", "params"}), _args_problems),
    (frozenset({"env", "params"}), _env_problems),
    (frozenset({"success_exit_codes", "empty_exit_codes"}), _exit_code_problems),
    (frozenset({"retry", "success_exit_codes"}), _retry_problems),
)
"""The fields that must be right by themselves, and who looks at them together."""
