"""What must hold when the world is quiet again, whatever happened before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clawjob.domain.ids import scheduled_run_id
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.planning import look_at
from clawjob.domain.run import Outcome, Run, RunKind, State
from clawjob.operations.dispatch import schedule_of
from support import moto_state
from support.faults import Fault
from support.world import World, executions_by_run


@dataclass
class Expected:
    """What a scenario must come to."""

    instants: Mapping[tuple[str, datetime], Iterable[State]] = field(default_factory=dict)
    """For each job (by name) and nominal instant the states that its run may end in; MISSED: covered by a record."""
    manual: Mapping[str, Iterable[State]] = field(default_factory=dict)
    """Final states of runs by hand, by job."""
    manual_count: int = 1
    """How many runs by hand each of those jobs has."""
    optional: Mapping[tuple[str, datetime], Iterable[State]] = field(default_factory=dict)
    """Instants that may have a run, in one of these states, or nothing at all."""
    any_retries: bool = False
    any_losses: bool = False
    retries: int = 0
    """Tries that the policy gives to a run that was started; losses must leave it alone."""
    losses: int = 0
    """Lost workers that the scenario itself has, for each run."""
    interruptions: int = 0
    """Attempts that the scenario hands back, for each run."""
    late: timedelta = timedelta(seconds=150)
    """The first attempt begins at most so long after its instant: a lost message's visibility, a tick."""
    may_overlap: bool = True


def instants(
    job: str, start: datetime, step: timedelta, count: int, *states: State
) -> dict[tuple[str, datetime], set[State]]:
    """Instants at even distances with the same final states."""
    return {(job, start + number * step): set(states) for number in range(count)}


def problems_of(world: World, expected: Expected) -> list[str]:
    """Everything that is wrong; empty when nothing is."""
    world.trouble.paused = True
    found = [*world.violations, *_leftovers(world)]
    runs = world.runs()
    uids = {job: world.uid(job) for job, _ in expected.instants}
    found += _coverage(
        {run_id: run for run_id, run in runs.items() if not _is_optional(run, expected)},
        {(uids[job], at): set(states) for (job, at), states in expected.instants.items()},
    )
    found += _manual(runs, expected)
    found += _executions(world, runs, expected)
    return found


def _leftovers(world: World) -> list[str]:
    found = []
    if world.messages():
        found.append(f"messages are left: {dict(world.messages())}")
    found += [f"{run.run_id} is open: {run.state}" for run in world.runs().values() if not run.is_final]
    for item in moto_state.stored():
        due = item.get("due_at")
        if due is not None and not _is_next_look(world, item):
            found.append(f"{item['pk']} is due at {due}")
    return found


def _is_next_look(world: World, item: Mapping[str, object]) -> bool:
    if item["sk"] != "STATE" or not item["enabled"]:
        return False
    definition = world.ctx.jobs.definition(str(item["pk"]).removeprefix("JOB#"), int(str(item["version"])))
    if definition.schedule is None:
        return False
    schedule = schedule_of(definition.schedule, definition.name)
    following = look_at(schedule, from_text(str(item["planned_until"])), world.ctx.times)
    return (
        following is not None
        and to_text(following) == item["due_at"]
        and from_text(str(item["due_at"])) > world.clock()
    )


def _is_optional(run: Run, expected: Expected) -> bool:
    return run.state in set(expected.optional.get((run.job, run.scheduled_at), ()))


def _is_optional(run: Run, expected: Expected) -> bool:
    return run.state in set(expected.optional.get((run.job, run.scheduled_at), ()))


def _coverage(runs: Mapping[str, Run], wanted: Mapping[tuple[str, datetime], set[State]]) -> list[str]:
    found = []
    gaps = [run for run in runs.values() if run.state is State.MISSED]
    for (uid, instant), states in wanted.items():
        run = runs.get(scheduled_run_id(uid, instant))
        records = [gap for gap in gaps if _covers(gap, uid, instant)]
        is_run = run is not None and run.state is not State.MISSED
        if is_run + len(records) != 1:
            found.append(f"{to_text(instant)} of {uid} has {int(is_run)} runs and {len(records)} records")
            continue
        state = run.state if is_run and run is not None else State.MISSED
        if state not in states:
            found.append(f"{to_text(instant)} of {uid} is {state}, not one of {sorted(states)}")
    for gap in gaps:
        count = sum(_covers(gap, uid, instant) for uid, instant in wanted)
        if count != gap.gap_count:
            found.append(f"{gap.run_id} counts {gap.gap_count} instants, and there are {count}")
    known = {scheduled_run_id(uid, instant) for uid, instant in wanted}
    return found + [
        f"{run.run_id} stands for no instant: {run.state}"
        for run in runs.values()
        if run.kind is RunKind.SCHEDULED and run.state is not State.MISSED and run.run_id not in known
    ]


