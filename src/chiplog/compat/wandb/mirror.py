"""Records what W&B's real client is given, in a separate run; none of this can break one of its calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any

from chiplog.compat.wandb import messages
from chiplog.compat.wandb.recording.init import start as start_run
from chiplog.compat.wandb.run import Run
from chiplog.compat.wandb.settings import Settings
from chiplog.core.errors import ChiplogError, MissingPackage

_beside: dict[int, Run] = {}  # our runs, by the identity of the client's


def start() -> None:
    """Wrap the client; a run that is open is recorded from now on."""
    try:
        wandb: Any = import_module("wandb")
    except ImportError:
        raise MissingPackage("chiplog.mirror('wandb') needs the 'wandb' package: pip install wandb") from None
    if str(getattr(wandb.__spec__, "name", "")).startswith("chiplog."):
        raise ChiplogError("chiplog.mirror('wandb'): `wandb` is the stand-in here, which records everything already")
    kind = wandb.Run
    if hasattr(kind, "_chiplog"):
        return
    kind._chiplog = True
    config, summary = (_class("wandb_config", "Config"), _class("wandb_summary", "Summary"))
    for owner, name, wrap, ours in (
        (kind, "log", _after, _logged),
        (kind, "finish", _before, _finished),
        (kind, "define_metric", _after, _same("define_metric")),
        (kind, "alert", _after, _same("alert")),
        (config, "update", _after, _config_changed),
        (config, "__setitem__", _after, _config_changed),
        (config, "__setattr__", _after, _config_changed),
        (summary, "_update", _after, _summary_changed),
    ):
        try:
            setattr(owner, name, wrap(getattr(owner, name), ours))
        except (AttributeError, TypeError):
            messages.once(
                f"mirror {name}",
                f"this version of wandb ({wandb.__version__}) has no {name!r} where 0.31 has it; it is not mirrored",
            )
    wandb.init = _after_init(wandb.init)
    if wandb.run is not None:
        _open(wandb.run)
        wandb.log = wandb.run.log


def _class(module: str, name: str) -> Any:
    try:
        return getattr(import_module(f"wandb.sdk.{module}"), name)
    except (ImportError, AttributeError):
        return None


def _after(original: Callable[..., Any], ours: Callable[..., None]) -> Callable[..., Any]:
    """A method that calls ours once the original has returned."""

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _guarded(ours, self, *args, **kwargs)
        return result

    return call


def _before(original: Callable[..., Any], ours: Callable[..., None]) -> Callable[..., Any]:
    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _guarded(ours, self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return call


def _after_init(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        run = original(*args, **kwargs)
        _guarded(_open, run)
        return run

    return init


def _guarded(ours: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    try:
        ours(*args, **kwargs)
    except Exception as error:
        messages.failed(f"mirroring {getattr(ours, '__name__', 'a call').strip('_')}", error)


def _open(run: Any) -> None:
    if run is None or getattr(run, "disabled", False) or id(run) in _beside:
        return
    chosen = Settings(
        project=run.project or None,
        entity=run.entity or None,
        run_id=run.id,
        run_name=run.name or None,
        run_group=run.group or None,
        run_job_type=run.job_type or None,
        run_notes=run.notes or None,
        run_tags=tuple(run.tags or ()),
        resume="allow",
        console="off",  # the client captures it
    )
    _beside[id(run)] = start_run(chosen, dict(run.config), _forget)


def _forget(ended: Run) -> None:
    for key in [key for key, run in _beside.items() if run is ended]:
        del _beside[key]


def _ours(run: Any) -> Run | None:
    mine = _beside.get(id(run))
    return mine if mine is not None and mine.pid == os.getpid() else None


def _logged(
    run: Any, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, **_: object
) -> None:
    if (mine := _ours(run)) is not None:
        mine.log(data, step, commit)


def _finished(run: Any, exit_code: int | None = None, *_: object, **__: object) -> None:
    if (mine := _ours(run)) is not None:
        mine.finish(exit_code)


def _same(name: str) -> Callable[..., None]:
    def call(run: Any, *args: Any, **kwargs: Any) -> None:
        if (mine := _ours(run)) is not None:
            getattr(mine, name)(*args, **kwargs)

    call.__name__ = name
    return call


def _config_changed(config: Any, *_: object, **__: object) -> None:
    """Bring our config up to date; the client has accepted the change."""
    import wandb

    for mine in _beside.values():
        if wandb.run is not None and wandb.run.config is config and mine is _ours(wandb.run):
            mine.config.update(dict(config), allow_val_change=True)


def _summary_changed(summary: Any, record: Any, *_: object, **__: object) -> None:
    import wandb

    if wandb.run is not None and wandb.run.summary is summary and (mine := _ours(wandb.run)) is not None:
        for item in record.update:
            mine.summary[".".join(map(str, item.key))] = item.value
