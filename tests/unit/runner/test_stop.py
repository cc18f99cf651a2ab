"""The wish to stop: from any thread, at any time, the stronger one wins, and it wakes at once."""

import os
import select
import threading
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest

from clawjob.runner.stop import Stop, StopKind, StopRequest

SECOND = timedelta(seconds=1)


def test_nothing_is_asked_for_at_first() -> None:
    assert StopRequest().asked is None


@pytest.mark.parametrize("early", [True, False])
def test_a_wish_wakes_whoever_listens_also_when_it_came_before(early: bool) -> None:
    stop = StopRequest()
    if early:
        stop.cancel("enough")
    with stop.listening() as wake:
        if not early:
            threading.Thread(target=stop.cancel, args=("enough",)).start()
        ready, _, _ = select.select([wake], [], [], 10)
        assert ready == [wake]
        assert stop.asked == Stop(StopKind.CANCEL, "enough", None)


def test_a_second_wish_wakes_again() -> None:
    stop = StopRequest()
    with stop.listening() as wake:
        stop.interrupt("drain")
        os.eventfd_read(wake)
        stop.lose_lease()
        assert select.select([wake], [], [], 10)[0] == [wake]


@pytest.mark.parametrize("order", list(permutations(["interrupt", "cancel", "lose_lease"])))
def test_the_stronger_wish_wins_in_any_order(order: tuple[str, ...]) -> None:
    stop = StopRequest()
    for wish in order:
        getattr(stop, wish)("gone" if wish == "lose_lease" else wish)
    assert stop.asked == Stop(StopKind.LEASE_LOST, "gone", timedelta(0))


def test_the_shortest_grace_holds() -> None:
    stop = StopRequest()
    stop.cancel("user", 5 * SECOND)
    stop.interrupt("drain", 2 * SECOND)
    assert stop.asked == Stop(StopKind.CANCEL, "user", 2 * SECOND)
    stop.cancel("again", 9 * SECOND)
    assert stop.asked is not None
    assert stop.asked.grace == 2 * SECOND


def test_a_wish_after_the_end_is_harmless_and_no_descriptor_stays() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    stop = StopRequest()
    with stop.listening():
        pass
    stop.cancel("late")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_wishes_from_many_threads_while_listening_begins_and_ends() -> None:
    stop = StopRequest()
    threads = [threading.Thread(target=lambda: [stop.cancel("x") for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        with stop.listening():
            pass
    for thread in threads:
        thread.join()
    assert stop.asked is not None
