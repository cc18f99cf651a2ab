"""A run that a worker ends itself, without a report, counts as every other end."""

import logging
import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from clawjob.domain.run import State
from clawjob.operations.apply_job import create_job
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.trigger_run import trigger_run
from clawjob.runner.slot import Slot, SlotParts
from support.clock import ManualClock
from support.runs import a_job, claimed
from support.service import Service

ENDS = ("RunsSucceeded", "RunsFailed", "RunsCancelled")


@pytest.fixture
def slot(service: Service) -> Slot:
    # None of these runs comes to its execution.
    nobody = cast(Any, None)
    return Slot(SlotParts(service.context, nobody, nobody, "w2", None, threading.Event(), "clawjob-dev"), 0)


def counted(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Service, pool and the counts of each metric line, in the order of `ENDS`."""
    records = [record.__dict__ for record in caplog.records if "_aws" in record.__dict__]
    assert all(one["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "clawjob-dev" for one in records)
    return [(one["service"], one["pool"], *(one[name] for name in ENDS)) for one in records]


def triggered(service: Service, **more: Any) -> str:
    create_job(service.context, a_job(cron=None, **more))
    return trigger_run(service.context, "news", {}, None).run.run_id


def test_a_run_whose_workers_die_and_die_again_counts_as_failed(
    service: Service, clock: ManualClock, slot: Slot, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = triggered(service)
    times = service.context.times
    with caplog.at_level(logging.INFO, logger="clawjob"):
        for _ in range(times.max_losses):
            claimed(service.context, *service.receive())
            clock.advance(times.lease + timedelta(seconds=1))
            assert counted(caplog) == []
        slot.handle(*service.receive())
    run = service.context.runs.get(run_id)
    assert run is not None
    assert run.state is State.LOST
    assert counted(caplog) == [("runs", "default", 0, 1, 0)]


def test_a_run_that_waited_too_long_counts_as_failed(
    service: Service, clock: ManualClock, slot: Slot, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = triggered(service, queue_deadline=timedelta(minutes=1))
    clock.advance(timedelta(minutes=2))
    with caplog.at_level(logging.INFO, logger="clawjob"):
        slot.handle(*service.receive())
    run = service.context.runs.get(run_id)
    assert run is not None
    assert run.state is State.EXPIRED
    assert counted(caplog) == [("runs", "default", 0, 1, 0)]


def test_a_message_of_a_run_that_ended_before_counts_nothing(
    service: Service, slot: Slot, caplog: pytest.LogCaptureFixture
) -> None:
    cancel_run(service.context, triggered(service), "anna", "")
    with caplog.at_level(logging.INFO, logger="clawjob"):
        slot.handle(*service.receive())
    assert "message deleted" in caplog.text
    assert counted(caplog) == []
