"""Hangs for ever, together with a process of its own that ignores the order to end.

    python stuck.py /path/to/pids

Both process ids are written into the file named on its command line, so that one can see that both are gone.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(3600)
"""

child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
print(f"waiting for a page that never comes; my child is process {child.pid}", flush=True)
time.sleep(3600)
