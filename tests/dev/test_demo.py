"""The demo's words and its judgement; `make demo` itself is run by CI."""

import io
import subprocess
import sys
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest
from click.testing import CliRunner
from rich.console import Console

from clawjob.dev import demo
from clawjob.dev.demo_checks import surprises
from clawjob.dev.demo_jobs import BOOKS, FLAKY, STUCK, Stage, examples_folder
from clawjob.dev.demo_news import in_words, lateness, news
from clawjob.dev.demo_screen import Screen
from clawjob.dev.demo_site import site_running
from clawjob.dev.leftovers import Leftovers
from clawjob.domain.job import parse_document
from support.children import until

NOW = datetime(2024, 3, 10, 7, tzinfo=UTC)


def attempt(number: int, outcome: str | None, worker: str = "worker-1", **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "worker": worker,
        "started_at": f"2024-03-10T07:00:0{number - 1}.014Z",
        "outcome": outcome,
        "exit_code": None,
        "duration_seconds": 3.21,
        "items": None,
        "detail": "",
        **more,
    }


def run(job: str, state: str, attempts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "run_id": f"{job}-1",
        "job": job,
        "kind": "scheduled",
        "state": state,
        "is_final": state in {"SUCCEEDED", "TIMED_OUT", "FAILED"},
        "explanation": "",
        "scheduled_at": "2024-03-10T07:00:00.000Z",
        "queued_at": "2024-03-10T06:59:57.500Z",
        "attempts": attempts,
        "items": attempts[-1]["items"] if attempts else None,
        **more,
    }


def good() -> dict[str, list[dict[str, Any]]]:
    books = attempt(1, "succeeded", items=24)
    over = [attempt(1, "lost"), attempt(2, "succeeded", "worker-2", items=24)]
    flaky = [
        attempt(1, "failed", exit_code=2),
        attempt(2, "failed", exit_code=2),
        attempt(3, "succeeded", exit_code=0),
    ]
    return {
        BOOKS: [run(BOOKS, "SUCCEEDED", [books]), run(BOOKS, "SUCCEEDED", over, kind="manual")],
        FLAKY: [run(FLAKY, "SUCCEEDED", flaky)],
        STUCK: [run(STUCK, "TIMED_OUT", [attempt(1, "timed_out")])],
    }


def test_the_expected_outcomes_are_no_surprise() -> None:
    assert surprises(good()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda runs: runs[BOOKS].pop(), "books has 1 runs instead of 2"),
        (lambda runs: runs[STUCK].clear(), "stuck has 0 runs instead of 1"),
        (
            lambda runs: runs[STUCK][0].update(state="FAILED"),
            "the scheduled run of stuck is FAILED instead of TIMED_OUT",
        ),
        (lambda runs: runs[BOOKS][0].update(items=23), "the scheduled run of books brought 23 items instead of 24"),
        (lambda runs: runs[BOOKS][1]["attempts"].pop(0), "the attempts of the manual run of books ended ['succeeded']"),
        (
            lambda runs: runs[BOOKS][1]["attempts"][1].update(worker="worker-1"),
            "the run of books was not taken over by another worker",
        ),
        (lambda runs: runs[FLAKY][0]["attempts"][0].update(exit_code=1), "with the exit codes [1, 2, 0]"),
    ],
)
def test_whatever_is_not_as_expected_is_said(change, said: str) -> None:
    runs = deepcopy(good())
    change(runs)
    assert any(said in text for text in surprises(runs)), surprises(runs)


def test_a_run_s_story_is_told_from_look_to_look() -> None:
    queued = run(FLAKY, "QUEUED", [])
    running = run(FLAKY, "RUNNING", [attempt(1, None)])
    waiting = run(FLAKY, "RETRY_WAIT", [attempt(1, "failed", exit_code=2)])
    ended = run(FLAKY, "SUCCEEDED", [*waiting["attempts"], attempt(2, "succeeded", exit_code=0)])
    assert list(news(None, queued)) == ["Its run of 07:00:00 UTC is on the queue, 2.5 s ahead."]
    assert list(news(queued, running)) == ["worker-1 takes it, 14 ms after its instant."]
    assert list(news(running, waiting)) == ["Attempt 1 failed with exit code 2. It is tried again."]
    assert list(news(waiting, ended)) == ["worker-1 starts attempt 2.", "Succeeded after 3.2 s."]
    assert list(news(ended, ended)) == []
    assert len(list(news(None, ended))) == 5


