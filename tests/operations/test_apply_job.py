from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clawjob.domain.claiming import Drop
from clawjob.domain.errors import DuplicateJobError, JobNotFoundError, StaleVersionError
from clawjob.domain.run import Reason, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job, delete_job, replace_job, set_enabled
from clawjob.operations.context import Context
from clawjob.operations.dispatch import dispatch
from clawjob.operations.insights import get_job, list_jobs, list_runs
from support.calls import wrap
from support.clock import ManualClock
from support.runs import a_job, claim, claimed, run_tick
from support.service import Service

MINUTE = timedelta(minutes=1)


def states(context: Context, name: str = "news") -> list[tuple[State, Reason | None]]:
    return [(run.state, run.reason) for run in list_runs(context, name, 50).items]


def test_a_new_job_whose_instant_is_near_is_dispatched_at_once(service: Service, clock: ManualClock) -> None:
    view = create_job(service.context, a_job())
    assert view.state.decision is not None
    assert view.state.decision.reason is Reason.DISPATCHED
    clock.advance(2 * MINUTE)
    assert claimed(service.context, *service.receive()).run.scheduled_at == clock()


def test_a_name_can_be_taken_once(context: Context) -> None:
    first = create_job(context, a_job())
    with pytest.raises(DuplicateJobError):
        create_job(context, a_job(cron="0 0 * * *"))
    assert get_job(context, "news") == first


def test_the_same_name_again_after_a_delete_is_another_job(service: Service, clock: ManualClock) -> None:
    context = service.context
    old = create_job(context, a_job())
    delete_job(context, "news")
    new = create_job(context, a_job(cron="0 0 * * *"))
    assert new.state.uid != old.state.uid
    clock.advance(2 * MINUTE)
    (message,) = service.receive()
    assert isinstance(claim(context, message), Drop)
    run = context.runs.get(f"{old.state.uid}-20240309T120000Z")
    assert run is not None
    assert (run.state, run.reason) == (State.SKIPPED, Reason.DELETED)
    assert list_runs(context, "news", 10).items == ()


def test_a_deleted_job_is_gone_from_the_list_and_from_the_due_index(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job())
    delete_job(service.context, "news")
    with pytest.raises(JobNotFoundError):
        get_job(service.context, "news")
    assert list_jobs(service.context, 10).items == ()
    clock.advance(timedelta(minutes=10))
    assert run_tick(service.context).jobs_seen == 0


def test_of_two_changes_from_one_version_the_second_is_refused(context: Context) -> None:
    """A-06."""
    create_job(context, a_job())
    assert replace_job(context, "news", a_job(cron="0 1 * * *"), 1).state.version == 2
    with pytest.raises(StaleVersionError):
        replace_job(context, "news", a_job(cron="0 2 * * *"), 1)
    assert get_job(context, "news").definition == a_job(cron="0 1 * * *")


def test_the_schedulers_own_writes_do_not_make_a_change_stale(service: Service, clock: ManualClock) -> None:
    """A-06."""
    create_job(service.context, a_job())
    clock.advance(5 * MINUTE)
    assert run_tick(service.context).dispatch.dispatched == 1
    assert replace_job(service.context, "news", a_job(cron="0 1 * * *"), 1).state.version == 2


def test_a_pause_between_the_schedulers_read_and_its_write_stays(service: Service, clock: ManualClock) -> None:
    """SCH-16."""
    context = service.context
    create_job(context, a_job())
    clock.advance(5 * MINUTE)
    seen = get_job(context, "news").state
    set_enabled(context, "news", False)
    dispatch(context, [seen])
    after = get_job(context, "news").state
    assert not after.enabled
    assert after.due_at is None
    assert after.version == 2


def test_an_edit_between_the_schedulers_read_and_its_write_stays(service: Service, clock: ManualClock) -> None:
    """SCH-16."""
    context = service.context
    create_job(context, a_job())
    clock.advance(5 * MINUTE)
    seen = get_job(context, "news").state
    edited = replace_job(context, "news", a_job(cron="0 0 1 1 *"))
    dispatch(context, [seen])
    assert get_job(context, "news") == edited


