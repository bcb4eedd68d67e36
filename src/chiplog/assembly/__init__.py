"""The composition root: `init` turns settings into a journal, stages, rules, sinks and probes, and returns a `Run`.

What every run needs is imported with the package, so that `init` is fast; what only some runs need is imported on
demand, so that `import chiplog` is fast (docs/decisions/0003-imports.md).
"""

from chiplog.assembly.api import attach, beside, current, finish, init, log, runs_dir
from chiplog.assembly.run_choice import make

__all__ = ["attach", "beside", "current", "finish", "init", "log", "make", "runs_dir"]
