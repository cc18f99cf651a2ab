from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.domain.definition import CatchUp, CatchUpMode
from clawjob.domain.planning import JobPlan, plan_job, resumed_cursor
from clawjob.domain.run import Reason
from clawjob.domain.schedule import Schedule, ScheduleSpec
from clawjob.domain.times import Times

TIMES = Times()
DAY = datetime(2024, 6, 5, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0, day: int = 0) -> datetime:
    return DAY + timedelta(days=day, hours=hour, minutes=minute, seconds=second)


def every_5_minutes() -> Schedule:
    return Schedule(ScheduleSpec(cron="*/5 * * * *"), "job")


def hourly() -> Schedule:
    return Schedule(ScheduleSpec(cron="0 * * * *"), "job")


def instants(plan: JobPlan) -> list[datetime]:
    return [run.occurrence.scheduled_at for run in plan.runs if run.missed is None]


def test_an_instant_within_the_look_ahead_is_dispatched_before_it_is_due() -> None:
    plan = plan_job(hourly(), CatchUp(), at(11), at(11, 57, 30), TIMES)
    assert instants(plan) == [at(12)]
    assert plan.look_at == at(13) - TIMES.look_ahead


def test_an_instant_beyond_the_look_ahead_waits() -> None:
    plan = plan_job(hourly(), CatchUp(), at(11), at(11, 57, 29), TIMES)
    assert plan.runs == ()
    assert plan.look_at == at(11, 57, 30)


def test_after_twelve_hours_down_only_the_latest_instant_runs_and_143_are_missed() -> None:
    """SCH-01."""
    gap = plan_job(every_5_minutes(), CatchUp(), at(0), at(12, 2), TIMES).gap
    assert gap is not None
    assert (gap.from_at, gap.to_at, gap.count, gap.reason) == (at(0, 5), at(11, 55), 143, Reason.CATCH_UP_LAST)
    plan = plan_job(every_5_minutes(), CatchUp(), gap.to_at, at(12, 2), TIMES)
    assert plan.gap is None
    assert instants(plan) == [at(12)]
    assert plan.look_at == at(12, 5) - TIMES.look_ahead


def test_catch_up_all_runs_each_missed_instant_once_and_oldest_first() -> None:
    """SCH-02."""
    plan = plan_job(hourly(), CatchUp(CatchUpMode.ALL), at(0, 30), at(10, 10), TIMES)
    assert plan.gap is None
    assert instants(plan) == [at(hour) for hour in range(1, 11)]


def test_catch_up_all_keeps_the_newest_and_records_what_is_over_its_maximum() -> None:
    catch_up = CatchUp(CatchUpMode.ALL, max=3)
    gap = plan_job(hourly(), catch_up, at(0, 30), at(10, 10), TIMES).gap
    assert gap is not None
    assert (gap.from_at, gap.to_at, gap.count, gap.reason) == (at(1), at(7), 7, Reason.CATCH_UP_MAX)
    assert instants(plan_job(hourly(), catch_up, gap.to_at, at(10, 10), TIMES)) == [at(8), at(9), at(10)]


@pytest.mark.parametrize("down", [timedelta(minutes=101), timedelta(days=366)])
def test_a_minutely_job_goes_on_after_any_downtime(down: timedelta) -> None:
    """SCH-03: the plan jumps, it does not enumerate."""
    schedule = Schedule(ScheduleSpec(cron="* * * * *"), "job")
    now = at(12, 0, 30)
    gap = plan_job(schedule, CatchUp(), now - down, now, TIMES).gap
    assert gap is not None
    after = plan_job(schedule, CatchUp(), gap.to_at, now, TIMES)
    missed = [run for run in after.runs if run.missed]
    assert gap.count + len(missed) == down // timedelta(minutes=1) - 1
    assert instants(after)[0] == at(12)


def test_an_instant_that_another_pass_may_hold_this_moment_is_missed_by_a_record_of_its_own() -> None:
    schedule = Schedule(ScheduleSpec(every=timedelta(seconds=30)), "job")
    gap = plan_job(schedule, CatchUp(), at(11), at(12), TIMES).gap
    assert gap is not None
    assert gap.to_at == at(12) - 2 * TIMES.tick
    after = plan_job(schedule, CatchUp(), gap.to_at, at(12), TIMES)
    assert [run.occurrence.scheduled_at for run in after.runs if run.missed] == [
        at(11, 58, 30),
        at(11, 59),
        at(11, 59, 30),
    ]
    assert instants(after)[0] == at(12)


