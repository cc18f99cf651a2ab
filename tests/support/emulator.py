"""The AWS emulator ministack in a process group of its own, on 127.0.0.1 over TLS, with roles enforced.

Every call is signed and judged by the policies of who makes it. What goes wrong is told with whose fault it is.
"""

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import boto3
import httpx
from botocore.config import Config

from support.certificate import make_certificate

ACCOUNT: Final = "000000000000"
REGION: Final = "eu-west-1"
PYTHON: Final = Path(sys.prefix) / "lib" / "emulator" / "bin" / "python"
_START_SECONDS: Final = 60
_TAIL_LINES: Final = 40
_TAIL_WIDTH: Final = 1200
_API_HOST: Final = "execute-api"
_REQUEST: Final = "%(s)s %({host}i)s %({x-amz-target}i)s %(r)s"


class EmulatorError(Exception):
    """The emulator, not what is tested, went wrong; the text ends with its last lines."""


class Emulator:
    """One emulator; it keeps nothing beyond its folder and ends with `close`."""

    def __init__(self, folder: Path, program: Sequence[str | Path] | None = None) -> None:
        """Start it; `wait` tells when it answers.

        Args:
            folder: for its certificate, logs and temporary files.
            program: to start in its place.
        """
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self.certificate, key = make_certificate(folder, f"*.{_API_HOST}.localhost")
        self.port = _free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.log = folder / "ministack.log"
        self.requests = folder / "requests.log"
        """A line for each request: status, host, service and operation, method, path."""
        self.requests.touch()
        settings = {
            "AUTH": "true",
            "USE_SSL": "1",
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "MINISTACK_SSL_CERT": str(self.certificate),
            "MINISTACK_SSL_KEY": str(key),
        }
        # Its own way of starting would take port 443 too.
        serve: list[str | Path] = [PYTHON, "-m", "hypercorn", "ministack.app:app", "--bind", f"127.0.0.1:{self.port}"]
        serve += ["--certfile", self.certificate, "--keyfile", key, "--keep-alive", "75"]
        serve += [
            "--access-logfile",
            self.requests,
            "--access-logformat",
            "%(s)s %({host}i)s %({x-amz-target}i)s %(r)s",
        ]
        environment = self.environment(**settings)
        # Where its functions find it, it tells them itself.
        del environment["AWS_ENDPOINT_URL"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                program or serve,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it answers.

        Raises:
            EmulatorError: it ended, or does not answer in time.
        """
        ends_at = time.monotonic() + _START_SECONDS
        with self.browser() as browser:
            while True:
                if self._process.poll() is not None or time.monotonic() > ends_at:
                    raise EmulatorError(f"ministack does not start.\n{self.account()}")
                try:
                    if browser.get(f"{self.url}/_ministack/health").is_success:
                        return
                except httpx.HTTPError:
                    time.sleep(0.05)

    def close(self) -> None:
        """End it and the functions that it runs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def environment(self, **more: str) -> dict[str, str]:
        """Variables with which a program finds it in place of AWS, and only it."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLAWJOB_", "PYTEST_"))
        }
        return {
            **kept,
            "TMPDIR": str(self._temporary),
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_CA_BUNDLE": str(self.certificate),
            "NODE_EXTRA_CA_CERTS": str(self.certificate),
            **more,
        }

    def client(self, service: str) -> Any:
        """A client with the rights of the account's root."""
        return self._session.client(
            service,
            endpoint_url=self.url,
            verify=str(self.certificate),
            config=Config(read_timeout=60, retries={"total_max_attempts": 1}),
        )

    def browser(self) -> httpx.Client:
        """A client for plain requests."""
        trusted = ssl.create_default_context(cafile=self.certificate)
        return httpx.Client(verify=trusted, trust_env=False, timeout=30)

    def account(self) -> str:
        """Say whose fault something is, as far as it can be seen, and give the last lines of the log."""
        tail = self.log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        return "\n".join(
            [self._verdict(), f"The last lines of {self.log.name}:", *(f"    {line[:_TAIL_WIDTH]}" for line in tail)]
        )

    def _verdict(self) -> str:
        code = self._process.poll()
        if code is not None:
            return f"It is the emulator: ministack ended with exit code {code}."
        errors = failed_calls(self.requests.read_text("utf-8", "replace"))
        if errors:
            shown = "\n".join(f"    {line}" for line in errors[-5:])
            return f"It may be the emulator: ministack answered {len(errors)} calls with an error of its own:\n{shown}"
        return "ministack lives, and answered no call with an error of its own: look at the stack, or at the test."

    @cached_property
    def _session(self) -> boto3.session.Session:
        return boto3.session.Session("test", "test", region_name=REGION)


def failed_calls(requests: str) -> list[str]:
    """Give the requests that the emulator itself answered with 5xx; those that the deployed API answered are none."""
    return [line for line in requests.splitlines() if re.search(r"\] 5\d\d ", line) and _API_HOST not in line]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
