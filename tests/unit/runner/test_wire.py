"""What worker and warden say to each other survives the wire, whatever it holds."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.runner.wire import END, ORDER, Inbox, Order, read_order, send_end, send_order, write_order

word = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
name = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]), min_size=1, max_size=20)
number = st.none() | st.integers(0, 2**60)


def facts(order: Order) -> dict[str, object]:
    return {name: getattr(order, name) for name in Order.__slots__}


def passed_on(order: bytes) -> tuple[Order, bytes]:
    """Send an order with two write ends of a pipe, and use them on the other side."""
    here, there = socket.socketpair()
    reader, writer = os.pipe()
    other = os.dup(writer)
    sender = threading.Thread(target=send_order, args=(here, order, (writer, other)))
    sender.start()
    inbox = Inbox(there)
    try:
        messages: list[tuple[bytes, bytes, list[int]]] = []
        while not messages:
            messages = inbox.receive()
        sender.join()
        [(kind, body, descriptors)] = messages
        assert kind == ORDER
        for descriptor in descriptors:
            assert not os.get_inheritable(descriptor)
            os.write(descriptor, b"!")
            os.close(descriptor)
        return read_order(body), os.read(reader, 10)
    finally:
        for descriptor in (reader, writer, other):
            os.close(descriptor)
        here.close()
        there.close()


@given(
    argv=st.lists(word, min_size=1, max_size=5),
    environment=st.dictionaries(name, word, max_size=5),
    numbers=st.tuples(number, number, number, number),
)
def test_an_order_arrives_as_it_was_sent(
    argv: list[str], environment: dict[str, str], numbers: tuple[int | None, ...]
) -> None:
    uid, memory, cpu, files = numbers
    order = write_order(
        program="/bin/x",
        argv=argv,
        environment=environment,
        folder="/a b\udcff/c",
        grace=1.25,
        uid=uid,
        memory_bytes=memory,
        cpu_seconds=cpu,
        open_files=files,
        cgroup="/g",
    )
    received, said = passed_on(order)
    assert said == b"!!"
    assert facts(received) == {
        "program": b"/bin/x",
        "argv": [os.fsencode(text) for text in argv],
        "environment": {os.fsencode(key): os.fsencode(value) for key, value in environment.items()},
        "folder": b"/a b\xff/c",
        "grace": 1.25,
        "uid": -1 if uid is None else uid,
        "memory_bytes": -1 if memory is None else memory,
        "cpu_seconds": -1 if cpu is None else cpu,
        "open_files": -1 if files is None else files,
        "cgroup": b"/g",
    }


def test_an_order_of_megabytes_arrives() -> None:
    order = write_order(program="/x", argv=["a" * 100_000] * 50, environment={"B": "b=b" * 10_000}, folder="/")
    received, said = passed_on(order)
    assert received.argv == [b"a" * 100_000] * 50
    assert received.environment == {b"B": b"b=b" * 10_000}
    assert said == b"!!"


def small() -> bytes:
    return write_order(program="/x", argv=["x"], environment={"A": "b"}, folder="/")


def test_messages_that_arrive_together_are_told_apart() -> None:
    here, there = socket.socketpair()
    with here, there:
        send_order(here, small(), (0, 0))
        send_end(here, 2.5)
        send_end(here, 0.0)
        inbox = Inbox(there)
        messages: list[tuple[bytes, bytes, list[int]]] = []
        while len(messages) < 3:
            messages += inbox.receive()
        assert [kind for kind, _, _ in messages] == [ORDER, END, END]
        assert [body for _, body, _ in messages[1:]] == [b"2.500000", b"0.000000"]
        assert [len(descriptors) for _, _, descriptors in messages] == [2, 0, 0]
        for descriptor in messages[0][2]:
            os.close(descriptor)


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 20])
def test_a_worker_that_dies_in_the_middle_of_an_order_is_the_end_of_the_link(cut: int) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    here, there = socket.socketpair()
    with there:
        if cut:
            socket.send_fds(here, [small()[:cut]], [0, 0])
        here.close()
        inbox = Inbox(there)
        while not inbox.is_closed:
            assert inbox.receive() == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before
