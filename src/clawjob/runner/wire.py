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
_READ_BYTES = 1 << 16
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


def write_order(
    *,
    program: str,
    argv: list[str],
    environment: dict[str, str],
    folder: str,
    grace: float = 0.0,
    uid: int | None = None,
    memory_bytes: int | None = None,
    cpu_seconds: int | None = None,
    open_files: int | None = None,
    cgroup: str = "",
) -> bytes:
    """Write an order for the wire; the worker makes it anew for each run, so it is encoded in one piece.

    No text may hold a NUL, and no name in the environment an equals sign.
    """
    numbers = (NONE if number is None else number for number in (uid, memory_bytes, cpu_seconds, open_files))
    parts = [
        " ".join(map(str, numbers)),
        str(grace),
        folder,
        cgroup,
        program,
        str(len(argv)),
        *argv,
        *[f"{name}={value}" for name, value in environment.items()],
    ]
    body = os.fsencode("\0".join(parts))
    return _header(ORDER, body) + body


def send_order(link: socket.socket, order: bytes, descriptors: tuple[int, int]) -> None:
    """Send an order with the descriptors that become the child's stdout and stderr."""
    sent = socket.send_fds(link, [order], list(descriptors))
    if sent < len(order):
        link.sendall(memoryview(order)[sent:])


def send_end(link: socket.socket, grace: float) -> None:
    """Ask the warden to end its tree: TERM now, KILL after the grace."""
    body = b"%f" % grace
    link.sendall(_header(END, body) + body)


def _header(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4, "little")


class Inbox:
    """The warden's end of the link: takes whole messages out of the stream."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._unread = b""
        self._descriptors: list[int] = []
        self.is_closed = False
        """Whether the worker has closed the link or died."""

    def receive(self) -> list[tuple[bytes, bytes, list[int]]]:
        """Read once and return the messages that are whole by now: kind, body, descriptors that came with it."""
        self._read()
        messages = []
        while len(self._unread) >= _HEADER:
            end = _HEADER + int.from_bytes(self._unread[1:_HEADER], "little")
            if len(self._unread) < end:
                break
            kind, body = self._unread[:1], self._unread[_HEADER:end]
            self._unread = self._unread[end:]
            descriptors: list[int] = []
            if kind == ORDER:
                descriptors, self._descriptors = self._descriptors[:2], self._descriptors[2:]
            messages.append((kind, body, descriptors))
        return messages

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._link.recvmsg(_READ_BYTES, socket.CMSG_SPACE(2 * 4), socket.MSG_CMSG_CLOEXEC)
        except OSError:
            data, ancillary = b"", []
        for level, kind, packed in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(packed[: len(packed) - len(packed) % numbers.itemsize])
                self._descriptors += numbers
        self._unread += data
        if not data:
            self.is_closed = True
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors.clear()


def read_order(body: bytes) -> Order:
    """Read the body that `write_order` wrote."""
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
