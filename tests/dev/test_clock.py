"""The movable clock."""

import logging
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from clawjob.dev.clock import DEV_TIMES, FASTEST, REAL_CLOCK, clock_text, dev_times, moved_clock, real_time, travelling
from clawjob.settings import CoreSettings

NIGHT = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)


def test_every_way_to_read_the_clock_moves_and_monotonic_ones_do_not() -> None:
    before = time.monotonic()
    moved = moved_clock(NIGHT, 100.0, time.time())
    with travelling(moved):
        now = datetime.now(UTC)
        assert NIGHT <= now < NIGHT + timedelta(minutes=10)
        assert abs(time.time() - now.timestamp()) < 100
        assert time.time_ns() // 10**9 - int(time.time()) <= 1
        assert time.gmtime().tm_year == 2026
        assert abs(logging.makeLogRecord({}).created - time.time()) < 100
        assert time.monotonic() - before < 5
        assert abs(time.clock_gettime(time.CLOCK_MONOTONIC) - time.monotonic()) < 5
    assert abs(time.time() - real_time()) < 1


def test_the_moved_clock_runs_at_its_speed_and_never_jumps() -> None:
    with travelling(moved_clock(NIGHT, 200.0, time.time())):
        begun_moved, begun_real = time.time(), real_time()
        readings = [time.time() for _ in range(2000)]
        passed_moved, passed_real = time.time() - begun_moved, real_time() - begun_real
    assert readings == sorted(readings)
    assert passed_moved == pytest.approx(passed_real * 200.0, abs=0.2)


def test_a_child_process_lives_in_real_time_and_in_its_own_zone() -> None:
    code = "import time, os; print(int(time.time()), os.environ.get('TZ'))"
    with travelling(moved_clock(NIGHT, 1.0, time.time())):
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert abs(int(said.split()[0]) - real_time()) < 20
    assert said.split()[1] == "None"


def test_a_clock_that_is_not_moved_changes_nothing() -> None:
    clock = moved_clock(None, 1.0, time.time())
    assert clock == REAL_CLOCK
    assert clock_text(clock) == ""
    with travelling(clock):
        assert abs(time.time() - real_time()) < 1


def test_workers_read_the_same_clock_from_their_settings() -> None:
    clock = moved_clock(NIGHT, 60.0, 1700000000.25)
    assert clock_text(clock) == "1700000000.25:1774745940.0:60.0"
    environment = {
        "CLAWJOB_TABLE": "t",
        "CLAWJOB_RUN_QUEUES": '{"default": {"high": "u", "low": "v"}}',
        "CLAWJOB_CLOCK": clock_text(clock),
    }
    assert CoreSettings.from_environment(environment).clock == clock
    assert clock.at(1700000001.25) == NIGHT.timestamp() + 60


@pytest.mark.parametrize("speed", [1.0, 1.5, 60.0, 90.0, 360.0, FASTEST])
def test_the_short_times_fit_together_at_every_speed(speed: float) -> None:
    times = dev_times(speed)
    times.check_relations()
    assert times.lease == DEV_TIMES.lease * speed
    assert times.tick / speed >= timedelta(seconds=0.6)
