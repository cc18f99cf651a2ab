"""Protection of a busy worker: what the agent is asked, and when."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

import pytest

from clawjob.runner.protection import TaskProtection

GRANTED = (200, '{"protection": {"ProtectionEnabled": true}}')
BLOCKED = (200, '{"failure": {"Reason": "DEPLOYMENT_BLOCKED"}}')


@dataclass
class Agent:
    """A small stub of the agent's endpoint, and a clock that the test moves."""

    uri: str = ""
    now: float = 1000.0
    answer: tuple[int, str] = GRANTED
    asked: list[tuple[str, object]] = field(default_factory=list)
    heard: SimpleQueue[object] = field(default_factory=SimpleQueue)

    def bodies(self) -> list[object]:
        return [body for _, body in self.asked]

    def protection(self) -> TaskProtection:
        return TaskProtection(self.uri, lambda: self.now)


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.asked.append((self.path, body))
            status, text = made.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())
            made.heard.put(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.uri = f"http://127.0.0.1:{server.server_port}/api/task-1"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def held(minutes: int) -> dict[str, object]:
    return {"ProtectionEnabled": True, "ExpiresInMinutes": minutes}


def test_an_idle_worker_asks_nothing(agent: Agent) -> None:
    assert agent.protection().look() is None
    assert agent.asked == []


def test_a_busy_worker_is_protected_and_renews_it_before_it_ends(agent: Agent) -> None:
    protection = agent.protection()
    protection.set_busy(True)
    assert protection.look() == 600
    assert agent.asked == [("/api/task-1/task-protection/v1/state", held(30))]
    agent.now += 599
    assert protection.look() == 1
    agent.now += 1
    protection.look()
    assert agent.bodies() == [held(30), held(30)]


def test_it_is_given_back_when_the_worker_stays_idle(agent: Agent) -> None:
    protection = agent.protection()
    protection.set_busy(True)
    protection.look()
    protection.set_busy(False)
    assert protection.look() == 20
    agent.now += 20
    assert protection.look() is None
    assert agent.bodies() == [held(30), {"ProtectionEnabled": False}]
    assert protection.look() is None
    assert len(agent.asked) == 2


def test_a_short_break_between_runs_asks_nothing(agent: Agent) -> None:
    protection = agent.protection()
    protection.set_busy(True)
    protection.look()
    protection.set_busy(False)
    agent.now += 5
    protection.look()
    protection.set_busy(True)
    protection.look()
    assert agent.bodies() == [held(30)]


def test_a_worker_that_is_busy_for_hours_stops_holding_up_a_deploy(agent: Agent) -> None:
    protection = agent.protection()
    protection.set_busy(True)
    begin = agent.now
    while (wait := protection.look()) is not None:
        agent.now += wait
    ends = [begin + 600 * number + 60 * body["ExpiresInMinutes"] for number, body in enumerate(agent.bodies())]  # type: ignore[index]
    assert max(ends) == begin + 7200
    protection.set_busy(False)
    agent.now += 20
    protection.look()
    protection.set_busy(True)
    protection.look()
    assert agent.bodies()[-1] == held(30)


@pytest.mark.parametrize("answer", [BLOCKED, (400, '{"error": {"Code": "AccessDeniedException"}}'), (500, "")])
def test_a_refusal_is_logged_and_asked_again_in_a_minute(
    agent: Agent, answer: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    agent.answer = answer
    protection = agent.protection()
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
