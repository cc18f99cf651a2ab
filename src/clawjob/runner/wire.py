"""What the worker and a warden say to each other, over a stream socket that nobody else can reach.

The worker sends an order (with the write ends of the two output pipes) and requests to end; the warden answers in lines
of text. The end of the stream is a message too: to a warden it says that the worker has died.

Wardens import this module: it uses nothing that costs them memory.
"""

import array
import os
import socket

ORDER = b"O"
END = b"E"
FAREWELL = b"farewell"
"""Tells the head warden that its worker lives on without it."""
_HEADER = 5
NONE = -1
"""Stands for a number that is not given."""

LEFTOVER_GRACE = 2.0
"""Seconds that processes get between TERM and KILL when their run's own process has ended without them."""
ORPHANED_GRACE = 5.0
"""Seconds at most that a run gets between TERM and KILL when its worker has died."""
STUCK_AFTER = 10.0
"""Seconds after the first KILL when the warden gives up waiting for what does not die."""


class Order:
    """All that a warden must know to start one child and to end its tree."""

    __slots__ = (
        "argv",
        "cgroup",
        "cpu_seconds",
        "environment",
        "folder",
        "grace",
        "memory_bytes",
        "open_files",
        "program",
        "uid",
    )

    def __init__(
        self,
        *,
        program: bytes,
        argv: list[bytes],
        environment: dict[bytes, bytes],
        folder: bytes,
        grace: float = 0.0,
        uid: int = NONE,
        memory_bytes: int = NONE,
        cpu_seconds: int = NONE,
        open_files: int = NONE,
        cgroup: bytes = b"",
    ) -> None:
        self.program = program
        self.argv = argv
        self.environment = environment
        self.folder = folder
        self.grace = grace
        self.uid = uid
        self.memory_bytes = memory_bytes
        self.cpu_seconds = cpu_seconds
        self.open_files = open_files
        self.cgroup = cgroup
        """A folder that the warden makes as the run's control group; empty for none."""


def send_order(link: socket.socket, order: Order, descriptors: tuple[int, int]) -> None:
    """Send an order with the descriptors that become the child's stdout and stderr."""
    numbers = (order.uid, order.memory_bytes, order.cpu_seconds, order.open_files)
    parts = [
        b" ".join(b"%d" % number for number in numbers),
        b"%f" % order.grace,
        order.folder,
        order.cgroup,
        order.program,
        b"%d" % len(order.argv),
        *order.argv,
        *(name + b"=" + value for name, value in order.environment.items()),
    ]
    body = b"\0".join(parts)
    sent = socket.send_fds(link, [_header(ORDER, body)], list(descriptors))
    if sent != _HEADER:
        raise BrokenPipeError
    link.sendall(body)


def send_end(link: socket.socket, grace: float) -> None:
    """Ask the warden to end its tree: TERM now, KILL after the grace."""
    body = b"%f" % grace
    link.sendall(_header(END, body) + body)


def _header(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4, "little")


def receive(link: socket.socket) -> tuple[bytes, bytes, list[int]]:
    """Receive one message of the worker: its kind, body and descriptors. An empty kind is the end of the stream."""
    header, ancillary, _, _ = link.recvmsg(_HEADER, socket.CMSG_SPACE(2 * 4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    header += _receive_exactly(link, _HEADER - len(header)) if header else b""
    length = int.from_bytes(header[1:], "little")
    body = _receive_exactly(link, length)
    if len(header) < _HEADER or len(body) < length:
        for descriptor in descriptors:
            os.close(descriptor)
        return b"", b"", []
    return header[:1], body, descriptors.tolist()


def _receive_exactly(link: socket.socket, length: int) -> bytes:
    pieces = []
    while length:
        piece = link.recv(min(length, 1 << 16))
        if not piece:
            break
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def read_order(body: bytes) -> Order:
    """Read the body that `send_order` wrote."""
    parts = body.split(b"\0")
    uid, memory_bytes, cpu_seconds, open_files = (int(number) for number in parts[0].split())
    count = int(parts[5])
    environment = {}
    for pair in parts[6 + count :]:
        name, _, value = pair.partition(b"=")
        environment[name] = value
    return Order(
        program=parts[4],
        argv=parts[6 : 6 + count],
        environment=environment,
        folder=parts[2],
        grace=float(parts[1]),
        uid=uid,
        memory_bytes=memory_bytes,
        cpu_seconds=cpu_seconds,
        open_files=open_files,
        cgroup=parts[3],
    )
