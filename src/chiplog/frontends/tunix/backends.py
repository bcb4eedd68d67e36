"""The backends of a metrics logger, which can also be used on their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from chiplog import assembly
from chiplog.core import messages, settings
from chiplog.core.errors import MissingPackage, Unwritable
from chiplog.core.files.writing import make_place
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.frontends.tunix.vectors import loggable
from chiplog.runtime.ranks import detect
from chiplog.sinks import registry

STAMP = "%Y-%m-%d_%H-%M-%S"
RUN_OPTIONS = ("config",)  # options of `wandb.init` that belong to the run

Options: TypeAlias = Mapping[str, Any]  # of a sink, by name


class LoggingBackend(Protocol):
    """A destination for numbers. Any object with these two methods is one; there is nothing to inherit from."""

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        """Log a value under a name such as `actor/train/loss`; `step` is among the keywords."""
        ...

    def close(self) -> None: ...


BackendFactory = Callable[[], LoggingBackend]


class SinkBackend:
    """A sink as a backend: part of the run of the logger whose factory returned it, else with a run of its own."""

    takes_arrays = True

    def __init__(
        self, project: str, name: str | None, sink: str, options: Options, config: Options | None = None
    ) -> None:
        self.sink, self.options, self.config = sink, options, config or {}
        self._project, self._name = project, name or ""
        self._run: Run | None = None  # started by the first value

    @property
    def run(self) -> Run:
        if self._run is None:
            self._run = start_run(self._project, self._name, {self.sink: self.options}, self.config)
        return self._run

    def log_scalar(self, event: str, value: object, step: int | None = None, **_: object) -> None:
        self.run.log({event.lstrip("/"): loggable(value)}, step=step or 0)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class TensorboardBackend(SinkBackend):
    """An event file in `log_dir`. Values reach it within about half a second, so there is nothing to flush."""

    def __init__(self, log_dir: str, flush_every_n_steps: int = 100, flush_interval_s: float = 30.0) -> None:
        self.flush_every_n_steps, self.flush_interval_s = flush_every_n_steps, flush_interval_s
        super().__init__("tunix", None, "tensorboard", event_file(log_dir))


class WandbBackend(SinkBackend):
    """A W&B run, with the options of `wandb.init`; never asks for a key."""

    def __init__(self, project: str, name: str | None = None, **kwargs: Any) -> None:
        if not registry.is_installed("wandb"):
            raise MissingPackage("WandbBackend needs the 'wandb' package: pip install 'chiplog[wandb]'")
        super().__init__(project, name, "wandb", wandb_options(project, name, kwargs), config_of(kwargs))


class CluBackend:
    """CLU's default writer in `log_dir`; further options go to its `create_default_writer`."""

    def __init__(self, log_dir: str, **kwargs: object) -> None:
        self._writer: Any = None
        if not is_first(os.environ):
            return
        try:
            writers = import_module("clu.metric_writers")
        except ImportError as error:
            raise MissingPackage(f"CluBackend needs the package {error.name!r}: pip install clu tensorflow") from error
        self._writer = writers.create_default_writer(logdir=os.fspath(log_dir), **kwargs)

    def log_scalar(self, event: str, value: object, step: int | None = None, **_: object) -> None:
        if self._writer is not None:
            write = self._writer.write_histograms if getattr(value, "ndim", 0) else self._writer.write_scalars
            write(int(step or 0), {event.lstrip("/"): value})

    def close(self) -> None:
        if self._writer is not None:
            self._writer.flush()
            self._writer.close()


def is_first(environ: Mapping[str, str]) -> bool:
    """Whether this is the first process of the job, which alone has backends."""
    return detect.detect(environ).rank == 0


def start_run(
    project: str,
    name: str,
    sinks: Mapping[str, Options],
    config: Options | None = None,
    backends: Iterable[object] = (),
) -> Run:
    """Start a run next to the current one, with these sinks and users' backends."""
    environ = dict(os.environ)
    arguments = {"project": project or "tunix", "name": name or _timestamp(), "sinks": sinks or {"none": {}}}
    chosen = settings.load(arguments, environ, Path.cwd())
    if chosen.reduce is None:  # backends get what was logged, and nothing else
        chosen = msgspec.structs.replace(chosen, reduce=False)
    return assembly.make(chosen, {**chosen.config, **(config or {})}, [(None, one) for one in backends], environ)


def event_file(log_dir: str | os.PathLike[str]) -> Options:
    """The options of a TensorBoard sink: `log_dir`, or the directory of the run if that is not a local one."""
    folder = os.fspath(log_dir)
    if "://" in folder:
        messages.once(
            f"tunix log_dir {folder}",
            f"log_dir = {folder!r} is not a local directory; event files are written to the directory of the run "
            "(files/tensorboard), from where you can copy them",
        )
        return {}
    path = Path(folder).expanduser().absolute()
    try:
        make_place(path)
    except OSError as error:
        raise Unwritable(f"cannot create log_dir {str(path)!r}: {error.strerror}; choose another directory") from None
    return {"folder": str(path)}


def wandb_options(project: str, name: str | None, kwargs: Options) -> Options:
    """The options of a W&B sink from those of `wandb.init`, as plain data; unsupported ones are reported once."""
    supported = registry.service_options("wandb")
    if unsupported := [key for key in kwargs if key not in (*supported, *RUN_OPTIONS)]:
        messages.once(
            f"tunix wandb {unsupported}",
            f"W&B is opened without {', '.join(unsupported)}; its options are: {', '.join((*supported, *RUN_OPTIONS))}",
        )
    options = {key: value for key, value in kwargs.items() if key in supported and value is not None}
    if "settings" in options:
        options["settings"] = wandb_settings = _explicit(options["settings"])
        if mode := wandb_settings.pop("mode", None):
            options.setdefault("mode", mode)
    plain: Options = convert.plain(options)
    return {"project": project, "name": name or _timestamp(), **plain}


def config_of(kwargs: Options) -> dict[str, Any]:
    """The config that the options of `wandb.init` contain, which becomes the run's."""
    plain = convert.plain(kwargs.get("config") or {})
    return plain if isinstance(plain, dict) else {}


def _explicit(wandb_settings: Any) -> dict[str, Any]:
    """The W&B settings that the user has set, from a mapping or W&B's own object; without the key, which is secret."""
    if not isinstance(wandb_settings, Mapping):
        wandb_settings = wandb_settings.model_dump(include=wandb_settings.model_fields_set, mode="json")
    if "api_key" in wandb_settings:
        messages.once("tunix wandb key", "api_key in W&B's settings is not used: set WANDB_API_KEY instead")
    return {key: value for key, value in wandb_settings.items() if key != "api_key"}


def _timestamp() -> str:
    return time.strftime(STAMP)
