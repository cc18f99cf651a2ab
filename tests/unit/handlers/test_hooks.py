"""The hooks of a deployment: what they let through, what they refuse, and that CodeDeploy always gets an answer."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clawjob.aws.authority import ClockGuard
from clawjob.domain.errors import UnavailableError
from clawjob.domain.schedule import Schedule
from clawjob.handlers.compare import CompareHandler
from clawjob.handlers.entry import Handler
from clawjob.handlers.hooks import hook_entry
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.handlers.watch import LOOK_SECONDS, WatchHandler
from clawjob.operations.apply_job import create_job, set_enabled
from clawjob.services import Services
from clawjob.settings import CompareSettings, SchedulerSettings, WatchSettings
from support.calls import wrap
from support.clock import ManualClock
from support.deployment import Deployment, deployment_stub
from support.lambda_context import LambdaContext
from support.runs import a_job, run_tick
from support.service import Service

FUNCTION = "clawjob-test-scheduler"
MINUTE = timedelta(minutes=1)
OLD, NEW = 4, 5
TOMORROW = datetime(2024, 3, 10, tzinfo=UTC)


@pytest.fixture
def deployment(aws: Any) -> Iterator[Deployment]:
    with deployment_stub(FUNCTION) as made:
        made.live = OLD
        yield made


def scheduler(service: Service, **context: Any) -> Callable[[Mapping[str, Any]], Any]:
    """A version of the scheduler: the real handler in a process of its own."""
    services = Services(replace(service.fresh_context(), **context), None, ClockGuard(service.context.clock))  # type: ignore[arg-type]
    settings = SchedulerSettings(table="clawjob-test", run_queues=service.urls.run)
    handler = SchedulerHandler(settings, services)
    return lambda event: handler(event, LambdaContext())


@dataclass
class Deployed:
    """A service with both versions, some jobs, and the hook that compares them."""

    service: Service
    deployment: Deployment

    def compare(self, *, accept: bool = False) -> str:
        settings = CompareSettings(
            table="clawjob-test",
            run_queues=self.service.urls.run,
            function=FUNCTION,
            new_version=NEW,
            accept_changes=accept,
        )
        return self.enter(lambda *_: self.handler(settings))

    def handler(self, settings: CompareSettings) -> CompareHandler:
        context = self.service.context
        return CompareHandler(settings, Services(context, self.deployment.clients(), ClockGuard(context.clock)))

    def enter(self, make: Callable[..., Handler]) -> str:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment(self.service, self.deployment).items():
                patch.setenv(name, value)
            hook_entry("compare", CompareSettings, make)(self.deployment.event, LambdaContext())
        return self.deployment.status


def environment(service: Service, deployment: Deployment) -> dict[str, str]:
    queues = {pool: {one.value: url for one, url in urls.items()} for pool, urls in service.urls.run.items()}
    return {
        "CLAWJOB_TABLE": "clawjob-test",
        "CLAWJOB_RUN_QUEUES": json.dumps(queues),
        "CLAWJOB_FUNCTION": FUNCTION,
        "CLAWJOB_NEW_VERSION": str(NEW),
        "AWS_ENDPOINT_URL_CODEDEPLOY": deployment.uri,
        "AWS_ENDPOINT_URL_LAMBDA": deployment.uri,
    }


@pytest.fixture
def deployed(service: Service, clock: ManualClock, deployment: Deployment) -> Deployed:
    for number, cron in enumerate(("*/5 * * * *", "30 2 * * *", "0 9 1 * *")):
        create_job(service.context, a_job(f"job-{number}", cron, zone="Europe/Berlin"))
    clock.advance(6 * MINUTE)
    deployment.versions = {OLD: scheduler(service), NEW: scheduler(service)}
    return Deployed(service, deployment)


class OtherCalendar(Schedule):
    """Schedules by another rule: a minute later from tomorrow on."""

    def after(self, instant: Any) -> Iterator[Any]:
        for one in super().after(instant):
            yield replace(one, scheduled_at=one.scheduled_at + (one.scheduled_at >= TOMORROW) * MINUTE)


def with_another_calendar(service: Service) -> Callable[[Mapping[str, Any]], Any]:
    """A version that computes times otherwise."""
    right = scheduler(service)

    def wrong(event: Mapping[str, Any]) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("clawjob.operations.dry_tick.schedule_of", lambda spec, name: OtherCalendar(spec, name))
            return right(event)

    return wrong


def test_two_versions_that_decide_alike_may_change_places(deployed: Deployed) -> None:
    before = deployed.service.items()
    assert deployed.compare() == "Succeeded"
    assert [version for version, _ in deployed.deployment.calls] == [OLD, NEW]
    (at,) = {str(event["at"]) for _, event in deployed.deployment.calls}
    assert all(event == {"dry": True, "at": at} for _, event in deployed.deployment.calls)
    assert deployed.service.items() == before


def test_a_version_that_decides_otherwise_is_refused_and_the_difference_is_told(
    deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    deployed.deployment.versions[NEW] = with_another_calendar(deployed.service)
    assert deployed.compare() == "Failed"
    told = {record.job: (record.old, record.new) for record in caplog.records if record.message == "decided otherwise"}  # type: ignore[attr-defined]
    assert set(told) == {"job-0", "job-1", "job-2"}
    old, new = told["job-1"]
    assert "20240310T013000Z" in old
    assert "20240310T013100Z" in new


def test_a_wanted_change_is_let_through_and_still_told(deployed: Deployed, caplog: pytest.LogCaptureFixture) -> None:
    deployed.deployment.versions[NEW] = with_another_calendar(deployed.service)
    assert deployed.compare(accept=True) == "Succeeded"
    assert "decided otherwise" in [record.message for record in caplog.records]


@pytest.mark.parametrize("accept", [False, True])
def test_a_new_version_that_fails_is_refused_whatever_was_accepted(deployed: Deployed, accept: bool) -> None:
    def broken(event: Mapping[str, Any]) -> Any:
        raise ImportError("no module named clawjob")

    deployed.deployment.versions[NEW] = broken
    assert deployed.compare(accept=accept) == "Failed"


@pytest.mark.parametrize(("accept", "status"), [(False, "Failed"), (True, "Succeeded")])
@pytest.mark.parametrize("kind", ["knows no dry tick", "is broken", "tells in another form"])
def test_with_an_old_version_that_tells_nothing_a_deployment_must_accept_changes(
    deployed: Deployed, kind: str, accept: bool, status: str
) -> None:
    def old(event: Mapping[str, Any]) -> Any:
        if kind == "is broken":
            raise RuntimeError(kind)
        # The first scheduler took every event for a tick, which does no harm.
        run_tick(deployed.service.context)
        return {"dispatched": 0} if kind == "knows no dry tick" else {"dry": 99, "subjects": []}

    deployed.deployment.versions[OLD] = old
    assert deployed.compare(accept=accept) == status


def test_a_way_back_is_let_through_even_from_a_broken_version(deployed: Deployed) -> None:
    """CloudFormation takes it when another part of the deployment failed."""

    def broken(event: Mapping[str, Any]) -> Any:
        raise RuntimeError("broken")

    deployed.deployment.live = 6
    deployed.deployment.versions = {6: broken, NEW: broken}
    assert deployed.compare() == "Succeeded"


def test_what_a_tick_changes_between_the_two_questions_is_no_difference(deployed: Deployed, clock: ManualClock) -> None:
    right = deployed.deployment.versions[OLD]
    ticks = iter([True, False, False])

    def and_then_a_tick(event: Mapping[str, Any]) -> Any:
        answer = right(event)
        if next(ticks):
            run_tick(deployed.service.context)
        return answer

    deployed.deployment.versions[OLD] = and_then_a_tick
    assert deployed.compare() == "Succeeded"
    assert [version for version, _ in deployed.deployment.calls] == [OLD, NEW, OLD, NEW]


def test_a_difference_is_found_although_other_jobs_change_all_the_time(deployed: Deployed) -> None:
    right = deployed.deployment.versions[OLD]
    switch = iter([False, True, False])

    def and_then_an_edit(event: Mapping[str, Any]) -> Any:
        answer = right(event)
        set_enabled(deployed.service.context, "job-0", next(switch))
        return answer

    deployed.deployment.versions = {OLD: and_then_an_edit, NEW: with_another_calendar(deployed.service)}
    assert deployed.compare() == "Failed"


def test_when_nothing_could_be_compared_that_is_no_proof(deployed: Deployed) -> None:
    for name in ("job-1", "job-2"):
        set_enabled(deployed.service.context, name, False)
    right = deployed.deployment.versions[OLD]

    def and_then_an_edit(event: Mapping[str, Any]) -> Any:
        answer = right(event)
        for run in answer["subjects"]:
            run["seen"] = "other"
        return answer

    deployed.deployment.versions[OLD] = and_then_an_edit
    assert deployed.compare() == "Failed"


def test_an_empty_table_is_no_difference(service: Service, deployment: Deployment) -> None:
    deployment.versions = {OLD: scheduler(service), NEW: scheduler(service)}
    assert Deployed(service, deployment).compare() == "Succeeded"


def test_a_hook_that_raises_answers_failed(deployed: Deployed, caplog: pytest.LogCaptureFixture) -> None:
    def make(*_: Any) -> Handler:
        def judge(event: Any, context: Any) -> Any:
            raise UnavailableError("GetItem", "throttled")

        return judge

    assert deployed.enter(make) == "Failed"
    assert "hook failed" in [record.message for record in caplog.records]


def test_a_hook_without_its_settings_answers_failed(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CODEDEPLOY", "LAMBDA"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{name}", deployed.deployment.uri)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "clawjob-test")
    hook_entry("watch", WatchSettings, WatchHandler)(deployed.deployment.event, LambdaContext())
    assert deployed.deployment.status == "Failed"


def test_an_answer_that_codedeploy_refuses_is_an_error_so_that_lambda_tries_again(deployed: Deployed) -> None:
    deployed.deployment.refuses_reports = True
    with pytest.raises(UnavailableError, match="PutLifecycleEventHookExecutionStatus"):
        deployed.compare()


@dataclass
class Minutes:
    """Waiting takes the clock on, and real ticks come on the minute."""

    service: Service
    clock: ManualClock
    version: Callable[[int], str]
    """Of the scheduler that makes tick number n."""
    left_seconds: float = 600.0
    ticks: int = 0
    waited: float = 0.0

    def get_remaining_time_in_millis(self) -> int:
        return round(self.left_seconds * 1000)

    def __call__(self, seconds: float) -> None:
        self.waited += seconds
        self.left_seconds -= seconds
        self.clock.advance(timedelta(seconds=seconds))
        if self.waited // 60 > (self.waited - seconds) // 60 and (version := self.version(self.ticks)):
            handler = SchedulerHandler(
                SchedulerSettings(table="clawjob-test", run_queues=self.service.urls.run),
                Services(self.service.context, None, ClockGuard(self.clock)),  # type: ignore[arg-type]
            )
            handler({}, LambdaContext(function_version=version))
        self.ticks += self.waited // 60 > (self.waited - seconds) // 60


def watch(service: Service, clock: ManualClock, version: Callable[[int], str]) -> tuple[bool, Minutes]:
    minutes = Minutes(service, clock, version)
    settings = WatchSettings(table="clawjob-test", run_queues=service.urls.run, new_version=NEW)
    services = Services(service.context, None, ClockGuard(clock))  # type: ignore[arg-type]
    return WatchHandler(settings, services, wait=minutes)({}, minutes), minutes


def test_three_ticks_of_the_new_version_are_enough(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job())
    passed, minutes = watch(service, clock, lambda _: str(NEW))
    assert passed
    assert minutes.waited == 3 * 60
    assert LOOK_SECONDS * 4 == 60


def test_ticks_of_the_old_version_do_not_count(service: Service, clock: ManualClock) -> None:
    """The last tick of the old one may end after the first of the new one."""
    passed, minutes = watch(service, clock, lambda tick: str(OLD if tick < 2 else NEW))
    assert passed
    assert minutes.ticks == 5


def test_a_version_whose_ticks_leave_no_record_is_refused_in_time(service: Service, clock: ManualClock) -> None:
    run_tick(service.context)
    passed, minutes = watch(service, clock, lambda tick: "")
    assert not passed
    assert 0 < minutes.left_seconds <= 30


@pytest.mark.parametrize("what", ["left", "invalid"])
def test_a_version_whose_ticks_leave_work_undone_is_refused(service: Service, clock: ManualClock, what: str) -> None:
    create_job(service.context, a_job(cron="* * * * *"))

    def spoil(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "PutItem" and "TICK" in str(parameters["Item"]["pk"]):
            parameters["Item"][what] = {"N": "1"}
        return call(name, parameters)

    wrap(service.dynamodb, spoil)
    passed, _ = watch(service, clock, lambda _: str(NEW))
    assert not passed


def test_one_bad_tick_makes_the_count_begin_anew(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job(cron="* * * * *"))
    refusing = iter([False, False, True, False, False, False])
    now: list[bool] = [False]

    def version(_: int) -> str:
        now[0] = next(refusing)
        return str(NEW)

    def refuse(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name == "Query" and now[0]:
            raise UnavailableError(name, "throttled")
        return call(name, parameters)

    wrap(service.dynamodb, refuse)
    passed, minutes = watch(service, clock, version)
    assert passed
    assert minutes.ticks == 6


def test_the_log_of_a_refusal_is_an_error(deployed: Deployed, caplog: pytest.LogCaptureFixture) -> None:
    deployed.deployment.versions[NEW] = with_another_calendar(deployed.service)
    deployed.compare()
    (record,) = [one for one in caplog.records if "decides otherwise about" in one.message]
    assert record.levelno == logging.ERROR
