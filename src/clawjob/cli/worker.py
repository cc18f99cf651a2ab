"""`clawjob worker`: takes runs from its pool's queue and executes them, until it is told to stop."""

import click

from clawjob.cli.failures import WrongUse


@click.command("worker")
def worker_command() -> None:
    """Execute runs of one pool, until TERM or Ctrl-C.

    Its settings are environment variables: CLAWJOB_TABLE, CLAWJOB_RUN_QUEUES,
    CLAWJOB_RESULTS_QUEUE, CLAWJOB_SLOTS and others.
    """
    from clawjob.domain.errors import InvalidInputError
    from clawjob.runner.worker import run_worker
    from clawjob.settings import WorkerSettings

    try:
        settings = WorkerSettings.from_environment()
    except InvalidInputError as error:
        raise WrongUse("The worker's settings cannot be used.", error.problems) from error
    run_worker(settings)
