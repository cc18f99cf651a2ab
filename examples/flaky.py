"""Fails twice with exit code 2, then succeeds; how often it was started stands in the file named on its command line.

python flaky.py /path/to/counter
"""

import sys
from pathlib import Path

counter = Path(sys.argv[1])
start = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(start))
if start <= 2:
    print(f"start {start}: the site refused the connection", file=sys.stderr)
    sys.exit(2)
print(f"start {start}: all is well")
