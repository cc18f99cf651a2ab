"""`clawjob why`: why a job does or does not run."""

import click

from clawjob.cli.show import output_option, print_facts, print_json


@click.command("why")
@click.argument("job")
@output_option
def why_command(job: str, output: str) -> None:
    """Say in plain words why a JOB does or does not run."""
    from clawjob.cli.service import Service, segment

    found = Service.found().ask("GET", f"/jobs/{segment(job)}/why")
    if output == "json":
        print_json(found)
    else:
        print_facts((str(line["label"]).capitalize(), line["text"]) for line in found["lines"])
