"""A group of commands that loads each command only when it is used, and knows what a wrong name was meant to be."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command that is not loaded yet."""

    place: str
    """Such as `clawjob.cli.job:job_group`."""
    help: str
    """One line for the list of commands."""

    def load(self) -> click.Command:
        """Load it."""
        module, _, name = self.place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


class LazyGroup(click.Group):
    """Lists commands without loading them."""

    def __init__(self, *arguments: Any, lazy: Mapping[str, Lazy] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = dict(lazy or {})

    def list_commands(self, context: click.Context) -> list[str]:
        """Name all commands, in the order in which they were given."""
        return [*self._lazy, *super().list_commands(context)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Load a command."""
        lazy = self._lazy.get(name)
        return lazy.load() if lazy else super().get_command(context, name)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was asked for, or say which one was meant."""
        name = arguments[0]
        known = self.list_commands(context)
        if not context.resilient_parsing and name not in known and not name.startswith("-"):
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known)}."
            context.fail(f"There is no command {name[:60]!r}. {hint}")
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        """Run the command; a reader that goes away, as `| head` does, is no error."""
        try:
            result = super().invoke(context)
            sys.stdout.flush()
        except BrokenPipeError:
            # Or the interpreter would try to write the rest when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        return result

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from what is known without loading them."""
        rows = [(name, lazy.help) for name, lazy in self._lazy.items()]
        rows += [
            (name, command.get_short_help_str(100))
            for name in super().list_commands(context)
            if (command := super(LazyGroup, self).get_command(context, name)) is not None
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
