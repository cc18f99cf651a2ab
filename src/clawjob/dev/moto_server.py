"""The emulator of AWS: moto's own application behind one lock, because it is not safe when two threads use it.

A long poll never waits inside of the lock. It becomes short ones, made when a message was sent or becomes visible, and
ends when its client goes away, so that no message is handed to nobody.
"""

import importlib
import io
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

from clawjob.dev.clock import REAL_CLOCK
from clawjob.dev.loopback import HOST, ClientGoneError, LoopbackServer, Request, Response
from clawjob.settings import ClockSetting

ACCOUNT: Final = "123456789012"
REGION: Final = "eu-central-1"
SERVICES: Final = frozenset({"dynamodb", "sqs", "logs"})
INSTALL_LINE: Final = 'python -m pip install "clawjob[dev]"'

_WAKING: Final = frozenset(
    {
        "SendMessage",
        "SendMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "StartMessageMoveTask",
    }
)
_READING: Final = ("Get", "BatchGet", "Query", "Scan", "Describe", "List", "Filter")
_LONGEST_WAIT: Final = 20
_AFTER: Final = 0.002
"""moto calls a message visible when its instant is over, not when it is reached."""


class MotoMissingError(Exception):
    """The packages of the `dev` extra are not installed."""

    def __init__(self, missing: str | None) -> None:
        self.missing = missing
        super().__init__(
            f"the one-machine mode needs the emulator moto, which is not installed here (no module named {missing!r}); "
            f"install it with:  {INSTALL_LINE}"
        )


def with_emulator(environment: Mapping[str, str], endpoint_url: str) -> dict[str, str]:
    """Give a process's environment with every AWS client of it sent to the emulator, whatever the user has set."""
    kept = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "dev",
        "AWS_SECRET_ACCESS_KEY": "dev",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": HOST,
        "no_proxy": HOST,
    }


@dataclass(slots=True, eq=False)
class _Waiter:
    """Wakes one long poll."""

    queue: str
    read: socket.socket = field(init=False)
    write: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.read, self.write = socket.socketpair()
        self.read.setblocking(False)
        self.write.setblocking(False)

    def wake(self) -> None:
        try:
            self.write.send(b"!")
        except BlockingIOError:
            return  # it is awake already

    def wait(self, client: socket.socket, seconds: float) -> None:
        """Wait for a wake-up or the end of the time.

        Raises:
            ClientGoneError: nobody waits for the answer any more.
        """
        ready, _, _ = select.select([self.read, client], [], [], max(0.0, seconds))
        if client in ready and not client.recv(1, socket.MSG_PEEK):
            raise ClientGoneError
        if self.read in ready:
            self.read.recv(4096)

    def close(self) -> None:
        self.read.close()
        self.write.close()


