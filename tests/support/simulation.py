"""Weeks of a service with twenty jobs and all kinds of trouble, in seconds."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from clawjob.domain.definition import CatchUp, CatchUpMode, Definition, Overlap, RetryPolicy
from clawjob.domain.instants import to_text
from clawjob.domain.run import FINAL, Outcome, Reason, Run, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations import apply_job
from support import moto_state
from support.fake_worker import Child, Execution
from support.faults import Call, Crash, refused
from support.nominal import cron_instants, every_instants
from support.world import BEGIN, HIGH_RUNS, RUNS, World, api

DAY, HOUR, MINUTE, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
_KEPT = timedelta(days=1)
"""Runs stay in the table so long after they were due; a real table keeps them longer, and moto gets slow."""
_QUIET_BEFORE_CHANGE = timedelta(minutes=20)


@dataclass(frozen=True, slots=True)
class Planned:
    """A job and the schedule that the test enumerates for it."""

    name: str
    cron: str | None = None
    every: timedelta | None = None
    zone: str = "UTC"
    more: dict[str, Any] = field(default_factory=dict)
    jitter: timedelta = timedelta(0)

    def definition(self, end: datetime) -> Definition:
        """The job, with a schedule that ends with the simulation."""
        spec = ScheduleSpec(cron=self.cron, every=self.every, timezone=self.zone, jitter=self.jitter, end_at=end)
        return Definition(name=self.name, command="/bin/true", schedule=spec, **self.more)

    def instants(self, start: datetime, end: datetime) -> list[datetime]:
        """Its instants, enumerated in another way than the product does."""
        if self.every is not None:
            return every_instants(self.every, start, end)
        assert self.cron is not None
        return cron_instants(self.cron, self.zone, start, end)


def _catch_up(mode: str, window: timedelta = DAY) -> CatchUp:
    return CatchUp(mode=CatchUpMode(mode), window=window)


_ALLOW = {"overlap": Overlap.ALLOW}
_ALL = {"catch_up": _catch_up("all")}
_NONE = {"catch_up": _catch_up("none")}
_NEVER_AGAIN = {"max_retry": 0}
_HIGH = {"priority": 5}
_SLOWLY = {"retry": RetryPolicy(delays=(20 * MINUTE,))}

JOBS = (
    Planned("new-york-gap", "30 2 * * *", zone="America/New_York"),
    Planned("new-york-wild", "15 */6 * * *", zone="America/New_York", more=_ALL),
    Planned("berlin-gap", "30 2 * * *", zone="Europe/Berlin", more=_ALL),
    Planned("berlin-workdays", "0 6,18 * * 1-5", zone="Europe/Berlin", jitter=5 * MINUTE),
    Planned("lord-howe-fold", "45 1 * * *", zone="Australia/Lord_Howe", more=_NONE),
    Planned("lord-howe-wild", "45 */3 * * *", zone="Australia/Lord_Howe"),
    Planned("cairo", "0 0 * * *", zone="Africa/Cairo"),
    Planned("sao-paulo", "0 0,12 * * *", zone="America/Sao_Paulo", more=_NEVER_AGAIN),
    Planned("kathmandu", "20 4 * * *", zone="Asia/Kathmandu", more={**_SLOWLY, **_HIGH}),
    Planned("kolkata", "5 9 * * 1-5", zone="Asia/Kolkata"),
    Planned("utc-daily", "0 2 * * *", more={**_ALLOW, **_ALL}),
    Planned("utc-hours", "10 8-20/4 * * *", more=_HIGH),
    Planned("utc-wild", "7 */3 * * *", more=_ALL),
    Planned("monthly", "0 5 1 * *"),
    Planned("every-4h", every=4 * HOUR, more={**_ALLOW, **_HIGH}),
    Planned("every-5h", every=5 * HOUR, more=_NONE, jitter=10 * MINUTE),
    Planned("every-6h", every=6 * HOUR, more={"queue_deadline": HOUR}),
    Planned("paused-now-and-then", "40 */4 * * *", more=_ALL),
    Planned("edited-now-and-then", "50 */4 * * *", more=_ALL),
    Planned("deep-night", "59 23 * * 6", zone="Pacific/Auckland", more={"catch_up": _catch_up("last", 3 * HOUR)}),
)


@dataclass(frozen=True, slots=True)
class Era:
    """A stretch of a job's life in which it was on."""

    planned: Planned
    start: datetime
    end: datetime


