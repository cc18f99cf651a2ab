"""32 threads at one thing: they all read before the first of them writes, and exactly one wins (A-05).

moto is given one call at a time, for it is not safe for threads; the barrier stands before each thread's first write.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clawjob.aws.queues import Received
from clawjob.domain.claiming import Drop, GiveBack
from clawjob.domain.definition import Definition, Overlap
from clawjob.domain.errors import DuplicateJobError
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import AttemptResult, Outcome, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.calls import one_at_a_time, wrap
from support.clock import ManualClock
from support.faults import WRITES
from support.service import Service

THREADS = 32


@pytest.fixture
def race(service: Service) -> Callable[[Callable[[int], Any]], list[Any]]:
    """Runs a function in 32 threads that meet before their first write; answers or errors, one for each."""
    barrier = threading.Barrier(THREADS)
    met = threading.local()

    def wait_before_the_first_write(name: str, parameters: dict[str, Any], call: Callable[..., Any]) -> Any:
        if name in WRITES and not getattr(met, "already", True):
            met.already = True
            barrier.wait(timeout=60)
        return call(name, parameters)

    one_at_a_time(service.dynamodb, service.sqs)
    wrap(service.dynamodb, wait_before_the_first_write)

    def run(act: Callable[[int], Any]) -> list[Any]:
        answers: list[Any] = [None] * THREADS

        def one(number: int) -> None:
            met.already = False
            try:
                answers[number] = act(number)
            except Exception as error:  # noqa: BLE001  # the loser's error is its answer
                answers[number] = error

        threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not barrier.broken, "not all threads came to a write"
        return answers

    return run


def a_job(**more: Any) -> Definition:
    return Definition(name="news", command="/bin/true", **more)


def test_of_32_claims_of_one_run_one_wins(service: Service, race: Any) -> None:
    run = _queued(service)
    copies = [Received(f"m{number}", "", "") for number in range(THREADS)]
    message = RunMessage(run, 0)
    answers = race(lambda number: claim_run(service.context, message, copies[number].message_id, f"w{number}"))
    winners = [answer for answer in answers if isinstance(answer, Claimed)]
    assert len(winners) == 1
    assert all(isinstance(answer, Drop) for answer in answers if answer is not winners[0])
    stored = service.context.runs.get(run)
    assert stored is not None
    assert (stored.state, stored.token, stored.attempt) == (State.RUNNING, 1, winners[0].run.attempt)


def test_a_message_delivered_to_32_workers_at_once_is_executed_by_one(service: Service, race: Any) -> None:
    """Q-05: the same message, so the losers give it back for the time that its own worker holds the lease."""
    run = _queued(service)
    answers = race(lambda number: claim_run(service.context, RunMessage(run, 0), "m", f"w{number}"))
    assert sum(isinstance(answer, Claimed) for answer in answers) == 1
    assert sum(isinstance(answer, GiveBack) for answer in answers) == THREADS - 1


def test_of_32_creates_of_one_name_one_wins_and_its_definition_stands(service: Service, race: Any) -> None:
    """A-05."""
    answers = race(lambda number: create_job(service.context, a_job(description=f"number {number}")))
    winners = [number for number, answer in enumerate(answers) if not isinstance(answer, Exception)]
    assert len(winners) == 1
    assert sum(isinstance(answer, DuplicateJobError) for answer in answers) == THREADS - 1
    state = service.context.jobs.get("news")
    assert service.context.jobs.definition(state.uid, state.version).description == f"number {winners[0]}"
    assert sum(item["sk"]["S"] == "STATE" for item in service.items()) == 1


def test_of_32_results_of_one_attempt_one_counts(service: Service, race: Any) -> None:
    run_id = _queued(service)
    claimed = claim_run(service.context, RunMessage(run_id, 0), "m", "w")
    assert isinstance(claimed, Claimed)
    now = service.context.clock()
    result = AttemptResult(
        run_id=run_id,
        token=1,
        worker="w",
        outcome=Outcome.SUCCEEDED,
        started_at=now,
        ended_at=now,
        duration_seconds=0.0,
    )
    answers = race(lambda number: settle_attempt(service.context, replace(result, items=number)))
    winners = [number for number, answer in enumerate(answers) if answer.changed]
    assert len(winners) == 1
    stored = service.context.runs.get(run_id)
    assert stored is not None
    assert stored.attempt is not None
    assert stored.attempt.items == winners[0]


def test_32_requests_with_one_key_make_one_run(service: Service, race: Any, clock: ManualClock) -> None:
    create_job(service.context, a_job())
    answers = race(lambda number: trigger_run(service.context, "news", {}, "key"))
    assert sum(answer.created for answer in answers) == 1
    assert len({answer.run.run_id for answer in answers}) == 1
    clock.advance(timedelta(seconds=1))
    copies = [service.receive() for _ in range(THREADS)]
    assert len({message.body for batch in copies for message in batch}) == 1


def test_of_32_runs_that_want_one_overlap_slot_one_gets_it(service: Service, race: Any) -> None:
    """SCH-13: runs by hand obey the same rule."""
    create_job(service.context, a_job(overlap=Overlap.SKIP))
    state = service.context.jobs.get("news")
    answers = race(lambda number: service.context.jobs.take_slot(state, f"{state.uid}-m{number}"))
    assert sum(answers) == 1
    winner = answers.index(True)
    assert service.context.jobs.get("news").active == f"{state.uid}-m{winner}"


def _queued(service: Service) -> str:
    """A run whose instant has come."""
    now = service.context.clock()
    create_job(service.context, a_job(schedule=ScheduleSpec(at=now)))
    (message,) = service.receive()
    return RunMessage.from_body(message.body).run_id
