"""`chiplog run --as tensorboard`: Python imports this when it starts, because its folder leads the PYTHONPATH.

The writers of torch and tensorboardX then come from chiplog. A `sitecustomize` of the environment runs, too.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

try:
    from chiplog.compat.tensorboard.import_hook import install
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "chiplog":
        raise
    sys.stderr.write("chiplog run --as tensorboard: this Python has no chiplog; pip install chiplog\n")
else:
    install()

_own = Path(__file__).parent
_next = PathFinder.find_spec("sitecustomize", [one for one in sys.path if Path(one or ".") != _own])
if _next is not None and _next.loader is not None:
    _next.loader.exec_module(module_from_spec(_next))
