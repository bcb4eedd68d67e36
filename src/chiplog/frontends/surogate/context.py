"""`training_logger_context`: a logger from a config, with the backends of its `report_to`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chiplog.frontends.surogate.config import load
from chiplog.frontends.surogate.console import LogVerbosity
from chiplog.frontends.surogate.logger import TrainingRunLogger

TITLE = "Surogate"  # the default project at W&B and experiment in Aim
LOG_FILE = "training.json"
OUTPUT = "./output"
NOT_OPTIONS = ("model_info", "model", "tokenizer")
# The options of a backend, with their names in the config.
BACKENDS: dict[str, dict[str, str]] = {
    "wandb": {"project": "wandb_project", "name": "wandb_name"},
    "aim": {"experiment": "aim_experiment", "repo": "aim_repo", "name": "aim_name"},
}
_TITLES = {"wandb": {"project": TITLE}, "aim": {"experiment": TITLE}}


@contextmanager
def training_logger_context(
    config: Any, extra_config: Mapping[str, Any] | None = None, **more: Any
) -> Iterator[TrainingRunLogger]:
    """A `TrainingRunLogger` from a config: a YAML file, a mapping, or an object with attributes.

    `report_to` is one backend or a list: `wandb`, `aim`, or any other sink. The command line and all options are logged
    at the start; a value that is not plain is logged as text. With `resume_from_checkpoint` (or `resume=True`) the last
    run of the log file continues; otherwise a new one starts.
    """
    settings = load(config)
    sinks = backends(settings)
    logger = TrainingRunLogger(
        log_file(settings),
        more.pop("callback", None),
        int(more.pop("verbosity", settings.get("verbosity") or LogVerbosity.DEFAULT)),
        sinks=sinks,
        name=run_name(settings, sinks),
        resume=more.pop("resume", bool(settings.get("resume_from_checkpoint"))),
        **more,
    )
    with logger:
        logger.log_cmd(sys.argv)
        logger.log_options(options({**settings, **(extra_config or {})}))
        yield logger


def log_file(settings: Mapping[str, Any]) -> Path:
    """`log_file`, or `training.json` in the output directory."""
    return Path(settings.get("log_file") or Path(settings.get("output_dir") or OUTPUT) / LOG_FILE)


def backends(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sinks of `report_to`, with their options."""
    wanted = settings.get("report_to") or []
    names = [part.strip() for part in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
    sinks: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in ("", "none"):
            continue
        chosen = {option: settings.get(key) for option, key in BACKENDS.get(name, {}).items()}
        defaults = {**_TITLES.get(name, {}), "name": settings.get("run_name") or None}
        merged = {option: defaults.get(option) if value is None else value for option, value in chosen.items()}
        sinks[name] = {option: value for option, value in merged.items() if value is not None}
    return sinks


def run_name(settings: Mapping[str, Any], sinks: Mapping[str, Mapping[str, Any]]) -> str | None:
    """`run_name`, or the name that the first backend has for the run."""
    names = (settings.get("run_name"), *(options.get("name") for options in sinks.values()))
    return next((str(name) for name in names if name not in (None, "")), None)


def options(settings: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    """A config as options: without models and tokenizers, None as an empty text, and other objects as text."""
    return {
        str(name): "" if value is None else value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in settings.items()
        if name not in NOT_OPTIONS
    }
