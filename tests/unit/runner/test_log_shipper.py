"""W-14: shipping never stops a run; what is dropped is counted where it is missing; one thread for all runs."""

import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from clawjob.runner.log_events import MAX_BATCH_BYTES, LogEvent
from clawjob.runner.log_shipper import LogShipper, ShipperLimits

KIB = 1024
FAST = ShipperLimits(buffer_bytes=256 * KIB, run_bytes=64 * KIB, budget_bytes=10**9, linger=0.0, patience=3600.0)


class Service:
    """A log service that works, fails or hangs as it is told."""

    def __init__(self) -> None:
        self.events: dict[str, list[LogEvent]] = {}
        self.calls = 0
        self.threads: set[int] = set()
        self.fails = False
        self.hang: threading.Event | None = None
        self.called = threading.Event()

    def put_events(self, stream: str, events: list[LogEvent]) -> int | None:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.called.set()
        if self.hang is not None:
            self.hang.wait(60)
        if self.fails:
            raise ConnectionError("the service is away")
        self.events.setdefault(stream, []).extend(events)
        return None

    def lines(self, stream: str = "run/1") -> list[str]:
        return [text for _, text in self.events.get(stream, [])]


class Hand:
    """A clock in the test's hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def ship(service: Service) -> Iterator[Callable[..., LogShipper]]:
    made: list[LogShipper] = []

    def make(limits: ShipperLimits = FAST, monotonic: Callable[[], float] = time.monotonic) -> LogShipper:
        shipper = LogShipper(service, limits, monotonic)
        shipper.start()
        made.append(shipper)
        return shipper

    yield make
    if service.hang is not None:
        service.hang.set()
    for shipper in made:
        shipper.close(0.0)


def until(condition: Callable[[], object], patience: float = 10.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.005)


def missing_in(lines: list[str]) -> int:
    return sum(int(found[1]) for line in lines if (found := re.match(r"\[clawjob\] (\d+) bytes", line)))


def test_lines_arrive_in_order_with_their_times(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship()
    log = shipper.open("run/1")
    log.offer(b"one\ntwo\n", 5)
    log.offer(b"three\n", 6)
    log.finish()
    assert shipper.close(5.0) == 0
    assert service.events["run/1"] == [(5, "one"), (5, "two"), (6, "three")]


def test_a_run_without_output_costs_no_call(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship()
    shipper.open("run/1").finish()
    shipper.close(5.0)
    assert service.calls == 0


def test_a_clock_that_steps_back_keeps_the_order(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship()
    log = shipper.open("run/1")
    log.offer(b"one\n", 5000)
    log.offer(b"two\n", 4000)
    log.finish()
    shipper.close(5.0)
    assert service.events["run/1"] == [(5000, "one"), (5000, "two")]


def test_lines_wait_for_more_so_that_a_request_carries_many(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship(ShipperLimits(linger=30.0))
    log = shipper.open("run/1")
    for number in range(100):
        log.offer(b"line %d\n" % number, number)
    assert service.calls == 0
    log.finish()
    until(lambda: len(service.lines()) == 100)
    assert service.calls == 1


def test_a_line_is_shipped_while_the_run_goes_on(ship: Callable[..., LogShipper], service: Service) -> None:
    log = ship().open("run/1")
    log.offer(b"one\n", 1)
    until(lambda: service.lines() == ["one"])
    log.offer(b"two\n", 2)
    until(lambda: service.lines() == ["one", "two"])


def test_one_thread_ships_all_runs(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship()
    before = threading.active_count()
    logs = [shipper.open(f"run/{number}") for number in range(20)]
    for log in logs:
        log.offer(b"x\n", 1)
        log.finish()
    assert threading.active_count() == before
    shipper.close(5.0)
    assert len(service.threads) == 1
    assert len(service.events) == 20


def test_while_the_service_hangs_a_run_ends_and_the_log_says_later_how_much_is_missing(
    ship: Callable[..., LogShipper], service: Service
) -> None:
    service.hang = threading.Event()
    shipper = ship()
    log = shipper.open("run/1")
    log.offer(b"first\n", 1)
    assert service.called.wait(10)
    began = time.monotonic()
    sent = 6
    for number in range(5000):
        block = b"line %06d %s\n" % (number, b"x" * 100)
        log.offer(block, 2)
        sent += len(block)
    log.finish()
    assert time.monotonic() - began < 1.0
    assert log.dropped_bytes > 0
    service.hang.set()
    assert shipper.close(10.0) == 0
    lines = service.lines()
    assert lines[0] == "first"
    assert lines[-1].startswith("line 004999")
    assert missing_in(lines) == log.dropped_bytes
    kept = sum(len(line) + 1 for line in lines if not line.startswith("[clawjob]"))
    assert kept + log.dropped_bytes == sent


def test_a_service_that_fails_for_a_minute_loses_nothing_that_had_room(
    ship: Callable[..., LogShipper], service: Service
) -> None:
    hand = Hand()
    service.fails = True
    shipper = ship(monotonic=hand)
    log = shipper.open("run/1")
    log.offer(b"one\n", 1)
    until(lambda: service.calls == 1)
    log.offer(b"two\n", 2)
    log.finish()
    for _ in range(6):
        calls = service.calls
        hand.now += 31.0
        with shipper._change:
            shipper._change.notify()
        until(lambda calls=calls: service.calls > calls)  # type: ignore[misc]  # bound on purpose
    service.fails = False
    assert shipper.close(10.0) == 0
    assert service.lines() == ["one", "two"]
    assert log.dropped_bytes == 0


def test_a_failing_service_is_not_called_again_at_once(ship: Callable[..., LogShipper], service: Service) -> None:
    service.fails = True
    log = ship().open("run/1")
    log.offer(b"one\n", 1)
    until(lambda: service.calls == 1)
    log.offer(b"two\n", 1)
    log.finish()
    threading.Event().wait(0.3)
    assert service.calls == 1


def test_without_patience_left_lines_are_dropped_and_the_next_that_pass_say_it(
    ship: Callable[..., LogShipper], service: Service
) -> None:
    hand = Hand()
    service.fails = True
    shipper = ship(ShipperLimits(linger=0.0, patience=60.0), monotonic=hand)
    log = shipper.open("run/1")
    log.offer(b"lost line\n", 1)
    until(lambda: service.calls == 1)
    hand.now += 61.0
    with shipper._change:
        shipper._change.notify()
    until(lambda: log.dropped_bytes == 10)
    service.fails = False
    log.offer(b"later\n", 2)
    log.finish()
    hand.now += 61.0
    assert shipper.close(10.0) == 0
    assert missing_in(service.lines()) == 10
    assert service.lines()[-1] == "later"
    assert shipper.dropped_bytes == 10


def test_one_failing_stream_does_not_hold_the_others(ship: Callable[..., LogShipper]) -> None:
    class Picky(Service):
        def put_events(self, stream: str, events: list[LogEvent]) -> int | None:
            if stream == "bad/1":
                raise ValueError("not this one")
            return super().put_events(stream, events)

    picky = Picky()
    shipper = LogShipper(picky, FAST)
    shipper.start()
    bad, good = shipper.open("bad/1"), shipper.open("good/1")
    bad.offer(b"x\n", 1)
    good.offer(b"y\n", 1)
    until(lambda: picky.lines("good/1") == ["y"])
    assert shipper.close(0.2) == 2


def test_many_ended_runs_during_an_outage_stay_within_the_buffer(
    ship: Callable[..., LogShipper], service: Service
) -> None:
    service.hang = threading.Event()
    shipper = ship()
    logs = [shipper.open(f"run/{number}") for number in range(100)]
    for log in logs:
        log.offer(b"x" * 9999 + b"\n", 1)
        log.finish()
    assert shipper._held <= FAST.buffer_bytes
    assert sum(log.dropped_bytes for log in logs) == 100 * 10_000 - shipper._held
    service.hang.set()
    assert shipper.close(10.0) == 0
    for number, log in enumerate(logs):
        assert missing_in(service.lines(f"run/{number}")) == log.dropped_bytes


def test_over_its_budget_a_run_ships_only_its_end(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship(ShipperLimits(run_bytes=10_000, budget_bytes=20_000, linger=0.0))
    log = shipper.open("run/1")
    for number in range(1000):
        log.offer(b"%08d %s\n" % (number, b"x" * 90), 1)
        if number < 150:
            until(lambda: log.waiting == 0 or log.shipped >= 20_000)
    log.finish()
    assert shipper.close(10.0) == 0
    lines = service.lines()
    assert lines[-1].startswith("00000999")
    assert sum(len(line) + 1 for line in lines) < 40_000
    assert missing_in(lines) == log.dropped_bytes > 50_000


def test_a_block_bigger_than_the_buffer_is_dropped_and_counted(
    ship: Callable[..., LogShipper], service: Service
) -> None:
    shipper = ship()
    log = shipper.open("run/1")
    log.offer(b"x" * (FAST.run_bytes + 1) + b"\n", 1)
    log.finish()
    assert shipper.close(10.0) == 0
    assert missing_in(service.lines()) == FAST.run_bytes + 2


def test_closing_does_not_wait_for_a_service_that_hangs(ship: Callable[..., LogShipper], service: Service) -> None:
    service.hang = threading.Event()
    shipper = ship()
    log = shipper.open("run/1")
    log.offer(b"one\n", 1)
    assert service.called.wait(10)
    began = time.monotonic()
    assert shipper.close(0.2) == 4
    assert time.monotonic() - began < 2.0


def test_requests_keep_the_limits_under_a_flood(ship: Callable[..., LogShipper], service: Service) -> None:
    sizes: list[int] = []

    class Meter(Service):
        def put_events(self, stream: str, events: list[LogEvent]) -> int | None:
            sizes.append(sum(len(text.encode()) + 26 for _, text in events))
            assert len(events) <= 10_000
            return super().put_events(stream, events)

    meter = Meter()
    shipper = LogShipper(meter, ShipperLimits(linger=0.0))
    shipper.start()
    log = shipper.open("run/1")
    for _ in range(12):
        log.offer(b"\n" * 50_000, 1)
        until(lambda: log.waiting < 500_000)
    log.finish()
    assert shipper.close(20.0) == 0
    assert max(sizes) <= MAX_BATCH_BYTES
    assert len(meter.lines()) == 600_000


def test_an_idle_shipper_sleeps(ship: Callable[..., LogShipper], service: Service) -> None:
    shipper = ship()
    waits: list[float | None] = []
    wait = shipper._change.wait

    def counted(timeout: float | None = None) -> bool:
        waits.append(timeout)
        return wait(timeout)

    shipper._change.wait = counted  # type: ignore[method-assign]  # only looks on
    log = shipper.open("run/1")
    log.offer(b"x\n", 1)
    until(lambda: service.lines() == ["x"])
    threading.Event().wait(0.2)
    assert len(waits) <= 3
    assert waits[-1] is None
