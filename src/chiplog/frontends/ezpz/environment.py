"""The variables of the environment that ezpz reads, and what their absence means."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.sinks.shared.project_name import PROJECT_VARIABLES

EXPERIMENT_VARIABLES = ("MLFLOW_EXPERIMENT_NAME", *PROJECT_VARIABLES)


def default_project(environ: Mapping[str, str], variables: Sequence[str] = PROJECT_VARIABLES) -> str:
    """The first variable that is set, else `ezpz.{parent}.{stem}` of the script, else `ezpz`."""
    if project := next((environ[name] for name in variables if environ.get(name)), None):
        return project
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return "ezpz"
    script = Path(os.path.abspath(file))  # noqa: PTH100  without "..", and links keep their names
    return f"ezpz.{script.parent.name}.{script.stem}"


def is_on(value: str | None) -> bool:
    """Whether a variable switches something on; "0" and the like do not."""
    return (value or "").strip().lower() not in ("", "0", "false", "no", "off")


def wandb_is_off(environ: Mapping[str, str]) -> bool:
    return environ.get("WANDB_MODE") == "disabled" or is_on(environ.get("WANDB_DISABLED"))
