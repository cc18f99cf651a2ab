"""Entry point of a worker of the one-machine mode: the worker itself, ended when the process that started it is gone.

The parent holds the other end of this process's stdin and writes nothing. Its end, in whatever way it came, is the end
of the stream, and that is taken as the order to drain.
"""

import os
import signal
import threading
import time

PATIENCE_SECONDS = 10.0
"""Between the order to drain and the end by force."""


def _end_with_parent() -> None:
    while os.read(0, 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run a worker with the settings of the environment."""
    from clawjob.runner.worker import run_worker
    from clawjob.settings import WorkerSettings

    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    run_worker(WorkerSettings.from_environment())


if __name__ == "__main__":
    main()
