"""A clock that starts at another instant and runs at another speed, the same in every process of the one-machine mode.

In the dev process the whole process travels, because moto's delays, visibility and `Date` headers must follow. Workers
and their children live in real time; a worker's own code reads the moved clock from `CLAWJOB_CLOCK`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from clawjob.domain.times import Times
from clawjob.settings import ClockSetting

FASTEST: Final = 600.0
_LONGEST_TICK: Final = timedelta(seconds=400)
"""The look-ahead spans two ticks and must stay under the queue's longest delay of 900 s."""

DEV_TIMES: Final = Times(
    tick=timedelta(seconds=5),
    look_ahead=timedelta(seconds=12),
    lease=timedelta(seconds=8),
    keep=timedelta(seconds=2),
    check=timedelta(seconds=20),
    longest_check=timedelta(minutes=2),
    lost_after=timedelta(seconds=10),
    overdue=timedelta(seconds=10),
    send_check=timedelta(seconds=10),
    retention=timedelta(days=7),
)
"""Short, so that one sees every mechanism work within seconds."""


REAL_CLOCK: Final = ClockSetting()


def moved_clock(at: datetime | None, speed: float, real_now: float) -> ClockSetting:
    """Make the clock that shows `at` (or the present) now and runs `speed` times as fast as the world."""
    if at is None and speed == 1.0:
        return REAL_CLOCK
    return ClockSetting(real_now, real_now if at is None else at.timestamp(), speed)


def clock_text(clock: ClockSetting) -> str:
    """Write `CLAWJOB_CLOCK`; empty for the real clock."""
    if clock == REAL_CLOCK:
        return ""
    return f"{clock.anchor_real!r}:{clock.anchor_moved!r}:{clock.speed!r}"


def dev_times(speed: float) -> Times:
    """Give the short times, the same for a person at every speed.

    Only ticks come more often at a high speed, where the queue's longest delay asks for it.
    """
    times = DEV_TIMES.scaled(speed)
    if times.tick > _LONGEST_TICK:
        times = replace(times, tick=_LONGEST_TICK, look_ahead=_LONGEST_TICK * 2)
    times.check_relations()
    return times


def real_time() -> float:
    """Read the real clock, also where this process travels."""
    import time_machine

    return time_machine.escape_hatch.time.time() if time_machine.escape_hatch.is_travelling() else time.time()


@contextmanager
def travelling(clock: ClockSetting) -> Iterator[None]:
    """Let everything in this process read the moved clock; monotonic clocks and waiting stay real.

    To be entered before other threads run. Child processes are not touched.
    """
    if clock == REAL_CLOCK:
        yield
        return
    import time_machine

    class Traveller(time_machine.Traveller):
        def time_ns(self) -> int:
            return round(clock.at(time_machine.escape_hatch.time.time()) * 1_000_000_000)

    travel = time_machine.travel(clock.anchor_moved)
    travel.start()
    # The library's own traveller knows one speed; its place on the stack is what every patched function asks.
    time_machine.traveller_stack[-1] = Traveller(0, None, tick=True)
    try:
        yield
    finally:
        travel.stop()