def test_a_take_over_and_other_ends_are_told() -> None:
    lost = run(BOOKS, "RUNNING", [attempt(1, "lost"), attempt(2, None, "worker-2")])
    assert list(news(run(BOOKS, "RUNNING", [attempt(1, None)]), lost)) == [
        "Attempt 1 is lost: nobody renewed its lease, so it ran out.",
        "worker-2 takes the run over: attempt 2.",
    ]
    before = run(STUCK, "RUNNING", [attempt(1, None)])
    for outcome, said in (
        ("timed_out", "Timed out: its whole process tree was ended, 3.2 s after its start."),
        ("failed", "Attempt 1 failed with exit code 7. It is not tried again."),
        ("signalled", "Attempt 1 ended: signalled. by SIGKILL"),
    ):
        after = run(STUCK, "FAILED", [attempt(1, outcome, exit_code=7, detail="by SIGKILL")])
        assert list(news(before, after)) == [said]


def test_times_are_written_for_people() -> None:
    assert lateness(run(BOOKS, "QUEUED", [])) is None
    assert lateness(run(BOOKS, "RUNNING", [attempt(1, None)])) == pytest.approx(0.014)
    assert [in_words(seconds) for seconds in (0.0, 0.0144, 0.9994, 1.26)] == ["0 ms", "14 ms", "999 ms", "1.3 s"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_keeps_its_columns_in_a_narrow_terminal(width: int) -> None:
    written = io.StringIO()
    Screen(Console(file=written, width=width)).table(good())
    lines = written.getvalue().splitlines()
    assert lines[0].split() == ["job", "scheduled", "started", "late", "attempts", "outcome", "items"]
    assert max(map(len, lines)) <= width
    assert "by hand" in written.getvalue()
    assert "14 ms" in lines[1]


def test_the_three_documents_are_jobs(tmp_path: Path) -> None:
    definitions = [
        parse_document(document, NOW, {"default"})
        for document in Stage(tmp_path, "http://127.0.0.1:1", NOW).documents()
    ]
    assert [definition.name for definition in definitions] == [BOOKS, FLAKY, STUCK]


def test_the_site_is_the_same_for_every_crawl_and_goes_with_its_parent() -> None:
    others = set(psutil.Process().children())
    with site_running() as url:
        (site,) = set(psutil.Process().children()) - others
        pages = [urlopen(f"{url}/?page={page}").read().decode() for page in (1, 2, 3)]
        assert sum(page.count('class="book"') for page in pages) == 24
        assert ['class="next"' in page for page in pages] == [True, True, False]
        assert "Book 24" in urlopen(f"{url}/book/24").read().decode()
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{url}/book/25")
        refused.value.close()
    assert not site.is_running()


def test_the_flaky_example_fails_twice(tmp_path: Path) -> None:
    command = [sys.executable, str(examples_folder() / "flaky.py"), str(tmp_path / "counter")]
    codes = [subprocess.run(command, capture_output=True, check=False).returncode for _ in range(3)]
    assert codes == [2, 2, 0]


def test_what_still_runs_is_found_even_when_its_parent_is_gone() -> None:
    leftovers, others = Leftovers(), Leftovers()
    others.look()
    code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()']).pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        leftovers.look()
        parent.kill()
        parent.wait()
        assert leftovers.count == others.count + 2
        alive = set(leftovers.alive(0)) - set(others.alive(0))
        assert [text.partition(":")[0] for text in alive] == [f"process {child}"]
        psutil.Process(child).kill()
        until(lambda: set(leftovers.alive(0)) == set(others.alive(0)))


def test_a_surprise_ends_the_demo_with_exit_code_1_and_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(screen: Screen, log: list[str]) -> list[str]:
        log.append("17:00:00  worker-1  something")
        return ["flaky has 2 runs instead of 1"]

    monkeypatch.setattr(demo, "_play", play)
    done = CliRunner().invoke(demo.demo_command)
    assert done.exit_code == 1
    assert "- flaky has 2 runs instead of 1" in done.output
    assert "worker-1  something" in done.output


def test_without_scrapy_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scrapy", None)
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(demo.demo_command)
    assert done.exit_code == 1
    assert 'python -m pip install "clawjob[dev,demo]"' in done.output
