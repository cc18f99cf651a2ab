"""The program `clawjob`. Commands are loaded when they are used; the help loads none."""

import sys

import click

from clawjob.cli.failures import INTERRUPTED
from clawjob.cli.lazy import Lazy, LazyGroup

_COMMANDS = {
    "job": Lazy("clawjob.cli.job:job_group", "Create, change, look at and trigger jobs."),
    "run": Lazy("clawjob.cli.run:run_group", "Look at runs, read their output, wait for them, cancel them."),
    "why": Lazy("clawjob.cli.why:why_command", "Say in plain words why a job does or does not run."),
    "next": Lazy("clawjob.cli.next:next_command", "Show when a cron expression fires."),
    "dev": Lazy("clawjob.dev.main:dev_command", "Run the whole service on this machine, until Ctrl-C."),
    "demo": Lazy("clawjob.dev.demo:demo_command", "Show real crawl jobs on this machine from start to end."),
    "login": Lazy("clawjob.cli.login:login_command", "Keep the address of a service and a token for it."),
    "logout": Lazy("clawjob.cli.login:logout_command", "Forget the address and the token of a profile."),
    "whoami": Lazy("clawjob.cli.login:whoami_command", "Show which service commands speak to, and as whom."),
    "token": Lazy("clawjob.cli.token:token_group", "Make, list and revoke access tokens."),
    "dlq": Lazy("clawjob.cli.dlq:dlq_group", "Look at dead letters, send them back, drop them."),
    "worker": Lazy("clawjob.cli.worker:worker_command", "Execute runs of one pool, until TERM or Ctrl-C."),
}


def _print_version(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"clawjob {version('clawjob')}")
        context.exit()


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show it.")
@click.option("--profile", help="Speak to the service of this profile, which `clawjob login` made.")
def cli(profile: str | None) -> None:
    """Schedule and run crawl jobs.

    Commands speak to the service of --profile; else to CLAWJOB_URL with CLAWJOB_TOKEN, to
    that of CLAWJOB_PROFILE, to the `clawjob dev` that runs in this folder or one above, or
    to the one of `clawjob login`.
    """


def main() -> None:
    """Run the program and end with its exit code."""
    try:
        code = cli.main(prog_name="clawjob", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)