def _covers(gap: Run, uid: str, instant: datetime) -> bool:
    return gap.uid == uid and gap.gap_until is not None and gap.scheduled_at <= instant <= gap.gap_until


def _manual(runs: Mapping[str, Run], expected: Expected) -> list[str]:
    found = []
    manual = [run for run in runs.values() if run.kind is RunKind.MANUAL]
    for job, states in expected.manual.items():
        of_job = [run for run in manual if run.job == job]
        if len(of_job) != expected.manual_count:
            found.append(f"{job} has {len(of_job)} runs by hand")
        found += [f"{run.run_id} is {run.state}" for run in of_job if run.state not in set(states)]
    return found + [f"{run.run_id} was asked for by nobody" for run in manual if run.job not in expected.manual]


_STARTED = frozenset({State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.LOST})


def _executions(world: World, runs: Mapping[str, Run], expected: Expected) -> list[str]:
    found = []
    by_run = executions_by_run(world.executions)
    if world.overlaps and not expected.may_overlap:
        found.append(f"ran at the same time: {world.overlaps}")
    found += [
        f"{one.run_id} was started before its instant, at {to_text(one.started_at)}"
        for one in world.executions
        if one.started_at < one.scheduled_at
    ]
    for run_id in by_run.keys() - runs.keys():
        found.append(f"{run_id} was executed and has no run")
    for run_id, run in runs.items():
        executed = by_run.get(run_id, [])
        tokens = [one.token for one in executed]
        if len(set(tokens)) != len(tokens):
            found.append(f"an attempt of {run_id} was executed twice: {tokens}")
        if any(token > run.token for token in tokens):
            found.append(f"{run_id} was executed with token {tokens} and has {run.token}")
        if executed and executed[0].started_at - executed[0].scheduled_at > expected.late:
            found.append(f"{run_id} began {executed[0].started_at - executed[0].scheduled_at} late")
        if run.state in _STARTED:
            found += _tries(world, run, [one.retry for one in executed], expected)
            found += _attempts(world, run)
    return found


def _tries(world: World, run: Run, tries: list[int], expected: Expected) -> list[str]:
    found = []
    if run.state is not State.LOST and not expected.any_retries and run.retry != expected.retries:
        found.append(f"{run.run_id} has used {run.retry} retries, not {expected.retries}")
    nobody_died = world.trouble.fault in {None, Fault.THROTTLED, Fault.REPEATED, Fault.HALF}
    if nobody_died and not expected.any_losses and run.losses != expected.losses:
        found.append(f"{run.run_id} counts {run.losses} losses, and {expected.losses} workers died with it")
    extra = expected.losses + expected.interruptions + (run.run_id in world.crashed_holding)
    for number in range(run.retry + 1):
        count = tries.count(number)
        least = 0 if run.state is State.LOST else 1
        if not least <= count <= 1 + extra:
            found.append(f"try {number} of {run.run_id} was executed {count} times, {extra} workers died with it")
    return found


def _attempts(world: World, run: Run) -> list[str]:
    """Each token has its attempt, and a lost one was counted as a loss."""
    earlier = world.ctx.runs.parts(run.run_id).attempts
    numbers = [attempt.number for attempt in earlier]
    if [*numbers, run.token] != list(range(1, run.token + 1)):
        return [f"{run.run_id} has attempts {numbers} beside its present one, {run.token}"]
    attempts = [*earlier, *([run.attempt] if run.attempt else [])]
    lost = sum(attempt.outcome is Outcome.LOST for attempt in attempts)
    if lost != run.losses:
        return [f"{run.run_id} counts {run.losses} losses, and {lost} of its attempts were lost"]
    open_attempts = [attempt.number for attempt in attempts if attempt.outcome is None]
    return [f"attempts {open_attempts} of {run.run_id} have no end"] if open_attempts else []
