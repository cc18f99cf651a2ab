"""The emulator in a process of its own: prints its address, then serves until it is ended."""

import threading

from clawjob.dev.moto_server import MotoServer


def main() -> None:
    """Serve."""
    server = MotoServer()
    server.start()
    print(server.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
