"""A small stub of the container agent's endpoint, by which a task asks for its protection."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

GRANTED = (200, '{"protection": {"ProtectionEnabled": true}}')


@dataclass
class Agent:
    """What it answers, and what it was asked."""

    uri: str = ""
    answer: tuple[int, str] = GRANTED
    asked: list[tuple[str, object]] = field(default_factory=list)
    heard: SimpleQueue[object] = field(default_factory=SimpleQueue)

    def bodies(self) -> list[object]:
        """What was asked, without where."""
        return [body for _, body in self.asked]


@contextmanager
def serving() -> Iterator[Agent]:
    """Serve it on this machine."""
    made = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.asked.append((self.path, body))
            status, text = made.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())
            made.heard.put(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.uri = f"http://127.0.0.1:{server.server_port}/api/task-1"
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