def test_a_pause_before_the_due_instant_skips_the_run_that_is_queued_already(
    service: Service, clock: ManualClock
) -> None:
    create_job(service.context, a_job())
    clock.advance(timedelta(seconds=119))
    set_enabled(service.context, "news", False)
    clock.advance(timedelta(seconds=1))
    assert isinstance(claim(service.context, *service.receive()), Drop)
    assert states(service.context) == [(State.SKIPPED, Reason.PAUSED)]


def test_a_job_that_is_resumed_runs_nothing_from_before(service: Service, clock: ManualClock) -> None:
    """SCH-05."""
    context = service.context
    create_job(context, a_job(enabled=False))
    clock.advance(timedelta(days=30))
    set_enabled(context, "news", True)
    run_tick(context)
    runs = list_runs(context, "news", 50).items
    assert [run.scheduled_at for run in runs] == [clock() + 2 * MINUTE]


def test_an_edit_inside_the_look_ahead_supersedes_the_old_instant_and_dispatches_the_new_one(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job(cron="0 12 * * *"))
    replace_job(context, "news", a_job(cron="59 11 * * *"))
    clock.advance(2 * MINUTE)
    answers = [claim(context, message) for message in service.receive()]
    assert sorted(type(answer).__name__ for answer in answers) == ["Claimed", "Drop"]
    assert states(context) == [(State.SKIPPED, Reason.SUPERSEDED), (State.RUNNING, None)]


def test_an_edit_that_keeps_the_schedule_keeps_the_instants_that_a_lost_tick_left(
    service: Service, clock: ManualClock
) -> None:
    context = service.context
    create_job(context, a_job())
    clock.advance(timedelta(minutes=8))
    replace_job(context, "news", a_job(description="another text"))
    assert len(list_runs(context, "news", 50).items) == 2


def test_the_definition_in_force_at_the_claim_runs(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job(args=("old",)))
    replace_job(service.context, "news", a_job(args=("new",)))
    clock.advance(2 * MINUTE)
    taken = claimed(service.context, service.receive()[0])
    assert taken.definition.args == ("new",)
    assert taken.run.version == 2


def test_an_at_that_is_just_past_still_runs(service: Service, clock: ManualClock) -> None:
    at = clock() - timedelta(seconds=30)
    create_job(service.context, a_job(cron=None, schedule=ScheduleSpec(at=at)))
    assert claimed(service.context, *service.receive()).run.scheduled_at == at


def test_a_create_whose_answer_was_lost_is_no_duplicate(service: Service) -> None:
    def twice(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "TransactWriteItems":
            call(name, parameters)
        return call(name, parameters)

    wrap(service.dynamodb, twice)
    assert create_job(service.context, a_job()).state.version == 1
    assert [view.state.name for view in list_jobs(service.context, 10).items] == ["news"]


def test_every_page_of_the_list_together_is_the_whole_list(context: Context) -> None:
    """DB-05."""
    names = [f"job-{number:02d}" for number in range(23)]
    for name in names:
        create_job(context, a_job(name, cron="0 0 1 1 *"))
    seen: list[str] = []
    cursor = None
    while True:
        page = list_jobs(context, 10, cursor)
        seen += [view.state.name for view in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == names


def test_of_two_changes_in_one_moment_the_refused_one_is_not_told_that_it_was_made(context: Context) -> None:
    """Both write the same state row; only the definitions differ."""
    create_job(context, a_job())
    seen = context.jobs.get("news")
    after = replace(seen, version=seen.version + 1)
    context.jobs.change(seen, after, a_job(description="a"))
    # A call whose answer was lost is made again, and is no error.
    context.jobs.change(seen, after, a_job(description="a"))
    with pytest.raises(StaleVersionError):
        context.jobs.change(seen, after, a_job(description="b"))


def test_definitions_that_are_remembered_are_found_also_when_the_memory_overflows_meanwhile(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = [create_job(context, a_job(name)).state.uid for name in ("news", "shop")]
    wanted = [(uid, 1) for uid in uids]
    monkeypatch.setattr("clawjob.aws.job_store._REMEMBERED", 1)
    context.jobs.definitions(wanted[:1])
    found = context.jobs.definitions(wanted)
    assert [one.name for one in found.values()] == ["news", "shop"]
