"""A small stub of the two services that a deployment's hooks speak with, which moto lacks: CodeDeploy's answers to
hooks, and Lambda calling versions of a function. It speaks their real protocols on this machine."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3

from clawjob.aws.clients import Clients

Function = Callable[[Mapping[str, Any]], Any]
_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations\?Qualifier=([^&]+)")


@dataclass
class Deployment:
    """The scheduler function's versions, its alias, and what the hook told CodeDeploy."""

    versions: dict[int, Function] = field(default_factory=dict)
    live: int = 1
    calls: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    """Versions that were called, with what."""
    reports: list[Mapping[str, str]] = field(default_factory=list)
    refuses_reports: bool = False
    uri: str = ""

    @property
    def event(self) -> dict[str, str]:
        """What CodeDeploy gives a hook."""
        return {"DeploymentId": "d-ABCDEF123", "LifecycleEventHookExecutionId": "eyJlbmNyeXB0ZWREYXRhIjoi"}

    def clients(self) -> Clients:
        """Clients of both services; of no other one."""
        return Clients(boto3.session.Session(), self.uri)

    @property
    def status(self) -> str:
        """The only report, checked to be of our event."""
        (report,) = self.reports
        assert report["deploymentId"] == self.event["DeploymentId"]
        assert report["lifecycleEventHookExecutionId"] == self.event["LifecycleEventHookExecutionId"]
        return report["status"]

    def call(self, qualifier: str, event: Mapping[str, Any]) -> tuple[int, Any, bool]:
        """Call a version: its number, its answer, and whether it failed."""
        version = self.live if qualifier == "live" else int(qualifier)
        self.calls.append((version, event))
        try:
            return version, self.versions[version](event), False
        except Exception as error:
            return version, {"errorMessage": str(error), "errorType": type(error).__name__}, True


@contextmanager
def deployment_stub(function: str) -> Iterator[Deployment]:
    """Serve a deployment of a function until the block ends."""
    made = Deployment()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            target = self.headers.get("X-Amz-Target", "")
            if target == "CodeDeploy_20141006.PutLifecycleEventHookExecutionStatus":
                if made.refuses_reports:
                    self.give(400, {"__type": "InvalidLifecycleEventHookExecutionIdException"})
                    return
                made.reports.append(body)
                self.give(200, {"lifecycleEventHookExecutionId": body["lifecycleEventHookExecutionId"]})
                return
            found = _INVOKE.fullmatch(self.path)
            assert found, self.path
            assert found[1] == function
            version, answer, failed = made.call(found[2], body)
            more = {"X-Amz-Function-Error": "Unhandled"} if failed else {}
            self.give(200, answer, {"X-Amz-Executed-Version": str(version), **more})

        def give(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.uri = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
