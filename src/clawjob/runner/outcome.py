"""How one attempt ended: from what is known to its outcome (pure).

An exit code is never read as a signal (`exit 137` is code 137) and a signal never as a code.
"""

import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clawjob.domain.run import Outcome

MAX_DETAIL: Final = 300


class Cause(StrEnum):
    """Why the tree was told to end; not set when the child ended by itself."""

    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    LEASE_LOST = "lease_lost"
    OVER_MEMORY = "over_memory"
    WARDEN_LOST = "warden_lost"


_OUTCOMES: Final = {
    Cause.TIMED_OUT: Outcome.TIMED_OUT,
    Cause.CANCELLED: Outcome.CANCELLED,
    Cause.INTERRUPTED: Outcome.INTERRUPTED,
    Cause.LEASE_LOST: Outcome.LOST,
    Cause.OVER_MEMORY: Outcome.OUT_OF_MEMORY,
    Cause.WARDEN_LOST: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the job says about ends."""

    success_exit_codes: Collection[int] = (0,)
    empty_exit_codes: Collection[int] = ()
    min_items: int | None = None
    memory_bytes: int | None = None
    cpu_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known when no process of the run is left."""

    status: int | None = None
    """As the kernel tells it (wait status); None when the child's end was not seen."""
    cause: Cause | None = None
    why: str = ""
    """Words that belong to the cause."""
    items: int | None = None
    memory_peak_bytes: int = 0
    killed_for_memory: bool = False
    """Whether the kernel counted a kill for want of memory meanwhile."""
    left_behind: int = 0
    """Processes that were still there when the child had ended, and were ended."""
    stuck: int = 0
    """Processes that could not be ended."""
    result_problem: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome and its reasons."""

    outcome: Outcome
    exit_code: int | None
    signal: str | None
    detail: str


def judge(facts: Facts, rules: Rules) -> Verdict:
    """Decide the outcome of an attempt whose child was started."""
    exit_code = signal_name = None
    if facts.status is not None:
        code = os.waitstatus_to_exitcode(facts.status)
        exit_code, signal_name = (code, None) if code >= 0 else (None, name_signal(-code))
    if facts.cause is not None:
        outcome, detail = _OUTCOMES[facts.cause], facts.why
    elif signal_name is not None:
        outcome, detail = _signalled(signal_name, facts, rules)
    elif exit_code is None:
        outcome, detail = Outcome.FAILED, "the end of the child was not seen"
    else:
        outcome, detail = _exited(exit_code, facts, rules)
    return Verdict(outcome, exit_code, signal_name, _join(detail, facts))


def _exited(code: int, facts: Facts, rules: Rules) -> tuple[Outcome, str]:
    if code in rules.empty_exit_codes:
        return Outcome.EMPTY, f"exit code {code} says that there was nothing"
    if code not in rules.success_exit_codes:
        return Outcome.FAILED, f"exit code {code}{_memory_hint(facts, rules)}"
    if rules.min_items is not None and (facts.items or 0) < rules.min_items:
        said = "no items were reported" if facts.items is None else f"{facts.items} items"
        return Outcome.EMPTY, f"{said}, at least {rules.min_items} are expected"
    return Outcome.SUCCEEDED, ""


def _signalled(name: str, facts: Facts, rules: Rules) -> tuple[Outcome, str]:
    if name == "SIGKILL" and facts.killed_for_memory:
        return Outcome.OUT_OF_MEMORY, "killed by the kernel for want of memory"
    if name == "SIGKILL" and _memory_hint(facts, rules):
        return Outcome.OUT_OF_MEMORY, f"killed by SIGKILL{_memory_hint(facts, rules)}"
    if name == "SIGKILL":
        return Outcome.SIGNALLED, "killed by SIGKILL, which clawjob did not send; often this is want of memory"
    if name == "SIGXCPU" and rules.cpu_seconds is not None:
        return Outcome.SIGNALLED, f"killed by SIGXCPU: over {rules.cpu_seconds} s of processor time"
    return Outcome.SIGNALLED, f"killed by {name}"


def _memory_hint(facts: Facts, rules: Rules) -> str:
    if rules.memory_bytes is None or facts.memory_peak_bytes < rules.memory_bytes * 0.95:
        return ""
    return f"; its memory came to {_mebibytes(facts.memory_peak_bytes)}, the limit is {_mebibytes(rules.memory_bytes)}"


def _join(detail: str, facts: Facts) -> str:
    parts = [detail, facts.result_problem]
    if facts.stuck:
        parts.append(f"processes that could not be ended: {facts.stuck}")
    elif facts.left_behind:
        parts.append(f"processes left behind and ended: {facts.left_behind}")
    return "; ".join(part for part in parts if part)[:MAX_DETAIL]


def over_memory(held: int, limit: int) -> str:
    """Say that a tree was ended because of its memory."""
    return f"killed: its processes held {_mebibytes(held)} of memory, the limit is {_mebibytes(limit)}"


def name_signal(number: int) -> str:
    """Name a signal, such as SIGTERM; real-time ones by their distance."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else f"signal {number}"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