@pytest.mark.parametrize(("late", "runs"), [(59, True), (60, True), (61, False)])
@pytest.mark.parametrize("mode", [CatchUpMode.LAST, CatchUpMode.ALL, CatchUpMode.NONE])
def test_an_instant_later_than_its_window_is_missed(mode: CatchUpMode, late: int, runs: bool) -> None:
    """SCH-04: a window of 60 s; without catch-up an instant is missed a tick after it was due."""
    plan = plan_job(hourly(), CatchUp(mode, window=timedelta(seconds=60)), at(11), at(12, 0, late), TIMES)
    assert instants(plan) == ([at(12)] if runs else [])
    assert [run.occurrence.scheduled_at for run in plan.runs if run.missed] == ([] if runs else [at(12)])


def test_no_instant_before_the_start_of_planning_is_ever_run() -> None:
    """SCH-05."""
    created = at(12, 0, 1)
    plan = plan_job(hourly(), CatchUp(CatchUpMode.ALL), created, at(12, 0, 2), TIMES)
    assert plan.gap is None
    assert plan.runs == ()


def test_a_pass_plans_a_bounded_number_and_the_next_goes_on() -> None:
    schedule = Schedule(ScheduleSpec(every=timedelta(seconds=1)), "job")
    catch_up = CatchUp(CatchUpMode.ALL, max=1000)
    plan = plan_job(schedule, catch_up, at(12), at(12, 10), TIMES)
    assert len(plan.runs) == TIMES.pass_limit
    assert plan.look_at is not None
    assert plan.look_at <= at(12, 10)


def test_a_schedule_that_ends_is_looked_at_no_more() -> None:
    schedule = Schedule(ScheduleSpec(at=at(12)), "job")
    plan = plan_job(schedule, CatchUp(), at(11), at(11, 59), TIMES)
    assert instants(plan) == [at(12)]
    assert plan.look_at is None


def test_a_jittered_instant_that_is_not_due_yet_is_not_missed() -> None:
    schedule = Schedule(ScheduleSpec(cron="0 * * * *", jitter=timedelta(minutes=29)), "job")
    due = schedule.due_at(at(12))
    assert due > at(12)
    plan = plan_job(schedule, CatchUp(CatchUpMode.NONE), at(11), due - timedelta(seconds=1), TIMES)
    assert plan.gap is None
    assert plan.runs[0].not_before == due


MODES = st.sampled_from(list(CatchUpMode))
SPECS = st.sampled_from(
    [
        ScheduleSpec(cron="*/7 * * * *", timezone="Europe/Berlin"),
        ScheduleSpec(cron="30 2 * * *", timezone="America/New_York"),
        ScheduleSpec(every=timedelta(seconds=90)),
        ScheduleSpec(cron="0 */3 * * *", timezone="Australia/Lord_Howe", jitter=timedelta(minutes=20)),
    ]
)


@given(
    spec=SPECS,
    mode=MODES,
    window=st.integers(60, 100_000),
    most=st.integers(1, 20),
    start=st.integers(0, 40_000_000),
    passes=st.lists(st.integers(1, 300_000), min_size=1, max_size=6),
)
def test_every_instant_is_run_or_missed_exactly_once_whatever_the_passes(
    spec: ScheduleSpec, mode: CatchUpMode, window: int, most: int, start: int, passes: list[int]
) -> None:
    schedule = Schedule(spec, "job")
    catch_up = CatchUp(mode, timedelta(seconds=window), most)
    begin = cursor = DAY + timedelta(seconds=start)
    now = begin
    run: list[datetime] = []
    missed = 0
    for step in passes:
        now += timedelta(seconds=step)
        while True:
            plan = plan_job(schedule, catch_up, cursor, now, TIMES)
            if plan.gap is not None:
                assert plan.gap.from_at > cursor
                missed += plan.gap.count
                cursor = plan.gap.to_at
                continue
            if not plan.runs:
                break
            run += instants(plan)
            missed += sum(planned.missed is not None for planned in plan.runs)
            cursor = plan.runs[-1].occurrence.scheduled_at
    assert run == sorted(set(run))
    nominal = list(takewhile(lambda one: one.scheduled_at <= cursor, schedule.after(begin)))
    assert len(run) + missed == len(nominal)
    assert set(run) <= {one.scheduled_at for one in nominal}


def test_after_a_resume_an_instant_that_its_jitter_has_not_brought_yet_is_still_planned() -> None:
    schedule = Schedule(ScheduleSpec(cron="0 * * * *", jitter=timedelta(minutes=29)), "job")
    due = schedule.due_at(at(12))
    assert resumed_cursor(schedule, due - timedelta(seconds=1)) < at(12)
    assert resumed_cursor(schedule, due) == due
    assert resumed_cursor(hourly(), at(12, 0, 1)) == at(12, 0, 1)
