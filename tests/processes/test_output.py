"""W-11, W-13: nothing that a child writes stops it, or us."""

import re
import resource
import time
from typing import TYPE_CHECKING

import pytest

from clawjob.domain.run import Outcome
from clawjob.runner.log_shipper import LogShipper
from support.children import PYTHON, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.children import Runner

MIB = 2**20


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_bad_utf8_is_replaced_and_what_follows_is_there(runner: "Runner") -> None:
    """W-11."""
    end = runner.python("import os; os.write(1, b'\\xff\\xfe caf\\xe9 \\x97\\n'); print('after'); raise SystemExit(1)")
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 1)
    assert end.log_tail == "\ufffd\ufffd caf\ufffd \ufffd\nafter\n"


def test_a_character_split_over_two_writes_is_intact(runner: "Runner") -> None:
    """W-11."""
    script = "import os, time\nfor byte in 'größe 😀\\n'.encode(): os.write(1, bytes([byte])); time.sleep(0.005)"
    runner.python(script)
    assert runner.log() == "größe 😀\n"


def flood(runner: "Runner", mebibytes: int) -> None:
    script = f"""
import os
for n in range({mebibytes} * 16):
    os.write(1, b"out %08d " % n + b"o" * 65519 + b"\\n")
    os.write(2, b"err %08d " % n + b"e" * 65519 + b"\\n")
os.write(1, b"last out\\n")
os.write(2, b"last err\\n")
os._exit(5)
"""
    before = peak_memory()
    end = runner.python(script, timeout=100)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 5)
    assert "last out" in end.log_tail
    assert "last err" in end.log_tail
    assert end.log_bytes == mebibytes * 16 * 2 * 65533 + 18
    assert peak_memory() - before < 20 * MIB
    log = runner.log()
    assert len(log) <= 8 * MIB + 200
    assert log.startswith("out 00000000 ")
    # Which stream's last line comes last is chance: they are two pipes.
    assert "last out\n" in log[-400_000:]
    assert "last err\n" in log[-400_000:]
    mark = re.search(r"^\[clawjob\] (\d+) bytes of output are missing here", log, re.MULTILINE)
    assert mark
    assert int(mark[1]) == end.log_dropped_bytes > 0
    assert len(log) - len(mark[0] + ": the log is over its bound\n") == end.log_bytes - end.log_dropped_bytes


def test_a_flood_on_both_pipes_is_read_to_its_end_in_bounded_memory(runner: "Runner") -> None:
    """W-13, at a tenth of its size."""
    flood(runner, 20)


@pytest.mark.slow
def test_a_flood_of_200_mb_on_each_pipe(runner: "Runner") -> None:
    """W-13."""
    flood(runner, 200)


def test_a_line_of_100_mb_is_cut_into_bounded_ones(runner: "Runner") -> None:
    before = peak_memory()
    end = runner.python("import os\nfor _ in range(1600): os.write(1, b'x' * 65536)\nos.write(1, b' end')", timeout=60)
    assert end.outcome is Outcome.SUCCEEDED
    assert end.log_bytes == 1600 * 65536 + 4
    assert peak_memory() - before < 20 * MIB
    assert max(map(len, runner.log().splitlines())) <= 256 * 1024
    assert runner.log().endswith("x end\n")


def test_output_closed_early_is_no_end(runner: "Runner") -> None:
    end = runner.sh("exec >&- 2>&- <&-; sleep 0.2; exit 9")
    assert end.exit_code == 9
    assert end.duration_seconds >= 0.2


def test_closing_the_output_early_costs_no_time_of_ours(runner: "Runner") -> None:
    before = time.thread_time()
    runner.sh("exec >&- 2>&-; sleep 0.5")
    assert time.thread_time() - before < 0.1


def test_a_silent_run_costs_no_time_of_ours_and_no_file(runner: "Runner") -> None:
    before = time.thread_time()
    runner.sh("sleep 0.5")
    assert time.thread_time() - before < 0.1
    assert not runner.supervisor.logs.root.exists()


def test_output_of_the_last_moment_is_kept(runner: "Runner") -> None:
    end = runner.python("import os; os.write(2, b'x' * 50_000 + b'\\nthe reason\\n'); os.kill(os.getpid(), 9)")
    assert end.log_tail.endswith("the reason\n")
    assert end.log_bytes == 50_012


def test_what_leftovers_write_is_kept_too(runner: "Runner") -> None:
    runner.sh("(trap 'echo bye; exit' TERM; echo ready; sleep 300 & wait) & sleep 0.3; exit 0")
    assert runner.log() == "ready\nbye\n"


def test_output_of_each_attempt_has_its_own_place(runner: "Runner") -> None:
    for attempt in (1, 2):
        runner.sh(f"echo {attempt}", attempt=attempt)
    places = sorted(path.relative_to(runner.root / "logs") for path in runner.root.rglob("*.log"))
    assert [str(path) for path in places] == [f"{runner.run_id}/{n}/000001.log" for n in (1, 2)]


def test_a_run_id_cannot_lead_out_of_the_folders(runner: "Runner") -> None:
    """A-04."""
    end = runner.sh("echo here; pwd", run_id="../../../../tmp/x")
    assert end.outcome is Outcome.SUCCEEDED
    assert [path.name for path in (runner.root / "logs").iterdir()] == ["_.._.._.._tmp_x"]
    assert f"{runner.supervisor.folders.runs}/" in runner.log("_.._.._.._tmp_x")


class Service:
    """A log service that works or hangs."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[int, str]]] = {}
        self.hangs = False

    def put_events(self, stream: str, events: list[tuple[int, str]]) -> int | None:
        until(lambda: not self.hangs, 60)
        self.events.setdefault(stream, []).extend(events)
        return None


def test_output_is_shipped_to_the_stream_of_the_attempt(make_runner: "Callable[..., Runner]") -> None:
    service = Service()
    shipper = LogShipper(service)
    shipper.start()
    runner = make_runner(shipper=shipper)
    end = runner.run(PYTHON, "-uc", "import time; print('one'); time.sleep(0.2); print('two')", attempt=3)
    assert shipper.close(10) == 0
    events = service.events[f"{runner.run_id}/3"]
    assert [text for _, text in events] == ["one", "two"]
    assert events[1][0] - events[0][0] >= 150
    assert abs(events[0][0] - end.started_at.timestamp() * 1000) < 5000


def test_a_run_ends_normally_while_the_log_service_hangs(make_runner: "Callable[..., Runner]") -> None:
    """W-14."""
    service = Service()
    service.hangs = True
    shipper = LogShipper(service)
    shipper.start()
    runner = make_runner(shipper=shipper)
    end = runner.python("for n in range(60_000): print('line', n, 'x' * 60)")
    assert end.outcome is Outcome.SUCCEEDED
    assert end.log_dropped_bytes > MIB
    service.hangs = False
    assert shipper.close(20) == 0
    texts = [text for _, text in service.events[f"{runner.run_id}/1"]]
    assert texts[-1].startswith("line 59999 ")
    marks = [int(found[1]) for text in texts if (found := re.match(r"\[clawjob\] (\d+) bytes", text))]
    assert sum(marks) == end.log_dropped_bytes
