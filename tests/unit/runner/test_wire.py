"""What worker and warden say to each other survives the wire, whatever it holds."""

import os
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.runner.wire import END, ORDER, Order, read_order, receive, send_end, send_order

word = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b""))
name = st.binary(min_size=1, max_size=20).map(lambda data: data.replace(b"\0", b"").replace(b"=", b"") or b"x")


def passed_on(order: Order) -> tuple[Order, bytes]:
    here, there = socket.socketpair()
    reader, writer = os.pipe()
    other = os.dup(writer)
    sender = threading.Thread(target=send_order, args=(here, order, (writer, other)))
    sender.start()
    try:
        kind, body, descriptors = receive(there)
        sender.join()
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


def facts(order: Order) -> dict[str, object]:
    return {name: getattr(order, name) for name in Order.__slots__}


@given(
    argv=st.lists(word, min_size=1, max_size=5),
    environment=st.dictionaries(name, word, max_size=5),
    numbers=st.tuples(*[st.integers(-1, 2**60)] * 4),
)
def test_an_order_arrives_as_it_was_sent(
    argv: list[bytes], environment: dict[bytes, bytes], numbers: tuple[int, int, int, int]
) -> None:
    uid, memory, cpu, files = numbers
    order = Order(
        program=b"/bin/x",
        argv=argv,
        environment=environment,
        folder=b"/a b\xff/c",
        grace=1.25,
        uid=uid,
        memory_bytes=memory,
        cpu_seconds=cpu,
        open_files=files,
    )
    received, said = passed_on(order)
    assert facts(received) == facts(order)
    assert said == b"!!"


def test_an_order_of_megabytes_arrives() -> None:
    order = Order(program=b"/x", argv=[b"a" * 100_000] * 50, environment={b"B": b"b=b" * 10_000}, folder=b"/")
    assert facts(passed_on(order)[0]) == facts(order)


def test_a_request_to_end_follows_an_order_in_one_stream() -> None:
    here, there = socket.socketpair()
    with here, there:
        order = Order(program=b"/x", argv=[b"x"], environment={}, folder=b"/")
        send_order(here, order, (0, 0))
        send_end(here, 2.5)
        _, _, descriptors = receive(there)
        for descriptor in descriptors:
            os.close(descriptor)
        assert receive(there) == (END, b"2.500000", [])


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 20])
def test_a_worker_that_dies_in_the_middle_of_an_order_is_the_end_of_the_stream(cut: int) -> None:
    whole, sink = socket.socketpair()
    with whole, sink:
        order = Order(program=b"/x", argv=[b"x"], environment={b"A": b"b"}, folder=b"/")
        send_order(whole, order, (0, 0))
        data, _, _, _ = socket.recv_fds(sink, 5, 0)
        data += sink.recv(1000)
    here, there = socket.socketpair()
    with there:
        here.sendall(data[:cut])
        here.close()
        assert receive(there) == (b"", b"", [])
