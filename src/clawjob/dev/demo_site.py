"""Runs the example site, a real HTTP server of this machine, for as long as the demo needs it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from clawjob.dev.demo_jobs import examples_folder


@contextmanager
def site_running() -> Iterator[str]:
    """Start the shop and give its URL; it ends with this block, and with this process however it ends."""
    command = [sys.executable, str(examples_folder() / "site.py"), "--seconds", "0.2", "--watch-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError("the example site did not start")
            yield url
        finally:
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