class MotoServer:
    """moto on a port of this machine. `lock` keeps everybody else out while it is held."""

    def __init__(self, clock: ClockSetting = REAL_CLOCK, report: Callable[[Exception], None] | None = None) -> None:
        """Load moto and listen; serve from `start` on.

        Raises:
            MotoMissingError: moto or its server's packages are not installed.
        """
        self.lock = threading.Lock()
        self.changes = 0
        """Rises with each call that may have changed something."""
        self._clock = clock
        self._applications = load_applications()
        self._waiters: set[_Waiter] = set()
        self._waiters_guard = threading.Lock()
        self._closing = threading.Event()
        self._server = LoopbackServer(self._answer, report=report or _ignore)

    @property
    def url(self) -> str:
        """The endpoint for AWS clients."""
        return self._server.url

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def end_polls(self) -> None:
        """Answer waiting polls at once, and every later one without a wait."""
        self._closing.set()
        self._wake(None)

    def close(self) -> None:
        """Stop serving; waiting polls end at once."""
        self.end_polls()
        self._server.close()

    def _answer(self, request: Request) -> Response:
        service = _service_of(request)
        _, _, action = request.header("x-amz-target").rpartition(".")
        if service not in SERVICES or not action or request.method != "POST":
            return _refusal(f"only signed calls of {', '.join(sorted(SERVICES))} are answered here")
        if service == "sqs" and action == "ReceiveMessage":
            return self._receive(service, request)
        response = self._call(service, request, request.body)
        if not action.startswith(_READING):
            self.changes += 1
        if service == "sqs" and action in _WAKING:
            self._wake(_queue_of(request.body))
        return response

    def _receive(self, service: str, request: Request) -> Response:
        asked = _object(request.body)
        queue = _queue_of(request.body)
        wait = asked.get("WaitTimeSeconds")
        if wait is None:
            wait = self._default_wait(queue)
        if not isinstance(wait, int) or not 0 <= wait <= _LONGEST_WAIT:
            return self._call(service, request, request.body)  # moto says what is wrong, without waiting
        short = json.dumps({**asked, "WaitTimeSeconds": 0}).encode()
        ends_at = time.monotonic() + wait
        with self._waiter(queue) as waiter:
            while True:
                response = self._call(service, request, short)
                if b'"Messages"' in response.body:
                    self.changes += 1
                    return response
                if response.status != 200:
                    return response
                left = ends_at - time.monotonic()
                if left <= 0 or self._closing.is_set():
                    return response
                waiter.wait(request.client, min(left, self._until_visible(queue)))

    def _call(self, service: str, request: Request, body: bytes) -> Response:
        with self.lock:
            return _run_wsgi(self._applications[service], _environ(request, body, self._server.port))

    def _default_wait(self, queue: str) -> int:
        with self.lock:
            found = backend_of("sqs").queues.get(queue)
            return int(found.receive_message_wait_time_seconds) if found is not None else 0

    def _until_visible(self, queue: str) -> float:
        """Seconds of the real clock until another message of the queue may be taken; infinite when there is none."""
        now = time.time() * 1000
        with self.lock:
            found = backend_of("sqs").queues.get(queue)
            instants = [
                instant
                for message in (found._messages if found is not None else ())  # noqa: SLF001 - moto shows only visible ones
                if (instant := max(message.visible_at, message.delayed_until)) >= now
            ]
        if not instants:
            return float("inf")
        return float(min(instants) - now) / 1000 / self._clock.speed + _AFTER

    @contextmanager
    def _waiter(self, queue: str) -> Iterator[_Waiter]:
        waiter = _Waiter(queue)
        with self._waiters_guard:
            self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            with self._waiters_guard:
                self._waiters.discard(waiter)
            waiter.close()

    def _wake(self, queue: str | None) -> None:
        with self._waiters_guard:
            for waiter in self._waiters:
                if queue is None or waiter.queue == queue:
                    waiter.wake()


def backend_of(service: str) -> Any:
    """Give moto's own store of a service; to be touched with the server's lock held only."""
    backends: Any = importlib.import_module("moto.backends")
    return backends.get_backend(service)[ACCOUNT][REGION]


@cache
def load_applications() -> Mapping[str, Callable[..., Any]]:
    """Load moto, which takes a second.

    Raises:
        MotoMissingError: moto or its server's packages are not installed.
    """
    os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"  # or any web page could read what the emulator holds
    os.environ["MOTO_ACCOUNT_ID"] = ACCOUNT
    try:
        moto: Any = importlib.import_module("moto.moto_server.werkzeug_app")
    except ModuleNotFoundError as error:
        raise MotoMissingError(error.name) from error
    return {service: moto.create_backend_app(service) for service in SERVICES}


def _environ(request: Request, body: bytes, port: int) -> dict[str, Any]:
    path, _, query = request.target.partition("?")
    environ: dict[str, Any] = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path, "latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": HOST,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": request.protocol,
        "REMOTE_ADDR": HOST,
    }
    for name, value in request.headers:
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_CONTENT_LENGTH", None)
    return environ


def _run_wsgi(application: Callable[..., Any], environ: dict[str, Any]) -> Response:
    begun: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        begun.append((status, headers))

    body = b"".join(application(environ, start_response))
    status, headers = begun[-1]
    return Response(int(status.split(" ", 1)[0]), tuple(headers), body)


def _service_of(request: Request) -> str:
    """Service that a call was signed for: `AWS4-HMAC-SHA256 Credential=key/date/region/service/aws4_request, ...`."""
    scope = request.header("authorization").partition("Credential=")[2].partition(",")[0].split("/")
    return scope[3] if len(scope) == 5 else ""


def _queue_of(body: bytes) -> str:
    url = _object(body).get("QueueUrl")
    return url.rpartition("/")[2] if isinstance(url, str) else ""


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _refusal(text: str) -> Response:
    body = json.dumps({"__type": "AccessDeniedException", "message": text}).encode()
    return Response(403, (("content-type", "application/x-amz-json-1.0"),), body)


def _ignore(error: Exception) -> None:
    del error
