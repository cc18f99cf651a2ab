"""How commands fail: an exit code that scripts can rely on, and on stderr what is wrong, where, and what to do."""

from collections.abc import Sequence
from typing import IO, Any, Final

import click

from clawjob.domain.errors import Problem
from clawjob.runner.printable import printable_line

RUN_FAILED: Final = 1
INTERRUPTED: Final = 130


class Failure(click.ClickException):
    """Ends a command. Each kind has its exit code."""

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(printable_line(message))
        self.problems = tuple(problems)

    def show(self, file: IO[Any] | None = None) -> None:
        """Write it to stderr, one line for each problem."""
        click.echo(f"Error: {self.message}", file=file, err=file is None)
        for problem in self.problems:
            click.echo(f"  {printable_line(str(problem))}", file=file, err=file is None)


class WrongUse(Failure):
    """The command was called with something that cannot be used."""

    exit_code = 2


class NotFound(Failure):
    """There is no such job or run."""

    exit_code = 3


class Refused(Failure):
    """The service does not do it."""

    exit_code = 4


class Overtaken(Refused):
    """Somebody else made or changed the job between two requests."""


class Unreachable(Failure):
    """Nobody answers, or not now."""

    exit_code = 5
