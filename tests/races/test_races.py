"""Thirty-two at once: all have read before anyone writes, then one wins and the others see it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from clawjob.domain.claiming import Drop, GiveBack
from clawjob.domain.definition import Overlap
from clawjob.domain.errors import DuplicateJobError
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import Outcome, State
from clawjob.operations.apply_job import create_job
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.insights import get_job, list_jobs
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.tick import tick
from clawjob.operations.trigger_run import trigger_run
from support.calls import wrap
from support.clock import ManualClock
from support.runs import a_job, claimed, result_of
from support.service import Service

MANY = 32
WRITES = frozenset({"UpdateItem", "PutItem", "TransactWriteItems"})


def all_at_once(service: Service, act: Callable[[int], Any]) -> list[Any]:
    """Run an act in many threads; each thread's first write waits until every thread has come to its own.

    moto runs one call at a time; the barrier makes every read older than every write.
    """
    barrier = threading.Barrier(MANY)
    lock = threading.Lock()
    waited = threading.local()

    def around(name: str, parameters: dict[str, Any], call: Any) -> Any:
        if name in WRITES and not getattr(waited, "done", False):
            waited.done = True
            barrier.wait(timeout=60)
        with lock:
            return call(name, parameters)

    def one(number: int) -> Any:
        try:
            return act(number)
        except Exception as error:  # the answer of this thread
            return error

    restore = [wrap(client, around) for client in (service.dynamodb, service.sqs)]
    try:
        with ThreadPoolExecutor(MANY) as pool:
            return list(pool.map(one, range(MANY)))
    finally:
        for undo in restore:
            undo()


def test_of_32_claims_of_one_run_one_wins(service: Service) -> None:
    create_job(service.context, a_job(cron=None))
    run = trigger_run(service.context, "news", {}, None).run
    message = RunMessage(run.run_id, 0)
    answers = all_at_once(service, lambda n: claim_run(service.context, message, f"m{n}", f"w{n}"))
    won = [answer for answer in answers if isinstance(answer, Claimed)]
    assert len(won) == 1
    assert all(isinstance(answer, Drop) for answer in answers if answer is not won[0])
    assert service.context.runs.get(run.run_id) == won[0].run


def test_one_message_delivered_to_32_workers_at_once_is_executed_by_one(service: Service) -> None:
    """Q-05: the losers give it back, for the time that its own worker holds the lease."""
    create_job(service.context, a_job(cron=None))
    message = RunMessage(trigger_run(service.context, "news", {}, None).run.run_id, 0)
    answers = all_at_once(service, lambda n: claim_run(service.context, message, "m", f"w{n}"))
    assert sum(isinstance(answer, Claimed) for answer in answers) == 1
    assert sum(isinstance(answer, GiveBack) for answer in answers) == MANY - 1


def test_of_32_take_overs_of_one_lost_run_one_wins(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job(cron=None))
    run = trigger_run(service.context, "news", {}, None).run
    (received,) = service.receive()
    claimed(service.context, received)
    clock.advance(service.context.times.lease)
    message = RunMessage(run.run_id, 0)
    answers = all_at_once(service, lambda n: claim_run(service.context, message, received.message_id, f"w{n}"))
    assert sum(isinstance(answer, Claimed) for answer in answers) == 1
    final = service.context.runs.get(run.run_id)
    assert final is not None
    assert (final.token, final.losses) == (2, 1)


def test_of_32_creates_of_one_name_one_wins(service: Service) -> None:
    """A-05."""
    answers = all_at_once(service, lambda n: create_job(service.context, a_job(args=(str(n),), cron=None)))
    won = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(won) == 1
    assert all(isinstance(answer, DuplicateJobError) for answer in answers if answer is not won[0])
    assert get_job(service.context, "news") == won[0]
    assert len(list_jobs(service.context, 50).items) == 1


def test_of_32_results_of_one_attempt_one_counts(service: Service, clock: ManualClock) -> None:
    create_job(service.context, a_job(cron=None))
    trigger_run(service.context, "news", {}, None)
    run = claimed(service.context, *service.receive()).run
    results = [result_of(run, Outcome.FAILED if n % 2 else Outcome.SUCCEEDED, clock()) for n in range(MANY)]
    answers = all_at_once(service, lambda n: settle_attempt(service.context, results[n]))
    assert sum(answer.changed for answer in answers) == 1
    final = service.context.runs.get(run.run_id)
    assert final is not None
    assert final.state in {State.SUCCEEDED, State.RETRY_WAIT}
    assert final.retry == (final.state is State.RETRY_WAIT)


def test_of_32_requests_with_one_key_one_makes_the_run(service: Service) -> None:
    create_job(service.context, a_job(cron=None))
    answers = all_at_once(service, lambda _: trigger_run(service.context, "news", {}, "order-7"))
    assert sum(answer.created for answer in answers) == 1
    assert len({answer.run.run_id for answer in answers}) == 1


def test_of_32_runs_that_want_one_slot_one_starts(service: Service) -> None:
    create_job(service.context, a_job(cron=None, overlap=Overlap.SKIP))
    runs = [trigger_run(service.context, "news", {}, None).run for _ in range(MANY)]
    messages = [RunMessage(run.run_id, 0) for run in runs]
    answers = all_at_once(service, lambda n: claim_run(service.context, messages[n], f"m{n}", "w"))
    assert sum(isinstance(answer, Claimed) for answer in answers) == 1
    states = [service.context.runs.get(run.run_id) for run in runs]
    assert sorted(state.state.value for state in states if state) == ["RUNNING"] + ["SKIPPED"] * (MANY - 1)


def test_32_ticks_at_once_make_one_run_of_each_instant(service: Service, clock: ManualClock) -> None:
    """SCH-07."""
    for number in range(4):
        create_job(service.context, a_job(f"job-{number}", cron="30 12 * * *"))
    clock.move_to(clock() + timedelta(minutes=31))
    reports = all_at_once(service, lambda _: tick(service.context, lambda: timedelta(minutes=5)))
    assert all(report.finished for report in reports)
    runs = [item for item in service.items() if item["sk"]["S"] == "RUN"]
    assert len(runs) == 4
    clock.move_to(clock() + timedelta(minutes=1))
    started = []
    while messages := service.receive():
        for message in messages:
            answer = claim_run(service.context, RunMessage.from_body(message.body), message.message_id, "w")
            if isinstance(answer, Claimed):
                started.append(answer.run.run_id)
    assert len(started) == len(set(started)) == 4
