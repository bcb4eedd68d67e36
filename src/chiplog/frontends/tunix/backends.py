"""Where a metrics logger's values go: its options as sinks of a run, and backends to be used on their own.

By default TensorBoard, and W&B where it is installed and needs no answer from anybody; both are replaced by factories.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chiplog import assembly
from chiplog.core import notes, settings
from chiplog.core.errors import BadSetting, Unwritable
from chiplog.core.files import make_dir
from chiplog.core.run import Run
from chiplog.frontends.tunix.gauges import Gauges
from chiplog.runtime import ranks
from chiplog.sinks import registry, wandb_login
from chiplog.store import layout

if TYPE_CHECKING:
    from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions

STAMP = "%Y-%m-%d_%H-%M-%S"
TENSORBOARD = ("log_dir", "flush_every_n_steps", "flush_interval_s")
BACKENDS = ("tensorboard", "wandb", "clu", "custom_backend")


class LoggingBackend(Protocol):
    """A destination of numbers, by two methods; nothing is inherited."""

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        """A value under a name such as `actor/train/loss`; `step` is among the keywords."""
        ...

    def close(self) -> None: ...


Factory = Callable[[], LoggingBackend]


def begin(options: MetricsLoggerOptions, meter_provider: Any = None) -> Run:
    """A run of a logger's own with the sinks its options ask for; inert but on the first process."""
    environ = dict(os.environ)
    factories = factories_of(options)
    sinks: dict[str, Any] = {}
    if not factories and is_first(environ):
        sinks = {**_tensorboard(options), **_wandb(options, environ)}
    if options.enable_opentelemetry and is_first(environ):
        if meter_provider is None:
            sinks["otel"] = {}
        else:
            factories.append(lambda: Gauges(meter_provider))
    return _begin(options.project_name, options.run_name, sinks, [(None, _made_by(one)) for one in factories], environ)


def factories_of(options: MetricsLoggerOptions) -> list[Factory]:
    """The factories that replace the defaults, however they were given."""
    for key in options.backend_kwargs:
        if key not in BACKENDS:
            raise BadSetting(f"backend_kwargs has no {key!r}; there are: {', '.join(BACKENDS)}")
    factories = [*options.backend_factories, *(options.backend_kwargs.get("custom_backend") or ())]
    for one in factories:
        if not callable(one):
            raise BadSetting(f"{one!r:.100} is no backend factory: give a class, or a function that makes a backend")
    return factories


def create(options: MetricsLoggerOptions) -> list[LoggingBackend]:
    """The backends that options mean, made anew with every call; on other processes than the first, none."""
    environ = dict(os.environ)
    if not is_first(environ):
        return []
    if factories := factories_of(options):
        return [factory() for factory in factories]
    sinks = {**_tensorboard(options), **_wandb(options, environ)}
    return [_Sink(options.project_name, options.run_name, {name: about}) for name, about in sinks.items()]


def is_first(environ: Mapping[str, str]) -> bool:
    return ranks.detect(environ).rank == 0


class _Sink:
    """One sink with a run of its own, as a backend."""

    def __init__(self, project: str, name: str | None, sinks: Mapping[str, Any]) -> None:
        self.run = _begin(project, name or "", sinks, [], dict(os.environ))

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        self.run.log({event.lstrip("/"): value}, step=kwargs.get("step") or 0)

    def close(self) -> None:
        self.run.finish()


class TensorboardBackend(_Sink):
    """An event file in `log_dir`. What is logged is in it within half a second or so, so nothing waits for a flush."""

    def __init__(self, log_dir: str, flush_every_n_steps: int = 100, flush_interval_s: float = 30.0) -> None:
        self.flush_every_n_steps, self.flush_interval_s = flush_every_n_steps, flush_interval_s
        super().__init__("tunix", None, _event_file(log_dir))


class WandbBackend(_Sink):
    """A run at W&B; never asks for a key."""

    def __init__(self, project: str, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(project, name, {"wandb": {"project": project, "name": name or _stamp(), **_known(kwargs)}})


def _begin(
    project: str, name: str, sinks: Mapping[str, Any], objects: list[tuple[str | None, Any]], environ: dict[str, str]
) -> Run:
    given = {"project": layout.slug(project, "tunix"), "name": name or _stamp(), "sinks": sinks or {"none": {}}}
    chosen = settings.load(given, environ, Path.cwd())
    return assembly.make(chosen, dict(chosen.config), objects, environ)


class _Given:
    """A backend as it was made, with nothing but the two methods of the protocol: others may mean something else."""

    def __init__(self, backend: LoggingBackend) -> None:
        self.name = type(backend).__name__.lower()
        self.log_scalar, self.close = backend.log_scalar, backend.close


def _made_by(factory: Factory) -> Callable[[], _Given]:
    return lambda: _Given(factory())


def _tensorboard(options: MetricsLoggerOptions) -> dict[str, Any]:
    given = dict(options.backend_kwargs.get("tensorboard") or {})
    for key in given:
        if key not in TENSORBOARD:
            raise BadSetting(f"backend_kwargs['tensorboard'] has no {key!r}; there are: {', '.join(TENSORBOARD)}")
    return _event_file(given.get("log_dir", options.log_dir))


def _event_file(log_dir: str | os.PathLike[str]) -> dict[str, Any]:
    folder = os.fspath(log_dir)
    if "://" in folder:
        raise BadSetting(f"log_dir = {folder!r}: event files are written to a local directory, not to a URL")
    path = Path(folder).expanduser().absolute()
    try:
        make_dir(path)
    except OSError as error:
        raise Unwritable(f"cannot make log_dir {str(path)!r}: {error.strerror}; choose another one") from None
    return {"tensorboard": {"folder": str(path)}}


def _wandb(options: MetricsLoggerOptions, environ: Mapping[str, str]) -> dict[str, Any]:
    """W&B, where it can be reached without asking anybody for anything; otherwise one line says why not."""
    if not registry.is_installed("wandb"):
        _skipped("it is not installed: pip install 'chiplog[wandb]'")
        return {}
    given = dict(options.backend_kwargs.get("wandb") or {})
    if not wandb_login.is_silent(environ, given.get("mode")):
        _skipped("it has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline")
        return {}
    name = options.run_name or _stamp()
    return {"wandb": {"project": options.project_name, "name": name, **_known(given)}}


def _known(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `wandb.init` that the sink has; the others are named once."""
    known = registry.SERVICES["wandb"].options
    if foreign := [key for key in given if key not in known]:
        notes.once(
            f"tunix wandb {foreign}", f"W&B is opened without {', '.join(foreign)}; its options are: {', '.join(known)}"
        )
    return {key: value for key, value in given.items() if key in known}


def _skipped(why: str) -> None:
    notes.once(f"tunix wandb {why}", f"W&B is left out: {why}; TensorBoard has everything")


def _stamp() -> str:
    return time.strftime(STAMP)