@dataclass
class Simulation:
    """One simulated stretch of time."""

    world: World
    days: int
    seed: int
    faults: bool = True
    eras: list[Era] = field(default_factory=list)
    finals: dict[str, Run] = field(default_factory=dict)
    executed: dict[tuple[str, int], int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.end = (BEGIN + self.days * DAY).replace(microsecond=0)
        self._children: dict[tuple[str, int], Child] = {}

    def run(self) -> None:
        """Let the time pass, and compare."""
        world = self.world
        world.hourly = True
        world.children = self._child
        world.on_execution = self._note
        self._make_jobs()
        if self.faults:
            self._plan_outages()
            world.trouble.before.append(self._stop_before)
            world.trouble.after.append(self._stop_after)
            world.trouble.instead.append(self._double)
            for day in range(self.days):
                world.at((day + self.chance.random()) * DAY, self._lose_message)
        for day in range(1, self.days):
            world.at(day * DAY, lambda world: self._harvest(world.clock() - _KEPT))
        world.run(self.end - BEGIN)
        self._harvest(self.end + 10 * DAY)
        self._compare()

    # ---- what is planned ----

    def _make_jobs(self) -> None:
        for planned in JOBS:
            changed = planned.name in {"paused-now-and-then", "edited-now-and-then"}
            self.world.at(
                timedelta(0), api(lambda ctx, planned=planned: apply_job.create_job(ctx, planned.definition(self.end)))
            )
            if not changed:
                self.eras.append(Era(planned, BEGIN, self.end))
        paused = next(planned for planned in JOBS if planned.name == "paused-now-and-then")
        edited = next(planned for planned in JOBS if planned.name == "edited-now-and-then")
        self._pauses(paused)
        self._edits(edited)

    def _pauses(self, planned: Planned) -> None:
        start = BEGIN
        for off, on in ((day * DAY + 2 * HOUR, day * DAY + 30 * HOUR) for day in range(3, self.days - 3, 7)):
            self._change(off, lambda world: apply_job.set_enabled(world.ctx, planned.name, False))
            self._change(on, lambda world: apply_job.set_enabled(world.ctx, planned.name, True))
            self.eras.append(Era(planned, start, BEGIN + off))
            start = BEGIN + on
        self.eras.append(Era(planned, start, self.end))

    def _edits(self, planned: Planned) -> None:
        start, present = BEGIN, planned
        for number, after in enumerate(day * DAY + 5 * HOUR for day in range(2, self.days - 2, 5)):
            following = replace(planned, cron="20 */6 * * *" if number % 2 == 0 else planned.cron)
            self._change(
                after,
                lambda world, following=following: apply_job.replace_job(
                    world.ctx, planned.name, following.definition(self.end)
                ),
            )
            self.eras.append(Era(present, start, BEGIN + after))
            start, present = BEGIN + after, following
        self.eras.append(Era(present, start, self.end))

    def _change(self, after: timedelta, step: Any) -> None:
        self.changes = [*getattr(self, "changes", []), BEGIN + after]
        self.world.at(after, step)

    def _plan_outages(self) -> None:
        """Spans without scheduler, workers or results function; none just before a person changes a job."""
        spans: dict[str, list[tuple[datetime, datetime]]] = {"tick": [], "workers": [], "results": []}
        for kind, times, longest in (("tick", 8, 9), ("workers", 4, 6), ("results", 8, 1)):
            for _ in range(max(1, times * self.days // 30)):
                start = BEGIN + self.chance.random() * self.days * DAY
                end = start + self.chance.random() * longest * HOUR
                if not any(
                    start <= change + MINUTE and change - _QUIET_BEFORE_CHANGE <= end for change in self.changes
                ):
                    spans[kind].append((start, end))
        self.world.tick_off = _inside(spans["tick"])
        self.world.workers_off = _inside(spans["workers"])
        self.world.results_off = _inside(spans["results"])

    # ---- what happens ----

    def _child(self, run: Run) -> Child:
        # By run and attempt, so that the same seed gives the same story whatever is asked first.
        chance = Random(f"{self.seed} {run.job} {to_text(run.scheduled_at)} {run.token}")
        takes = chance.choice((1, 5, 5, 20, 20, 50, 50, 300)) * SECOND
        if self.faults and chance.random() < 0.02:
            self.happened["worker died"] += 1
            return Child(takes=takes, kills_worker=True)
        return Child(Outcome.FAILED if chance.random() < 0.1 else Outcome.SUCCEEDED, takes)

    def _note(self, execution: Execution) -> None:
        self.executed[execution.run_id, execution.retry] += 1

    def _stop_before(self, name: str, _parameters: dict[str, Any]) -> None:
        drawn = self.chance.random()
        if drawn < 0.0005:
            self.happened["stopped before a call"] += 1
            raise Crash
        if drawn < 0.001:
            self.happened["call refused"] += 1
            raise refused(name)

    def _stop_after(self, _name: str, _parameters: dict[str, Any]) -> None:
        if self.chance.random() < 0.0005:
            self.happened["stopped after a call"] += 1
            raise Crash

    def _double(self, name: str, _parameters: dict[str, Any], make: Call) -> Any:
        if name == "SendMessageBatch" and self.chance.random() < 0.05:
            self.happened["message doubled"] += 1
            make()
        return make()

    def _lose_message(self, _world: World) -> None:
        messages = moto_state.queues()[self.chance.choice((RUNS, HIGH_RUNS))]._messages
        if messages:
            self.happened["message lost"] += 1
            messages.remove(self.chance.choice(messages))

    # ---- what came of it ----

    def _harvest(self, before: datetime) -> None:
        self.world.trouble.paused = True
        for run_id, run in self.world.runs().items():
            if run.state in FINAL and run.scheduled_at < before and (run.gap_until or run.scheduled_at) < before:
                self.finals[run_id] = run
                moto_state.remove(run_id)
        self.world.trouble.paused = False

    def _compare(self) -> None:
        self.problems += self.world.violations
        if not self.world.is_quiet() or self.world.messages():
            self.problems.append(f"not quiet: {self.world.leftovers()}")
        if self.world.runs():
            self.problems.append(f"open: {list(self.world.runs())}")
        for job in {era.planned.name for era in self.eras}:
            self._compare_job(job)
        self._compare_executions()

    def _compare_job(self, job: str) -> None:
        eras = [era for era in self.eras if era.planned.name == job]
        wanted = Counter(instant for era in eras for instant in era.planned.instants(era.start, era.end))
        mine = [run for run in self.finals.values() if run.job == job]
        gaps = [run for run in mine if run.state is State.MISSED]
        runs = Counter(run.scheduled_at for run in mine if run.state is not State.MISSED)
        for instant in wanted:
            covered = sum(gap.scheduled_at <= instant <= (gap.gap_until or instant) for gap in gaps)
            if runs[instant] + covered != 1:
                self.problems.append(f"{job} at {to_text(instant)}: {runs[instant]} runs, {covered} records")
        changed = {Reason.PAUSED, Reason.SUPERSEDED}
        more = [run for run in mine if run.state is not State.MISSED and run.scheduled_at not in wanted]
        self.problems += [
            f"{job} at {to_text(run.scheduled_at)} is none of its instants: {run.state}"
            for run in more
            if run.reason not in changed
        ]
        total = sum(runs.values()) - len(more) + sum(gap.gap_count for gap in gaps)
        if total != len(wanted):
            self.problems.append(f"{job} has {total} runs and missed instants, and {len(wanted)} nominal ones")

    def _compare_executions(self) -> None:
        for (run_id, retry), count in self.executed.items():
            run = self.finals.get(run_id)
            if run is None:
                self.problems.append(f"{run_id} was executed and is not there")
            elif count > 1 + run.losses or retry > run.retry:
                self.problems.append(f"try {retry} of {run_id} was executed {count} times, with {run.losses} losses")
        skipping = {planned.name for planned in JOBS if planned.more.get("overlap", Overlap.SKIP) is Overlap.SKIP}
        self.problems += [
            f"{first} and {second} ran at the same time"
            for first, second in self.world.overlaps
            if first != second and self.finals[first].job in skipping
        ]


def _inside(spans: list[tuple[datetime, datetime]]) -> Any:
    return lambda now: any(start <= now < end for start, end in spans)
