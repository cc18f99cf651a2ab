"""Judges at the end of a test session, whatever process they were made in, all calls that components made.

Only where the stack was synthesized in the same session, as in `make test`: then its roles are known.
"""

from typing import Any

import pytest

from support.policies import Allowed, Roles, refused
from support.privileges import SEEN, Call

_KEY = "privileges"


class SuitePrivileges:
    """The plugin; one in the process that the user started and one in each that pytest-xdist did."""

    def __init__(self) -> None:
        self._calls: set[Call] = set()
        self._allowed: set[Allowed] = set()
        self._arns: dict[str, str] = {}
        self._refused: list[Call] = []

    def know(self, roles: Roles) -> None:
        """Take the roles of a synthesized stack."""
        self._allowed, self._arns = set(roles.allowed), roles.arns

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what another process has seen."""
        given = getattr(node, "workeroutput", {}).get(_KEY)
        if given:
            self._calls |= {Call(*one) for one in given["calls"]}
            self._allowed |= {Allowed(*one) for one in given["allowed"]}
            self._arns |= given["arns"]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what this process has seen, or judge."""
        self._calls |= SEEN
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            calls, allowed = ([[str(part) for part in one] for one in some] for some in (self._calls, self._allowed))
            output[_KEY] = {"calls": calls, "allowed": allowed, "arns": self._arns}
        elif self._allowed:
            self._refused = refused(self._calls, self._allowed, self._arns)
            if self._refused:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say which calls would have been refused."""
        if self._refused:
            terminalreporter.section("calls that a component makes and its role does not allow", red=True)
            for call in self._refused:
                terminalreporter.line(f"{call.component}: {call.action} on {call.on} (infra/authority.py)")
