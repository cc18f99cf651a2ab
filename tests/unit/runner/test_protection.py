"""Protection of a busy worker: what the agent is asked, and when."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from clawjob.runner.protection import TaskProtection
from support.ecs_agent import Agent, serving

BLOCKED = (200, '{"failure": {"Reason": "DEPLOYMENT_BLOCKED"}}')


@dataclass
class Clock:
    """Seconds that the test moves."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serving() as made:
        yield made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def protection(agent: Agent, clock: Clock) -> TaskProtection:
    return TaskProtection(agent.uri, clock)


def held(minutes: int) -> dict[str, object]:
    return {"ProtectionEnabled": True, "ExpiresInMinutes": minutes}


def test_an_idle_worker_asks_nothing(agent: Agent, protection: TaskProtection) -> None:
    assert protection.look() is None
    assert agent.asked == []


def test_a_busy_worker_is_protected_and_renews_it_before_it_ends(
    agent: Agent, protection: TaskProtection, clock: Clock
) -> None:
    protection.set_busy(True)
    assert protection.look() == 600
    assert agent.asked == [("/api/task-1/task-protection/v1/state", held(30))]
    clock.now += 599
    assert protection.look() == 1
    clock.now += 1
    protection.look()
    assert agent.bodies() == [held(30), held(30)]


def test_it_is_given_back_when_the_worker_stays_idle(agent: Agent, protection: TaskProtection, clock: Clock) -> None:
    protection.set_busy(True)
    protection.look()
    protection.set_busy(False)
    assert protection.look() == 20
    clock.now += 20
    assert protection.look() is None
    assert agent.bodies() == [held(30), {"ProtectionEnabled": False}]
    assert protection.look() is None
    assert len(agent.asked) == 2


def test_a_short_break_between_runs_asks_nothing(agent: Agent, protection: TaskProtection, clock: Clock) -> None:
    protection.set_busy(True)
    protection.look()
    protection.set_busy(False)
    clock.now += 5
    protection.look()
    protection.set_busy(True)
    protection.look()
    assert agent.bodies() == [held(30)]


def test_a_worker_that_is_busy_for_hours_stops_holding_up_a_deploy(
    agent: Agent, protection: TaskProtection, clock: Clock
) -> None:
    protection.set_busy(True)
    begin = clock.now
    while (wait := protection.look()) is not None:
        clock.now += wait
    ends = [begin + 600 * number + 60 * body["ExpiresInMinutes"] for number, body in enumerate(agent.bodies())]  # type: ignore[index]
    assert max(ends) == begin + 7200
    protection.set_busy(False)
    clock.now += 20
    protection.look()
    protection.set_busy(True)
    protection.look()
    assert agent.bodies()[-1] == held(30)


@pytest.mark.parametrize("answer", [BLOCKED, (400, '{"error": {"Code": "AccessDeniedException"}}'), (500, "")])
def test_a_refusal_is_logged_and_asked_again_in_a_minute(
    agent: Agent, protection: TaskProtection, answer: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    agent.answer = answer
    protection.set_busy(True)
    assert protection.look() == 60
    assert [record.message for record in caplog.records] == ["protection not changed"]


def test_an_agent_that_is_not_there_is_logged_and_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    protection = TaskProtection("http://127.0.0.1:1", lambda: 0.0)
    protection.set_busy(True)
    assert protection.look() == 60
    assert [record.message for record in caplog.records] == ["protection not changed"]


def test_its_thread_asks_by_itself_when_the_worker_becomes_busy(agent: Agent) -> None:
    protection = TaskProtection(agent.uri)
    protection.start()
    protection.set_busy(True)
    assert agent.heard.get(timeout=10) == held(30)
    protection.close()


def test_without_an_agent_there_is_no_thread() -> None:
    before = threading.active_count()
    protection = TaskProtection("")
    protection.start()
    protection.set_busy(True)
    assert threading.active_count() == before
    protection.close()
