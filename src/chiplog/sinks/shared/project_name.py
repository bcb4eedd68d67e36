"""The default name of a project at a service: from variables, the run, or the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.identity import Identity
from chiplog.core.settings import Settings

PROJECT_VARIABLES = ("WB_PROJECT", "WANDB_PROJECT", "WB_PROJECT_NAME")
UNNAMED = Settings().project  # of a run without a project


def project(identity: Identity, environ: Mapping[str, str], variables: Sequence[str] = PROJECT_VARIABLES) -> str:
    """The first variable that is set, or the run's own project if it has one, or the script's name."""
    named = (environ[variable] for variable in variables if environ.get(variable))
    own = identity.project if identity.project != UNNAMED else ""
    return next(named, "") or own or script_name(identity.script) or identity.project


def script_name(path: str) -> str:
    """`{parent}.{stem}` of a script; empty if there is none (`python -c`, a prompt)."""
    script = Path(path)
    return f"{script.parent.name}.{script.stem}" if script.suffix and script.parent.name else ""
