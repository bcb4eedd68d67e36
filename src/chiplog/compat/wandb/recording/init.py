"""Starts a run as `wandb.init` does: which run, where, and under which names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import chiplog
from chiplog import assembly
from chiplog.compat.shared.quiet_sinks import quiet_sinks
from chiplog.compat.wandb import messages
from chiplog.compat.wandb.errors import UsageError
from chiplog.compat.wandb.recording import config as configs
from chiplog.compat.wandb.run import Run
from chiplog.compat.wandb.settings import Settings, words
from chiplog.core import run as engine
from chiplog.core import settings as chiplog_settings
from chiplog.core.errors import RunExists, RunNotFound
from chiplog.core.values import convert
from chiplog.probes import registry as probes
from chiplog.runtime.ranks import detect
from chiplog.store import layout

PROJECT = "uncategorized"  # W&B's default


def start(chosen: Settings, config: Mapping[str, object], ended: Callable[[Run], None]) -> Run:
    """Open a run for this process, whatever its rank; if none can be opened, one that keeps nothing."""
    chosen.update(mode="disabled" if chosen.mode == "disabled" else "offline")
    try:
        recorded = _open(chosen, config)
    except (RunExists, RunNotFound) as error:  # `resume` says so, as in W&B
        raise UsageError(str(error)) from None
    except Exception as error:
        messages.say(f"no run could be started, so nothing is kept: {error}")
        chosen.update(mode="disabled")
        recorded = assembly.beside(mode="disabled", sinks="none", project="default")
    before, summary = _before(recorded)
    run = Run(recorded, chosen, {**before, **config}, summary, ended)
    if not recorded.inert:
        _introduce(run, chosen)
    if step := _first_step(chosen):
        run.start_at(step)
    return run


def chosen_config(arguments: Mapping[str, Any]) -> dict[str, object]:
    """The config of the arguments of `init`, without what is excluded."""
    values = configs.parse(arguments.get("config"))
    include, exclude = arguments.get("config_include_keys"), arguments.get("config_exclude_keys")
    return {
        key: convert.plain(value)
        for key, value in values.items()
        if (not include or key in include) and key not in (exclude or ())
    }


def _open(chosen: Settings, config: Mapping[str, object]) -> engine.Run:
    environ = os.environ
    run_id = chosen.run_id or _id_of(chosen.resume_from) or environ.get("CHIPLOG_RUN_ID")
    resume = "auto" if chosen.resume is True else str(chosen.resume).lower() if chosen.resume else None
    if resume in ("auto", "true") and not run_id:
        resume = "auto"
    else:
        run_id = str(run_id or layout.new_id())  # an id of its own: other ranks that call `init` have their own runs
        resume = resume if resume in ("must", "never") else "allow"
    if chosen.fork_from:
        messages.not_kept(
            f"the history of init(fork_from={chosen.fork_from!r})", "the new run starts where the fork does"
        )
    folder = environ.get("CHIPLOG_DIR") or (str(Path(str(chosen.root_dir)) / "runs") if chosen.root_dir else None)
    return assembly.beside(
        dict(config),
        sinks=quiet_sinks(environ),
        probes=_probes(environ) if chosen.mode != "disabled" else None,
        project=str(chosen.project or PROJECT),
        name=str(chosen.run_name) if chosen.run_name else None,
        id=run_id,
        dir=folder,
        resume=resume,
        tags=words(chosen.run_tags) or None,
        ranks=detect.detect(environ).rank,
        reduce=False,  # the other ranks may never call
        mode="disabled" if chosen.mode == "disabled" else None,
        capture=chosen.mode != "disabled" and str(chosen.console or "auto") != "off",
    )


def _probes(environ: Mapping[str, str]) -> str | None:
    """The machine is sampled, as W&B does, with whatever is installed."""
    if environ.get("CHIPLOG_PROBES") or chiplog_settings.load({}, environ, Path.cwd()).probes:
        return None
    return ",".join(probes.present()) or None


def _before(recorded: engine.Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """The config and the summary that a resumed run has already."""
    if recorded.inert or recorded.identity.attempt == 1:
        return {}, {}
    try:
        stored = chiplog.read(recorded.dir)
        return stored.config, stored.summary
    except Exception as error:
        messages.failed("reading the resumed run", error)
        return {}, {}


def _introduce(run: Run, chosen: Settings) -> None:
    """Keep what W&B knows of a run and chiplog has no word for, and say where the run is."""
    about = {
        "entity": chosen.entity, "group": chosen.run_group, "job_type": chosen.run_job_type, "notes": chosen.run_notes,
        "forked_from": chosen.fork_from,
    }  # fmt: skip
    kept: dict[str, Any] = {key: str(value) for key, value in about.items() if value}
    if kept:
        run.recorded.event("wandb", None, **kept)
    messages.say(f"{'continuing' if run.resumed else 'recording'} run {run.project}/{run.id} in {run.recorded.dir}")


def _id_of(point: object) -> str | None:
    """The run in `resume_from="<id>?_step=<n>"`."""
    return str(point).partition("?")[0] if point else None


def _first_step(chosen: Settings) -> int:
    """The step after the one in `resume_from` or `fork_from`."""
    _, separator, step = str(chosen.resume_from or chosen.fork_from or "").partition("_step=")
    return int(step) + 1 if separator and step.isdecimal() else 0
