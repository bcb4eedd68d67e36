"""What a run's project is called at a service that was given no name: by variables, by its own, or after the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.identity import Identity
from chiplog.core.settings import Settings

PROJECT_VARIABLES = ("WB_PROJECT", "WANDB_PROJECT", "WB_PROJECT_NAME")
UNNAMED = Settings().project  # of a run that was given none


def project(identity: Identity, environ: Mapping[str, str], variables: Sequence[str] = PROJECT_VARIABLES) -> str:
    """From the first variable that is set, then the run's own project if it was given one, then the script's name."""
    named = (environ[variable] for variable in variables if environ.get(variable))
    own = identity.project if identity.project != UNNAMED else ""
    return next(named, "") or own or script_name(identity.script) or identity.project


def script_name(path: str) -> str:
    """`{parent}.{stem}` of a script; empty where there is none (`python -c`, a prompt)."""
    script = Path(path)
    return f"{script.parent.name}.{script.stem}" if script.suffix and script.parent.name else ""
