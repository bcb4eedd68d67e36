"""W&B: `import chiplog.compat.wandb as wandb`, or `chiplog run --as wandb -- COMMAND`.

A stand-in, with the same calls. No server, no account, no extra process. Anything that is accepted and not kept is
reported once, and nothing raises into a training loop (docs/integrations.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import Enum
from types import ModuleType
from typing import Any

from chiplog.compat.wandb import errors, messages, plot
from chiplog.compat.wandb.api import Api
from chiplog.compat.wandb.data.artifact import Artifact
from chiplog.compat.wandb.data.media import Audio, Histogram, Html, Image, Molecule, Object3D, Plotly, Video
from chiplog.compat.wandb.data.table import Table
from chiplog.compat.wandb.errors import CommError, Error, UsageError
from chiplog.compat.wandb.names_without_effect import Inert
from chiplog.compat.wandb.recording.config import Config
from chiplog.compat.wandb.recording.init import chosen_config, start
from chiplog.compat.wandb.recording.metrics import Definitions
from chiplog.compat.wandb.recording.summary import Summary
from chiplog.compat.wandb.recording.tensorboard import sync_tensorboard as follow_tensorboard
from chiplog.compat.wandb.run import Run
from chiplog.compat.wandb.settings import Settings, gather
from chiplog.compat.wandb.sweeps import agent, controller, sweep

__version__ = "0.31.0"  # of the API
__all__ = [
    "AlertLevel", "Api", "Artifact", "Audio", "CommError", "Config", "Error", "Histogram", "Html", "Image", "Molecule",
    "Object3D", "Plotly", "Run", "Settings", "Summary", "Table", "UsageError", "Video", "agent", "alert", "config",
    "controller", "define_metric", "errors", "finish", "init", "log", "log_artifact", "log_model", "login", "plot",
    "run", "save", "setup", "summary", "sweep", "teardown", "unwatch", "use_artifact", "use_model", "watch",
]  # fmt: skip

_current: Run | None = None
_pending_config = Config()
_pending_summary = Summary(Definitions(), lambda *_: None)


class RunDisabled:
    """W&B's class of disabled runs; ours are of the class `Run`, too."""


class AlertLevel(Enum):
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def init(
    entity: str | None = None,
    project: str | None = None,
    dir: object = None,
    id: str | None = None,
    name: str | None = None,
    notes: str | None = None,
    tags: object = None,
    config: object = None,
    config_exclude_keys: object = None,
    config_include_keys: object = None,
    allow_val_change: bool | None = None,
    group: str | None = None,
    job_type: str | None = None,
    mode: str | None = None,
    force: bool | None = None,
    anonymous: object = None,
    reinit: bool | str | None = None,
    resume: bool | str | None = None,
    resume_from: str | None = None,
    fork_from: str | None = None,
    save_code: bool | None = None,
    tensorboard: bool | None = None,
    sync_tensorboard: bool | None = None,
    monitor_gym: bool | None = None,
    settings: Settings | Mapping[str, object] | None = None,
    **more: object,
) -> Run:
    """Start a run, or return the one that is open: a second call continues it unless `reinit` says otherwise."""
    global _current, _pending_config
    arguments = {key: value for key, value in locals().items() if key not in ("more", "_current")} | more
    chosen = gather(arguments, os.environ)
    if _current is not None and _current.pid == os.getpid() and chosen.reinit != "create_new":
        if chosen.reinit not in (True, "finish_previous"):
            _report_open(_current)
            return _current
        _current.finish()
    values = {**_pending_config.as_dict(), **chosen_config(arguments)}
    started = start(chosen, values, _forget)
    if chosen.sync_tensorboard:
        follow_tensorboard(started)
    if chosen.reinit != "create_new" or _current is None:
        _current, _pending_config = started, Config()
    return started


def log(data: Any = None, step: int | None = None, commit: bool | None = None, sync: object = None) -> None:  # noqa: ARG001
    """`Run.log` on the open run."""
    if _current is None:
        messages.once("log before init", "wandb.log before wandb.init: there is no run, so the values are not kept")
    else:
        _current.rows.log(data, step, commit)


def finish(exit_code: int | None = None, quiet: object = None) -> None:
    """End the open run, if there is one."""
    if _current is not None:
        _current.finish(exit_code, quiet)


join = finish


def teardown(exit_code: int | None = None) -> None:
    finish(exit_code)


def login(*_: object, **__: object) -> bool:
    """True: there is no account, and nothing to log in to."""
    return True


def setup(*_: object, **__: object) -> Settings:
    return Settings()


def require(*_: object, **__: object) -> None:
    """Nothing to choose."""


def generate_id(length: int = 8) -> str:
    """Letters and digits, for an id."""
    return os.urandom(length).hex()[:length]


def termlog(string: str = "", *_: object, **__: object) -> None:
    messages.say(string)


termwarn = termerror = termlog


def _run_method(name: str) -> Any:
    """A function of the module that is a method of the open run."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if _current is None:
            messages.once(f"{name} before init", f"wandb.{name} before wandb.init: there is no run; ignored")
            return None
        return getattr(_current, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


alert = _run_method("alert")
define_metric = _run_method("define_metric")
link_model = _run_method("link_model")
log_artifact = _run_method("log_artifact")
log_model = _run_method("log_model")
mark_preempting = _run_method("mark_preempting")
restore = _run_method("restore")
save = _run_method("save")
unwatch = _run_method("unwatch")
use_artifact = _run_method("use_artifact")
use_model = _run_method("use_model")
watch = _run_method("watch")


def _attach(*_: object, **__: object) -> Run | None:
    return _current


def _forget(ended: Run) -> None:
    global _current
    if _current is ended:
        _current = None


def _report_open(run: Run) -> None:
    messages.once(
        f"init twice {run.id}", f"run {run.id} is open and continues; pass reinit='finish_previous' for a new one"
    )


class _Module(ModuleType):
    """The module, with the state that W&B keeps in its attributes; scripts read and reset `wandb.run`."""

    @property
    def run(self) -> Run | None:
        return _current

    @run.setter
    def run(self, value: Run | None) -> None:
        global _current
        _current = value

    @property
    def config(self) -> Config:
        return _pending_config if _current is None else _current.config

    @config.setter
    def config(self, values: object) -> None:
        if values is not self.config:
            self.config.update(values)

    @property
    def summary(self) -> Summary:
        return _pending_summary if _current is None else _current.summary

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module 'wandb' has no attribute {name!r}")
        return Inert(f"wandb.{name}")


sys.modules[__name__].__class__ = _Module
api = Settings(api_key=None)
util = Settings(generate_id=generate_id)
