"""Hooks around every AWS call of a client: a lock, a count, a stop."""

import threading
from collections.abc import Callable
from typing import Any

Hook = Callable[[str, dict[str, Any]], None]


def one_at_a_time(*clients: Any) -> None:
    """Let threads share these clients: moto runs one call at a time."""
    lock = threading.Lock()

    def around(name: str, parameters: dict[str, Any], call: Callable[..., Any]) -> Any:
        with lock:
            return call(name, parameters)

    for client in clients:
        wrap(client, around)


def wrap(client: Any, around: Callable[[str, dict[str, Any], Callable[..., Any]], Any]) -> Callable[[], None]:
    """Put a function around every call of a client; returns what takes it away again."""
    original = client._make_api_call

    def wrapped(name: str, parameters: dict[str, Any]) -> Any:
        return around(name, parameters, original)

    client._make_api_call = wrapped

    def unwrap() -> None:
        client._make_api_call = original

    return unwrap
