"""The options of a run at W&B, from those of the sink and from W&B's own variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chiplog.core.records import Plain
from chiplog.sinks.wandb.login import is_disabled

INIT = 60.0  # s for W&B to start the run
FINISH = 30.0  # s for the end of a run; everything has arrived by then
SEND = 2.0  # s between two requests with rows
RETRY = 5.0  # s: the SDK's own longest pause before it retries a request

# The relay is not the training process: its console, machine load, git and code are irrelevant to the run.
SETTINGS: dict[str, Plain] = {
    "silent": True,
    "console": "off",
    "disable_code": True,
    "save_code": False,
    "disable_git": True,
    "disable_job_creation": True,
    "label_disable": True,
    "symlink": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_file_stream_transmit_interval": SEND,
    "x_transaction_log_flush_interval": 0.2,
    "x_graphql_retry_wait_max_seconds": RETRY,
    "x_file_stream_retry_wait_max_seconds": RETRY,
    "init_timeout": INIT,
    "finish_timeout": FINISH,
    "finish_timeout_raises": True,
}


class RunOptions(NamedTuple):
    mode: str  # online, offline or disabled
    adopted: str | None  # the id of a run to continue, which may have rows from elsewhere
    resume: str  # must, never or allow
    project: str | None
    about: Mapping[str, Plain]  # other arguments of `wandb.init`
    settings: Mapping[str, Plain]
    config: Mapping[str, Plain]
    current: bool  # whether it becomes `wandb.run`
    by_step: bool = False  # whether W&B's own step is the training step
    dir: str | None = None  # where W&B keeps its own files; otherwise in the run


def default_settings(environ: Mapping[str, str]) -> dict[str, Plain]:
    """Our settings, except those that a variable sets."""
    variables = {f"WANDB_{key[1:] if key.startswith('x_') else key}".upper(): key for key in SETTINGS}
    return {key: SETTINGS[key] for variable, key in variables.items() if not environ.get(variable)}


def resume_policy(option: bool | str | None, environ: Mapping[str, str]) -> str:
    """must, never, or allow for everything else."""
    chosen = option if option is not None else environ.get("WANDB_RESUME")
    return str(chosen) if chosen in ("must", "never") else "allow"


def run_mode(option: str | None, environ: Mapping[str, str]) -> str:
    """online, offline or disabled."""
    if is_disabled(environ):
        return "disabled"
    chosen = option or environ.get("WANDB_MODE") or "online"
    return {"dryrun": "offline", "run": "online"}.get(chosen, chosen)
