"""The app that `cdk` runs: `python -m infra.app`. Stage and settings come from the context (`-c stage=prod`)."""

import sys

from aws_cdk import App

from infra.config import ConfigError, stage_config
from infra.stack import ClawjobStack


def main() -> None:
    """Synthesize one stage; what is wrong with its settings is said in a line each."""
    app = App()
    try:
        config = stage_config(app.node.get_all_context())
    except ConfigError as error:
        sys.exit(f"clawjob: {error}")
    ClawjobStack(app, config)
    app.synth()


if __name__ == "__main__":
    main()
