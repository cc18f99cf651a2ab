"""The connection to the API: whom it trusts."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from clawjob.cli.address import Address
from clawjob.cli.failures import Unreachable
from clawjob.cli.service import Service
from support.certificate import make_certificate


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "14")
        self.end_headers()
        self.wfile.write(b'{"role": "me"}')

    def log_message(self, *_: object) -> None:
        pass


class Server(HTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust us goes away in the middle."""


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return make_certificate(tmp_path)


@pytest.fixture
def address(certificate: tuple[Path, Path]) -> Iterator[Address]:
    """Of an API on this machine behind a certificate that nobody knows."""
    server = Server(("127.0.0.1", 0), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield Address(f"https://127.0.0.1:{server.server_port}/api/v1", "cj_x_y", "test")
    server.shutdown()
    thread.join()
    server.server_close()


def test_on_this_machine_too_the_environment_says_whose_certificates_are_trusted(
    address: Address, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    service = Service(address)
    assert service.ask("GET", "/whoami") == {"role": "me"}
    service.close()


def test_a_certificate_that_nobody_knows_is_not_trusted(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    service = Service(address)
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        service.ask("GET", "/whoami")
    service.close()
