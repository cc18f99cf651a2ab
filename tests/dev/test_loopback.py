"""The server under the emulator and the API."""

import socket
import threading
from collections.abc import Iterator

import pytest

from clawjob.dev.loopback import HOST, LoopbackServer, PortTakenError, Request, Response


def echo(request: Request) -> Response:
    if request.target == "/fails":
        raise RuntimeError("told to fail")
    return Response(
        200, (("content-type", "text/plain"),), f"{request.method} {request.target} ".encode() + request.body
    )


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    made = LoopbackServer(echo)
    made.start()
    yield made
    made.close()


def test_one_connection_serves_many_requests_of_any_method(server: LoopbackServer) -> None:
    with socket.create_connection((HOST, server.port)) as client:
        file = client.makefile("rb")
        for method, body in (("GET", b""), ("PUT", b"abc"), ("BREW", b"tea")):
            head = f"{method} /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert file.readline() == b"HTTP/1.1 200 OK\r\n"
            length = 0
            while (line := file.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert file.read(length) == f"{method} /x ".encode() + body
        file.close()


def test_a_request_that_names_another_host_is_refused(server: LoopbackServer, ask) -> None:
    status, _, body = ask(server.url, "GET", "/", [("Host", "evil.example:80")])
    assert (status, body) == (403, b'{"message": "this server answers to 127.0.0.1 only"}')


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Content-Length", "-1")], 400),
        ([("Content-Length", "x")], 400),
        ([("Content-Length", str(11 * 1024 * 1024))], 413),
        ([("Transfer-Encoding", "chunked")], 411),
    ],
)
def test_a_body_of_unknown_or_too_great_length_is_refused(server: LoopbackServer, ask, headers, status) -> None:
    assert ask(server.url, "POST", "/", headers)[0] == status


def test_an_answer_that_fails_is_told_and_the_server_goes_on(ask) -> None:
    told: list[Exception] = []
    server = LoopbackServer(echo, report=told.append)
    server.start()
    try:
        assert ask(server.url, "GET", "/fails")[0] == 500
        assert ask(server.url, "GET", "/x")[0] == 200
    finally:
        server.close()
    assert [str(error) for error in told] == ["told to fail"]


def test_a_taken_port_is_said_plainly(server: LoopbackServer) -> None:
    with pytest.raises(PortTakenError, match=f"port {server.port} of 127.0.0.1 is taken"):
        LoopbackServer(echo, server.port)


def test_closing_ends_open_connections_and_gives_the_port_back(server: LoopbackServer) -> None:
    with socket.create_connection((HOST, server.port)) as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        server.close()
        while client.recv(4096):
            pass
    LoopbackServer(echo, server.port).close()


def test_it_listens_on_this_machine_only(server: LoopbackServer) -> None:
    assert server._server.server_address[0] == "127.0.0.1"
    assert threading.active_count() < 50
