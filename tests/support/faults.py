"""Trouble at one chosen AWS call: a process that dies, a call that is refused, an answer that is lost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from support.calls import wrap

READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "GetQueueAttributes"})
"""Calls that leave nothing behind."""
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"})

Call = Callable[..., Any]


class Crash(BaseException):
    """The process ends here. No `except Exception` of the code under test can hold it up."""


class Fault(StrEnum):
    """What happens at the chosen call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    THROTTLED = "throttled"
    """The call is refused, also after all of the client's own repetitions."""
    REPEATED = "answer lost, repeated"
    """The call is made, its answer is lost, and the client makes it again."""
    UNANSWERED = "answer lost"
    """The call is made, and no answer ever comes."""
    HALF = "half applied"
    """A batch of messages is taken in part, a batch of reads answered in part; other calls are throttled."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made."""

    number: int
    actor: str
    name: str


@dataclass
class Trouble:
    """Counts the calls of some clients and makes trouble at one of them."""

    fault: Fault | None = None
    at: int = 0
    """The number of the call, from 1."""
    actor: str = ""
    """Who makes the calls now."""
    calls: list[Made] = field(default_factory=list)
    happened: bool = False
    paused: bool = False
    """While a test itself calls."""
    before: list[Callable[[str, dict[str, Any]], None]] = field(default_factory=list)
    """Hooks ahead of every call; what they raise takes the call's place."""
    instead: list[Callable[[str, dict[str, Any], Call], Any]] = field(default_factory=list)
    """Hooks around every call, the last one outermost."""
    after: list[Callable[[str, dict[str, Any]], None]] = field(default_factory=list)
    """Hooks after every call that was made."""

    def watch(self, *clients: Any) -> None:
        """Count the calls of these clients."""
        for client in clients:
            wrap(client, self._around)

    def reset(self, fault: Fault | None = None, at: int = 0) -> None:
        """Forget all calls and choose the next trouble."""
        self.fault, self.at, self.happened, self.paused = fault, at, False, False
        self.calls = []

    def _around(self, name: str, parameters: dict[str, Any], call: Call) -> Any:
        if self.paused:
            return call(name, parameters)
        for check in self.before:
            check(name, parameters)
        self.calls.append(Made(len(self.calls) + 1, self.actor, name))
        make: Call = lambda: self._made(name, parameters, call)  # noqa: E731  # wrapped below, once for each hook
        for hook in self.instead:
            make = _bound(hook, name, parameters, make)
        if self.fault is None or len(self.calls) != self.at:
            return make()
        self.happened = True
        return self._trouble(name, parameters, make)

    def _made(self, name: str, parameters: dict[str, Any], call: Call) -> Any:
        try:
            return call(name, parameters)
        finally:
            for hook in self.after:
                hook(name, parameters)

    def _trouble(self, name: str, parameters: dict[str, Any], make: Call) -> Any:
        match self.fault:
            case Fault.CRASH_BEFORE:
                raise Crash
            case Fault.CRASH_AFTER:
                make()
                raise Crash
            case Fault.REPEATED:
                make()
                return make()
            case Fault.UNANSWERED:
                make()
                raise ReadTimeoutError(endpoint_url="https://nobody.answers")
            case Fault.HALF if name == "SendMessageBatch":
                return _half_sent(parameters, make)
            case Fault.HALF if name == "BatchGetItem":
                return _half_read(parameters, make)
        raise refused(name)


def refused(name: str, code: str = "ThrottlingException") -> ClientError:
    """The error of a call that AWS refuses."""
    return ClientError({"Error": {"Code": code, "Message": "made by a test"}}, name)


def _bound(hook: Callable[[str, dict[str, Any], Call], Any], name: str, parameters: dict[str, Any], make: Call) -> Call:
    return lambda: hook(name, parameters, make)


def _half_sent(parameters: dict[str, Any], make: Call) -> Any:
    entries = parameters["Entries"]
    kept = entries[: len(entries) // 2]
    failed = [{"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in entries[len(kept) :]]
    if not kept:
        return {"Successful": [], "Failed": failed}
    parameters["Entries"] = kept
    return {**make(), "Failed": failed}


def _half_read(parameters: dict[str, Any], make: Call) -> Any:
    ((table, request),) = parameters["RequestItems"].items()
    keys = request["Keys"]
    half = len(keys) // 2
    left = {table: {**request, "Keys": keys[half:]}}
    if not half:
        return {"Responses": {table: []}, "UnprocessedKeys": left}
    parameters["RequestItems"] = {table: {**request, "Keys": keys[:half]}}
    return {**make(), "UnprocessedKeys": left}
