"""`python -m chiplog.commands.relay ORDERS`: the process beside the training; started by `init`, not by people."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from chiplog.commands import apart
from chiplog.sinks.registry import QUIET
from chiplog.sinks.relay import serve

if __name__ == "__main__":
    os.umask(0o077)  # what the packages of services put into the run's directory is private too
    os.environ.update({**QUIET, **os.environ})
    apart.begin()
    serve(Path(sys.argv[1]), dict(os.environ))
    apart.end(0)
