"""Entry point of a worker of the one-machine mode: the worker itself, ended when the process that started it is gone.

The parent holds the other end of this process's stdin and writes nothing. Its end, in whatever way it came, is the end
of the stream. The emulator went with it, so there is nobody to report to: the worker ends at once, and what watches
over its children ends them.
"""

import os
import signal
import threading


def _end_with_parent() -> None:
    while os.read(0, 1):
        continue
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run a worker with the settings of the environment."""
    from clawjob.runner.worker import run_worker
    from clawjob.settings import WorkerSettings

    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    run_worker(WorkerSettings.from_environment())


if __name__ == "__main__":
    main()
