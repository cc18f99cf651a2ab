"""`clawjob dev` as its user meets it: real processes, the real command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

COMMAND = (sys.executable, "-c", "from clawjob.cli.main import main; main()", "dev")


class Dev:
    """One running `clawjob dev`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.file = folder / ".clawjob" / "dev.json"
        self.temporary = Path(tempfile.mkdtemp())
        self.process = subprocess.Popen(
            [*COMMAND, *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )
        self.root = psutil.Process(self.process.pid)
        self._seen: set[psutil.Process] = set()
        self.address: dict[str, str] = {}

    def wait(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.process.communicate()[0]
            text = self.file.read_text() if self.file.exists() else ""
            if not text:
                return False
            self.address = json.loads(text)
            return True

        until(is_ready)

    def ask(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.address['token']}"}
        url = f"{self.address['url']}/api/v1{path}"
        answer = httpx.request(method, url, headers=headers, timeout=30, trust_env=False, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def one_run(self, job: str, state: str) -> dict[str, Any]:
        """Wait until the job's newest run is in a state."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = self.ask("GET", f"/jobs/{job}/runs")["items"]
            return bool(found) and found[0]["state"] == state

        until(is_there)
        return found[0]

    def look(self) -> set[psutil.Process]:
        """All processes below it now, remembered for the end."""
        now = set(self.root.children(recursive=True))
        self._seen |= now
        return now

    def gone(self) -> bool:
        return not any(process.is_running() and process.status() != "zombie" for process in self._seen)

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=60)
        until(self.gone)
        assert list(self.temporary.iterdir()) == []
        return self.process.returncode, output


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Dev]:
    dev = Dev(folder, "--port", "0", *options)
    try:
        dev.wait()
        yield dev
    finally:
        if dev.process.poll() is None:
            dev.process.kill()
        dev.process.communicate()
        shutil.rmtree(dev.temporary, ignore_errors=True)


def refused(folder: Path, *options: str) -> str:
    done = subprocess.run([*COMMAND, *options], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert not done.stdout
    return done.stderr


HELLO = {"name": "hello", "command": "echo", "args": ["run {{.RunID}}"]}
HANG = {"name": "hang", "command": sys.executable, "args": ["-c", "import time; time.sleep(600)"], "grace": 1}


def test_a_first_job_runs_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    folder = tmp_path / "folder"
    folder.mkdir()
    with running(folder, "--state", str(state)) as dev:
        health = httpx.get(f"{dev.address['url']}/api/v1/health", trust_env=False)
        assert health.json()["status"] == "ok"
        assert httpx.get(f"{dev.address['url']}/api/v1/jobs", trust_env=False).status_code == 401
        dev.ask("POST", "/jobs", json=HELLO)
        run_id = dev.ask("POST", "/jobs/hello/runs")["run_id"]
        dev.one_run("hello", "SUCCEEDED")
        until(lambda: bool(dev.ask("GET", f"/runs/{run_id}/log")["lines"]))
        assert [line["text"] for line in dev.ask("GET", f"/runs/{run_id}/log")["lines"]] == [f"run {run_id}"]

        queues = dev.ask("GET", "/dead-letters")["items"]
        assert [(one["queue"], one["count"]) for one in queues] == [
            ("runs-default-high", 0),
            ("runs-default-low", 0),
            ("results", 0),
        ]

        assert "another `clawjob dev` runs in this folder" in refused(folder)
        port = dev.address["url"].rpartition(":")[2]
        assert f"port {port} of 127.0.0.1 is taken" in refused(tmp_path, "--port", port)
        assert "another `clawjob dev` keeps its state" in refused(tmp_path, "--port", "0", "--state", str(state))

        dev.ask("POST", "/jobs", json=HANG)
        dev.ask("POST", "/jobs/hang/runs")
        dev.one_run("hang", "RUNNING")
        assert len(dev.look()) >= 3
        first = dev.address
        code, output = dev.end(signal.SIGINT)
        assert code == 0, output
        assert output.rstrip().endswith("Ended. Nothing is left running.")
        assert list(folder.iterdir()) == []
        assert [path.name for path in tmp_path.iterdir() if path.name != "folder"] == ["state"]

    with running(folder, "--state", str(state)) as dev:
        assert dev.address["token"] == first["token"]
        (run,) = dev.ask("GET", "/jobs/hello/runs")["items"]
        assert (run["run_id"], run["state"]) == (run_id, "SUCCEEDED")
        assert dev.ask("GET", f"/runs/{run_id}/log")["lines"]
        # What ran at the end was handed back without costing a retry, and goes on now.
        again = dev.one_run("hang", "RUNNING")
        assert (again["attempt"], again["retry"]) == (2, 0)
        assert len(dev.look()) >= 3
        dev.process.kill()
        dev.process.wait()
        until(dev.gone)
        assert dev.file.exists()  # it is taken over by the next one: test_address_file.py


def test_a_night_passes_in_seconds_and_a_second_ctrl_c_kills_what_does_not_end(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    with running(tmp_path, "--at", "2026-03-29T00:54:00Z", "--speed", "60") as dev:
        schedule = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
        name = Path(sys.executable).name  # installed beside clawjob, so found without its path
        dev.ask("POST", "/jobs", json={"name": "night", "command": name, "args": ["-V"], "schedule": schedule})
        dev.ask("POST", "/jobs", json={"name": "deaf", "command": name, "args": ["-c", deaf], "grace": "1m"})
        run = dev.one_run("night", "SUCCEEDED")
        assert run["scheduled_at"] == "2026-03-29T01:00:00.000Z"
        assert run["nominal_local"] == "2026-03-29T02:30:00"
        assert run["started_at"] < "2026-03-29T01:10:00"

        dev.ask("POST", "/jobs/deaf/runs")
        dev.one_run("deaf", "RUNNING")
        dev.look()
        begun = time.monotonic()
        dev.process.send_signal(signal.SIGINT)
        assert dev.process.stdout is not None
        while "Ending" not in dev.process.stdout.readline():
            continue
        assert dev.end(signal.SIGINT)[0] == 0
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--at", "yesterday", "is no instant"),
        ("--at", "2026-03-29T01:00:00", "has no zone"),
        ("--at", "1970-01-01T00:00:00Z", "out of range"),
        ("--speed", "0.5", "--speed"),
        ("--speed", "601", "--speed"),
        ("--slots", "0", "--slots"),
        ("--port", "65536", "--port"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(tmp_path: Path, option: str, value: str, said: str) -> None:
    done = subprocess.run([*COMMAND, option, value], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_moto_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['moto'] = None; from clawjob.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "dev", "--port", "0"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'install it with:  python -m pip install "clawjob[dev]"' in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".clawjob").write_text("")
    assert f"cannot write {tmp_path}/.clawjob/dev.json" in refused(tmp_path, "--port", "0")
