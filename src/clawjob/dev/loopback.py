"""A small HTTP/1.1 server on 127.0.0.1 only: keeps connections open, gives whole requests, sends whole answers.

The emulator and the API stand behind one each. It trusts nobody but this machine: a request that names another host
than this one is refused, so that no web page can reach it by a name of its own.
"""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, TCPServer, ThreadingMixIn
from typing import Final

HOST: Final = "127.0.0.1"
LARGEST_BODY: Final = 10 * 1024 * 1024
"""What API Gateway takes at most."""
_PATIENCE_SECONDS: Final = 5.0
"""For answers that are being made when the server closes."""
_OWN_NAMES: Final = frozenset({"127.0.0.1", "localhost"})


class ClientGoneError(Exception):
    """The client closed its connection while its answer was being made."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read to its end."""

    method: str
    target: str
    """Path and query as they were sent."""
    protocol: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    client: socket.socket

    def header(self, name: str) -> str:
        """First value of a header; empty when there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; `Content-Length` and `Date` are added when it is sent."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    text: str

    def response(self) -> Response:
        body = json.dumps({"message": self.text})
        return Response(self.status, (("content-type", "application/json"),), body.encode())


Answer = Callable[[Request], Response]


class PortTakenError(Exception):
    """Another program listens on the port."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(f"port {port} of {HOST} is taken by another program")


class _Connection(BaseHTTPRequestHandler):
    """Serves one connection; `server.answer` makes the answers."""

    protocol_version = "HTTP/1.1"
    server: "_Server"
    disable_nagle_algorithm = True
    wbufsize = -1

    def parse_request(self) -> bool:
        """Read the request's head; every method goes the same way."""
        if not super().parse_request():
            return False
        setattr(self, f"do_{self.command}", self._serve)
        return True

    def _serve(self) -> None:
        read = self._read()
        if isinstance(read, _Refusal):
            self.close_connection = True
            self._send(read.response())
            return
        try:
            response = self.server.answer(read)
        except ClientGoneError:
            self.close_connection = True
            return
        except Exception as error:
            self.server.report(error)
            response = _Refusal(500, f"{type(error).__name__}: {error}").response()
        self._send(response)

    def _read(self) -> Request | _Refusal:
        host = self.headers.get("host", "")
        if host.rpartition(":")[0] not in _OWN_NAMES and host not in _OWN_NAMES:
            return _Refusal(403, f"this server answers to {HOST} only")
        if self.headers.get("transfer-encoding"):
            return _Refusal(411, "send Content-Length")
        length = self.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return _Refusal(400, "Content-Length is no number")
        if int(length) > LARGEST_BODY:
            return _Refusal(413, f"the body has more than {LARGEST_BODY} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return _Refusal(400, "the body is shorter than its Content-Length")
        headers = tuple(self.headers.items())
        return Request(self.command, self.path, self.request_version, headers, body, self.connection)

    def _send(self, response: Response) -> None:
        self.send_response_only(response.status)
        names = {name.lower() for name, _ in response.headers}
        if "date" not in names:
            self.send_header("Date", self.date_time_string())
        for name, value in response.headers:
            if name.lower() not in {"content-length", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: who answers says what is worth saying."""

    def handle(self) -> None:
        """Serve until the client or the server ends the connection; both may do so at any time."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError, ValueError):
            self.close_connection = True

    def finish(self) -> None:
        """Close the connection's files; what could not be sent any more is no news."""
        for file in (self.wfile, self.rfile):
            with suppress(OSError, ValueError):
                file.close()


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, answer: Answer, report: Callable[[Exception], None]) -> None:
        self.answer = answer
        self.report = report
        self.open: set[socket.socket] = set()
        self.guard = threading.Condition()
        super().__init__((HOST, port), _Connection)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Remember the connection, so that closing the server ends it."""
        assert isinstance(request, socket.socket)
        with self.guard:
            self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Close a connection, then forget it."""
        assert isinstance(request, socket.socket)
        super().shutdown_request(request)
        with self.guard:
            self.open.discard(request)
            self.guard.notify_all()

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing to say: a broken connection is the client's affair."""

    def close_connections(self) -> None:
        """End every open connection, and wait until those who serve them have noticed."""
        with self.guard:
            for connection in self.open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.guard.wait_for(lambda: not self.open, _PATIENCE_SECONDS)


def _silent(error: Exception) -> None:
    del error


@dataclass(slots=True)
class LoopbackServer:
    """Listens from its making on; serves from `start` to `close`."""

    answer: Answer
    port: int = 0
    report: Callable[[Exception], None] = _silent
    """Told of errors that `answer` did not handle."""
    _server: _Server = field(init=False)
    _thread: threading.Thread | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        try:
            self._server = _Server(self.port, self.answer, self.report)
        except OSError as error:
            raise PortTakenError(self.port) from error
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Begin to serve, in threads of its own."""
        server: BaseServer = self._server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), name=f"http-{self.port}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end every connection."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.close_connections()
        self._server.server_close()
