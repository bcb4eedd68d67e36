"""What a project is called where nobody says: by a variable, or after the script."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECTS = ("WB_PROJECT", "WANDB_PROJECT", "WB_PROJECT_NAME")
EXPERIMENTS = ("MLFLOW_EXPERIMENT_NAME", *PROJECTS)


def default_project(environ: Mapping[str, str], variables: Sequence[str] = PROJECTS) -> str:
    """The first variable that is set, or `ezpz.{parent}.{stem}` of the script; `ezpz` where there is none."""
    if named := next((environ[name] for name in variables if environ.get(name)), None):
        return named
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return "ezpz"
    script = Path(file).absolute()
    return f"ezpz.{script.parent.name}.{script.stem}"
