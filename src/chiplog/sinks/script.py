"""What a project is called at a service when the service was given no name: by its variables, or after the script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chiplog.core.identity import Identity
from chiplog.core.settings import Settings
from chiplog.store import manifest

PROJECT_VARIABLES = ("WB_PROJECT", "WANDB_PROJECT", "WB_PROJECT_NAME")
UNNAMED = Settings().project  # of a run that was given none


def project(identity: Identity, environ: Mapping[str, str]) -> str:
    """From the variables people have for W&B, then the run's own if it was given one, then the script's name."""
    for variable in PROJECT_VARIABLES:
        if environ.get(variable):
            return environ[variable]
    if identity.project != UNNAMED:
        return identity.project
    return script_name(manifest.load(identity.dir).environment.get("script", "")) or identity.project


def script_name(path: str) -> str:
    """`{parent}.{stem}` of a script; empty where there is none (`python -c`, a prompt)."""
    script = Path(path)
    return f"{script.parent.name}.{script.stem}" if script.suffix and script.parent.name else ""
