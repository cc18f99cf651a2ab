import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest

from clawjob.aws.dead_letters import DeadLetters
from clawjob.domain.claiming import Drop
from clawjob.domain.definition import Definition, Overlap, RetryPolicy
from clawjob.domain.messages import RunMessage
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import Outcome, Reason, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.dead_letters import redrive
from clawjob.operations.insights import get_run
from clawjob.runner.memory import memory_limit
from support.ecs_agent import serving
from worker.conftest import Bench, until

ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Starts a program as the first process of a namespace of its own."""


def can_be_alone() -> bool:
    try:
        return subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def job(bench: Bench, code: str, **more: Any) -> str:
    """Create a job whose child is a piece of Python and start one run of it."""
    number = len([1 for _ in bench.folder.glob("job-*")])
    (bench.folder / f"job-{number}").touch()
    definition = Definition(
        name=f"job-{number}", command=sys.executable, args=("-c", code), overlap=Overlap.ALLOW, **more
    )
    create_job(bench.context, definition)
    return bench.trigger(definition.name)


def starts(bench: Bench, name: str = "starts") -> list[str]:
    path = bench.folder / name
    return path.read_text().split() if path.exists() else []


def say_start(bench: Bench, then: str) -> str:
    """Code that appends the attempt to a file, so that executions can be counted, then goes on."""
    path = bench.folder / "starts"
    return f"import os,time,sys,signal; open({str(path)!r},'a').write(os.environ['CLAWJOB_ATTEMPT']+' ')\n{then}"


def test_a_run_is_taken_executed_reported_and_its_message_deleted(bench: Bench) -> None:
    run_id = job(bench, say_start(bench, "print('hello')"))
    bench.start_worker()
    run = bench.final(run_id)
    assert (run.state, run.token) == (State.SUCCEEDED, 1)
    assert starts(bench) == ["1"]
    until(lambda: bench.messages() == 0)


def test_a_worker_with_one_slot_serves_both_queues_of_its_pool(bench: Bench) -> None:
    high = [job(bench, "print('high')", priority=5) for _ in range(2)]
    low = [job(bench, "print('low')", priority=1) for _ in range(2)]
    bench.start_worker(CLAWJOB_SLOTS="1")
    runs = [bench.final(run_id) for run_id in (*high, *low)]
    assert {run.state for run in runs} == {State.SUCCEEDED}
    # Its first turn is the high queue's.
    first = min(runs, key=lambda run: run.attempt.started_at if run.attempt else run.queued_at)
    assert first.run_id in high


def test_a_stale_message_sent_back_from_the_dead_letters_starts_nothing(bench: Bench) -> None:
    run_id = job(bench, say_start(bench, "print('hello')"))
    bench.start_worker()
    assert bench.final(run_id).state is State.SUCCEEDED
    until(lambda: bench.messages() == 0)
    dead = DeadLetters.of(bench.context.queues)
    url = bench.context.queues.run_queues["default"][QueueClass.LOW]
    bench.sqs.send_message(QueueUrl=f"{url}-dead", MessageBody=RunMessage(run_id, 0).to_body())
    assert redrive(bench.context, dead, "runs-default-low", None).done == 1
    until(lambda: "the run is SUCCEEDED" in bench.log())
    until(lambda: bench.messages() == 0)
    assert starts(bench) == ["1"]
    assert bench.run(run_id).token == 1


def test_a_worker_told_to_stop_while_idle_goes_at_once_also_when_told_twice(bench: Bench) -> None:
    """W-07."""
    worker = bench.start_worker()
    begun = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=15) == 0
    assert time.monotonic() - begun < 10
    assert "worker ended" in bench.log()


@pytest.mark.skipif(not can_be_alone(), reason="no process namespace can be made here")
def test_a_worker_that_is_a_containers_first_process_hears_term_and_drains(bench: Bench) -> None:
    """W-06: the kernel gives a first process no signal that it has no handler for."""
    run_id = job(bench, say_start(bench, "time.sleep(60 if os.environ['CLAWJOB_ATTEMPT'] == '1' else 0)"), max_retry=0)
    outside = bench.start_worker(*ALONE)
    until(lambda: starts(bench))
    [worker] = psutil.Process(outside.pid).children()
    worker.send_signal(signal.SIGTERM)
    assert outside.wait(timeout=30) == 0
    assert "worker ended" in bench.log()
    back = bench.run(run_id)
    assert (back.state, back.reason, back.retry) == (State.QUEUED, Reason.HANDED_BACK, 0)


def test_a_drained_run_goes_back_at_once_and_costs_no_retry(bench: Bench) -> None:
    """W-05."""
    wait = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "time.sleep(60 if os.environ['CLAWJOB_ATTEMPT'] == '1' else 0)"
    )
    run_id = job(bench, say_start(bench, wait), max_retry=0)
    first = bench.start_worker()
    until(lambda: starts(bench))
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=30) == 0
    back = bench.run(run_id)
    assert (back.state, back.reason, back.retry) == (State.QUEUED, Reason.HANDED_BACK, 0)
    bench.start_worker()
    done = bench.final(run_id)
    assert (done.state, done.token, done.retry, done.losses) == (State.SUCCEEDED, 2, 0, 0)
    attempts = get_run(bench.context, run_id).attempts
    assert [attempt.outcome for attempt in attempts] == [Outcome.INTERRUPTED, Outcome.SUCCEEDED]
    until(lambda: bench.messages() == 0)


def test_a_run_that_is_handed_back_is_not_taken_again_by_the_last_poll_of_its_worker(bench: Bench) -> None:
    """Else nobody could take it for as long as a lease lasts."""
    receive = bench.server._receive

    def with_a_long_way(service: str, request: Any) -> Any:
        answer = receive(service, request)
        threading.Event().wait(0.5 if b'"Messages"' in answer.body else 0)
        return answer

    bench.server._receive = with_a_long_way  # type: ignore[method-assign]
    job(bench, say_start(bench, "time.sleep(60)"), priority=5)
    worker = bench.start_worker(CLAWJOB_DRAIN_SECONDS="0")
    until(lambda: starts(bench))
    until(lambda: any(waiter.queue.endswith("-high") for waiter in bench.server._waiters.copy()))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    assert bench.context.queues.waiting("default", QueueClass.HIGH) == 1


def test_a_run_that_ends_within_the_drain_is_reported(bench: Bench) -> None:
    run_id = job(bench, say_start(bench, "time.sleep(1.5)"))
    worker = bench.start_worker(CLAWJOB_DRAIN_SECONDS="20")
    until(lambda: starts(bench))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    assert bench.final(run_id).state is State.SUCCEEDED
    assert starts(bench) == ["1"]


def test_a_killed_workers_run_is_taken_over_and_no_process_of_it_goes_on(bench: Bench) -> None:
    child = (
        "import subprocess; subprocess.Popen([sys.executable,'-c','import time; time.sleep(99)'])\n"
        "time.sleep(99 if os.environ['CLAWJOB_ATTEMPT'] == '1' else 0)"
    )
    run_id = job(bench, say_start(bench, child), max_retry=0)
    first = bench.start_worker()
    until(lambda: starts(bench))
    tree = psutil.Process(first.pid).children(recursive=True)
    assert len(tree) >= 3
    first.kill()
    bench.start_worker()
    done = bench.final(run_id)
    assert (done.state, done.token, done.losses, done.retry) == (State.SUCCEEDED, 2, 1, 0)
    assert starts(bench) == ["1", "2"]
    psutil.wait_procs(tree, timeout=10)
    assert not [process for process in tree if process.is_running()]


def test_a_run_that_kills_its_worker_three_times_is_lost_and_its_message_gone(bench: Bench) -> None:
    """Q-06."""
    run_id = job(bench, say_start(bench, "time.sleep(99)"))
    for attempt in range(1, 4):
        worker = bench.start_worker()
        until(lambda attempt=attempt: len(starts(bench)) == attempt)  # type: ignore[misc]  # bound for the loop
        worker.kill()
    bench.start_worker()
    run = bench.final(run_id)
    assert (run.state, run.reason, run.losses, run.retry) == (State.LOST, Reason.WORKER_LOST, 3, 0)
    assert starts(bench) == ["1", "2", "3"]
    until(lambda: bench.messages() == 0)


def test_a_worker_killed_between_the_childs_end_and_the_result_is_taken_over(bench: Bench) -> None:
    """W-20: the crawl is at least once."""
    run_id = job(bench, say_start(bench, ""), max_retry=0)
    queue = bench.context.queues.results_queue
    worker = bench.start_worker(CLAWJOB_RESULTS_QUEUE=queue + "-none")
    until(lambda: "result not delivered yet" in bench.log())
    assert bench.run(run_id).state is State.RUNNING
    worker.kill()
    bench.start_worker()
    done = bench.final(run_id)
    assert (done.state, done.token, done.losses) == (State.SUCCEEDED, 2, 1)
    assert starts(bench) == ["1", "2"]


def test_a_run_longer_than_the_lease_is_executed_once_while_its_worker_lives(bench: Bench) -> None:
    """Q-01."""
    run_id = job(bench, say_start(bench, "time.sleep(7)"))
    bench.start_worker()
    bench.start_worker()
    assert bench.final(run_id).state is State.SUCCEEDED
    assert starts(bench) == ["1"]


def test_without_the_messages_visibility_the_lease_still_keeps_a_second_worker_out(bench: Bench) -> None:
    """Q-01, Q-04."""
    run_id = job(bench, say_start(bench, "time.sleep(5)"))
    bench.start_worker()
    until(lambda: starts(bench))
    message = RunMessage(run_id, 0)
    assert isinstance(claim_run(bench.context, message, "a copy", "w9"), Drop)
    assert bench.final(run_id).token == 1


def test_a_worker_whose_lease_was_taken_ends_its_child_and_reports_nothing(bench: Bench) -> None:
    run_id = job(bench, say_start(bench, "time.sleep(60)"))
    worker = bench.start_worker()
    until(lambda: starts(bench))
    (child,) = [
        one for one in psutil.Process(worker.pid).children(recursive=True) if "sleep(60)" in " ".join(one.cmdline())
    ]
    worker.send_signal(signal.SIGSTOP)
    message = RunMessage(run_id, 0)
    own = bench.run(run_id).message_id or ""
    until(lambda: isinstance(claim_run(bench.context, message, own, "w9"), Claimed), 20)
    worker.send_signal(signal.SIGCONT)
    psutil.wait_procs([child], timeout=15)
    assert not child.is_running()
    until(lambda: "lease lost" in bench.log())
    assert bench.settle_all() == 0
    assert bench.run(run_id).token == 2


def test_a_cancel_reaches_the_child_within_a_keep_interval(bench: Bench) -> None:
    run_id = job(bench, say_start(bench, "time.sleep(60)"))
    bench.start_worker()
    until(lambda: starts(bench))
    cancel_run(bench.context, run_id, "anna", "wrong page")
    run = bench.final(run_id, 15)
    assert (run.state, run.why) == (State.CANCELLED, "wrong page")
    assert run.attempt is not None
    assert run.attempt.outcome is Outcome.CANCELLED


def test_a_worker_asks_for_protection_when_it_takes_a_run(bench: Bench) -> None:
    with serving() as agent:
        worker = bench.start_worker(ECS_AGENT_URI=agent.uri)
        assert agent.asked == []
        path = bench.folder / "go"
        run_id = job(bench, say_start(bench, f"while not os.path.exists({str(path)!r}): time.sleep(0.02)"))
        assert agent.heard.get(timeout=30) == {"ProtectionEnabled": True, "ExpiresInMinutes": 30}
        path.touch()
        assert bench.final(run_id).state is State.SUCCEEDED
        worker.terminate()
        assert worker.wait(30) == 0


def test_no_more_runs_are_taken_than_there_is_memory_for(bench: Bench) -> None:
    path = bench.folder / "marks"
    mark = f"say = lambda what: open({str(path)!r}, 'a').write(what + ' ')"
    for _ in range(3):
        job(bench, f"import time\n{mark}\nsay('begins')\ntime.sleep(3)\nsay('ends')")
    limit = memory_limit()
    bench.start_worker(CLAWJOB_MEMORY_RESERVE=str(limit // 4), CLAWJOB_SLOT_MEMORY=str(limit // 3))
    until(lambda: starts(bench, "marks").count("ends") == 3)
    assert starts(bench, "marks")[:3] == ["begins", "begins", "ends"]
    assert '"MemoryLimit"' in bench.log()


def test_no_run_is_taken_without_memory_for_it(bench: Bench) -> None:
    run_id = job(bench, say_start(bench, ""))
    bench.start_worker(CLAWJOB_MEMORY_RESERVE="900GiB", CLAWJOB_SLOT_MEMORY="1GiB")
    until(lambda: "no run is taken for want of memory" in bench.log())
    assert bench.run(run_id).state is State.QUEUED
    assert starts(bench) == []


def test_a_child_knows_no_credentials_and_no_queue(bench: Bench) -> None:
    run_id = job(bench, "import os,json; print(json.dumps(dict(os.environ))); raise SystemExit(3)", max_retry=0)
    bench.start_worker()
    bench.final(run_id)
    tail = get_run(bench.context, run_id).log_tail
    assert "CLAWJOB_RUN_ID" in tail
    assert not re.search("AWS_|very-secret|QUEUE|CLAWJOB_TABLE", tail)


@pytest.mark.parametrize(
    ("code", "outcome", "exit_code"),
    [("raise SystemExit(3)", Outcome.FAILED, 3), ("import os; os.kill(os.getpid(), 9)", Outcome.SIGNALLED, None)],
)
def test_a_bad_end_is_told_apart(bench: Bench, code: str, outcome: Outcome, exit_code: int | None) -> None:
    """W-08."""
    run_id = job(bench, code, max_retry=0)
    bench.start_worker()
    run = bench.final(run_id)
    assert run.attempt is not None
    assert (run.state, run.attempt.outcome, run.attempt.exit_code) == (State.FAILED, outcome, exit_code)


def test_a_hanging_run_is_ended_by_its_timeout_and_retried(bench: Bench) -> None:
    code = say_start(bench, "time.sleep(0 if os.environ['CLAWJOB_ATTEMPT'] == '2' else 60)")
    quick = RetryPolicy(delays=(timedelta(seconds=1),), jitter=0.0)
    run_id = job(bench, code, timeout=timedelta(seconds=1), grace=timedelta(seconds=1), max_retry=1, retry=quick)
    bench.start_worker()
    run = bench.final(run_id)
    assert (run.state, run.token, run.retry) == (State.SUCCEEDED, 2, 1)
    first = get_run(bench.context, run_id).attempts[0]
    assert first.outcome is Outcome.TIMED_OUT
    assert first.duration_seconds is not None
    assert first.duration_seconds < 5


def test_a_run_starts_at_its_due_instant_and_not_before(bench: Bench) -> None:
    bench.start_worker()
    due = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)
    path = bench.folder / "at"
    code = f"import time; open({str(path)!r},'w').write(str(time.time()))"
    create_job(
        bench.context,
        Definition(name="once", command=sys.executable, args=("-c", code), schedule=ScheduleSpec(at=due)),
    )
    until(path.exists)
    until(path.read_text)
    started = datetime.fromtimestamp(float(path.read_text()), UTC)
    assert started >= due
    uid = bench.context.jobs.uid_of("once")
    assert bench.final(f"{uid}-{due:%Y%m%dT%H%M%SZ}").state is State.SUCCEEDED
