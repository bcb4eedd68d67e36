"""Where a metrics logger's values go: its options as sinks of a run, and backends to be used on their own.

By default TensorBoard, and W&B where it is installed and needs no answer from anybody; both are replaced by factories.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from chiplog import assembly
from chiplog.core import messages, settings
from chiplog.core.engine.attachments import make_place
from chiplog.core.errors import BadSetting, MissingPackage, Unwritable
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.frontends.tunix.otel import Gauges
from chiplog.frontends.tunix.vectors import loggable
from chiplog.runtime.ranks import detect
from chiplog.sinks import registry
from chiplog.sinks.adapters.factories import FactoryThread, factory_name
from chiplog.sinks.wandb import login
from chiplog.store import layout

if TYPE_CHECKING:
    from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions

STAMP = "%Y-%m-%d_%H-%M-%S"
TENSORBOARD = ("log_dir", "flush_every_n_steps", "flush_interval_s")
BACKENDS = ("tensorboard", "wandb", "clu", "custom_backend")
OWN = ("config",)  # options of `wandb.init` that are the run's


class LoggingBackend(Protocol):
    """A destination of numbers, by two methods; nothing is inherited."""

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        """A value under a name such as `actor/train/loss`; `step` is among the keywords."""
        ...

    def close(self) -> None: ...


BackendFactory = Callable[[], LoggingBackend]
Parts = tuple[dict[str, Any], list[FactoryThread], dict[str, Any]]  # sinks by name, backends of others, the config


def begin(options: MetricsLoggerOptions, meter_provider: Any = None) -> Run:
    """A run of a logger's own with the sinks its options ask for; inert but on the first process."""
    environ = dict(os.environ)
    factories = factories_of(options)
    if not is_first(environ):
        return _begin(options.project_name, options.run_name, {}, [], environ)
    sinks, objects, config = _opened(factories) if factories else _defaults(options, environ)
    if options.enable_opentelemetry:
        if meter_provider is None:
            sinks["otel"] = {}
        else:
            objects.append(FactoryThread(lambda: _given(Gauges(meter_provider)), "Gauges"))
    return _begin(options.project_name, options.run_name, sinks, [(None, one) for one in objects], environ, config)


def factories_of(options: MetricsLoggerOptions) -> list[BackendFactory]:
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
    """The backends that options mean, made by every call from scratch; on other processes than the first, none."""
    environ = dict(os.environ)
    if not is_first(environ):
        return []
    if factories := factories_of(options):
        return [factory() for factory in factories]
    sinks, objects, config = _defaults(options, environ)
    project, name = options.project_name, options.run_name
    alone: list[LoggingBackend] = [_Sink(project, name, sink, about, config) for sink, about in sinks.items()]
    return [*alone, *(made.product() for made in objects if made.wait())]


def is_first(environ: Mapping[str, str]) -> bool:
    return detect.detect(environ).rank == 0


class _Sink:
    """One sink as a backend: of the logger it is a factory's product for, or with a run of its own."""

    takes_arrays = True

    def __init__(
        self,
        project: str,
        name: str | None,
        sink: str,
        about: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.sink, self.about, self.config = sink, about, config or {}
        self._project, self._name = project, name or ""
        self._run: Run | None = None  # from the first value on

    @property
    def run(self) -> Run:
        if self._run is None:
            sinks = {self.sink: self.about}
            self._run = _begin(self._project, self._name, sinks, [], dict(os.environ), self.config)
        return self._run

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        self.run.log({event.lstrip("/"): loggable(value)}, step=kwargs.get("step") or 0)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class TensorboardBackend(_Sink):
    """An event file in `log_dir`. What is logged is in it within half a second or so, so nothing waits for a flush."""

    def __init__(self, log_dir: str, flush_every_n_steps: int = 100, flush_interval_s: float = 30.0) -> None:
        self.flush_every_n_steps, self.flush_interval_s = flush_every_n_steps, flush_interval_s
        super().__init__("tunix", None, "tensorboard", _event_file(log_dir))


class WandbBackend(_Sink):
    """A run at W&B, with the options of `wandb.init`; never asks for a key."""

    def __init__(self, project: str, name: str | None = None, **kwargs: Any) -> None:
        if not registry.is_installed("wandb"):
            raise MissingPackage("WandbBackend needs the 'wandb' package: pip install 'chiplog[wandb]'")
        about = {"project": project, "name": name or _stamp(), **_known(kwargs)}
        super().__init__(project, name, "wandb", about, _config(kwargs))


class CluBackend:
    """The default writer of CLU in `log_dir`, with the other options of its `create_default_writer`."""

    def __init__(self, log_dir: str, **kwargs: Any) -> None:
        self._writer: Any = None
        if not is_first(dict(os.environ)):
            return
        try:
            writers = import_module("clu.metric_writers")
        except ImportError as error:
            raise MissingPackage(f"CluBackend needs the package {error.name!r}: pip install clu tensorflow") from error
        self._writer = writers.create_default_writer(logdir=os.fspath(log_dir), **kwargs)

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        if self._writer is not None:
            write = self._writer.write_histograms if getattr(value, "ndim", 0) else self._writer.write_scalars
            write(int(kwargs.get("step") or 0), {event.lstrip("/"): value})

    def close(self) -> None:
        if self._writer is not None:
            self._writer.flush()
            self._writer.close()


def _begin(
    project: str,
    name: str,
    sinks: Mapping[str, Any],
    objects: list[tuple[str | None, Any]],
    environ: dict[str, str],
    config: Mapping[str, Any] | None = None,
) -> Run:
    given = {"project": layout.slug(project, "tunix"), "name": name or _stamp(), "sinks": sinks or {"none": {}}}
    chosen = settings.load(given, environ, Path.cwd())
    if chosen.reduce is None:  # backends get what was logged, and nothing else
        chosen = msgspec.structs.replace(chosen, reduce=False)
    return assembly.make(chosen, {**chosen.config, **(config or {})}, objects, environ)


def _defaults(options: MetricsLoggerOptions, environ: Mapping[str, str]) -> Parts:
    """The sinks that are there without factories: TensorBoard, or CLU where its options are given, and W&B."""
    given = options.backend_kwargs
    objects: list[FactoryThread] = []
    if given.get("clu") is not None:
        clu = FactoryThread(lambda: _given(CluBackend(**{"log_dir": options.log_dir, **given["clu"]})), "CluBackend")
        try:
            if clu.wait():
                clu.product()
            objects.append(clu)
        except MissingPackage as error:
            messages.once("tunix clu", f"CLU is left out: {error}; TensorBoard has everything")
    files = {} if objects and "tensorboard" not in given else _tensorboard(options)  # CLU writes event files too
    return {**files, **_wandb(options, environ)}, objects, _config(given.get("wandb") or {})


def _opened(factories: list[BackendFactory]) -> Parts:
    """What factories make: sinks of the logger's own run where they are ours, and backends as they are."""
    sinks: dict[str, Any] = {}
    objects: list[FactoryThread] = []
    config: dict[str, Any] = {}
    for factory in factories:
        made = FactoryThread(_made_by(factory), factory_name(factory))
        ours = _ours(made)
        if ours is not None and ours.sink not in sinks:
            sinks[ours.sink] = ours.about
            config |= ours.config
        else:
            objects.append(made)
    return sinks, objects, config


def _ours(made: FactoryThread) -> _Sink | None:
    """The backend of ours that a factory has made; its errors are reported by whoever opens it."""
    try:
        product = made.product() if made.wait() else None
    except BaseException:
        return None
    return product if isinstance(product, _Sink) else None


class _Given:
    """A backend as it was made, with nothing but the two methods of the protocol: others may mean something else."""

    takes_arrays = True

    def __init__(self, backend: LoggingBackend) -> None:
        self.name = type(backend).__name__.lower()
        self.log_scalar, self.close = backend.log_scalar, backend.close


def _made_by(factory: BackendFactory) -> Callable[[], Any]:
    return lambda: _given(factory())


def _given(backend: Any) -> Any:
    """A backend by its two methods; one of ours and a metric writer of CLU as they are."""
    if isinstance(backend, _Sink):
        return backend
    if not hasattr(backend, "log_scalar") and hasattr(backend, "write_scalars"):
        return backend
    return _Given(backend)


def _tensorboard(options: MetricsLoggerOptions) -> dict[str, dict[str, Any]]:
    given = dict(options.backend_kwargs.get("tensorboard") or {})
    for key in given:
        if key not in TENSORBOARD:
            raise BadSetting(f"backend_kwargs['tensorboard'] has no {key!r}; there are: {', '.join(TENSORBOARD)}")
    return {"tensorboard": _event_file(given.get("log_dir", options.log_dir))}


def _event_file(log_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """Where TensorBoard's file is: in `log_dir`, or with the run where that is not on this machine."""
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
        raise Unwritable(f"cannot make log_dir {str(path)!r}: {error.strerror}; choose another one") from None
    return {"folder": str(path)}


def _wandb(options: MetricsLoggerOptions, environ: Mapping[str, str]) -> dict[str, Any]:
    """W&B, where it can be reached without asking anybody for anything; otherwise one line says why not."""
    if not registry.is_installed("wandb"):
        _skipped("it is not installed: pip install 'chiplog[wandb]'")
        return {}
    given = dict(options.backend_kwargs.get("wandb") or {})
    about = {"project": options.project_name, "name": options.run_name or _stamp(), **_known(given)}
    if unknown := login.unknown_mode(environ, about.get("mode")):
        _skipped(unknown)
        return {}
    if not login.is_silent(environ, about.get("mode")):
        _skipped("it has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline")
        return {}
    return {"wandb": about}


def _known(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `wandb.init` that the sink has, as plain data; the others are named once."""
    known = registry.service_options("wandb")
    if foreign := [key for key in given if key not in (*known, *OWN)]:
        messages.once(
            f"tunix wandb {foreign}",
            f"W&B is opened without {', '.join(foreign)}; its options are: {', '.join((*known, *OWN))}",
        )
    about = {key: value for key, value in given.items() if key in known and value is not None}
    if "settings" in about:
        about["settings"] = _explicit(about["settings"])
        mode = about["settings"].pop("mode", None)
        about = {**about, **({"mode": mode} if mode and "mode" not in about else {})}
    plain: dict[str, Any] = convert.plain(about)
    return plain


def _explicit(given: Any) -> dict[str, Any]:
    """The settings of W&B that somebody has set, of its own kind or of a mapping; but for a key, which stays here."""
    if not isinstance(given, Mapping):
        given = given.model_dump(include=given.model_fields_set, mode="json")
    if "api_key" in given:
        messages.once("tunix wandb key", "W&B's settings are taken without api_key: set WANDB_API_KEY instead")
    return {key: value for key, value in given.items() if key != "api_key"}


def _config(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be the run's config, here as at W&B."""
    plain = convert.plain(given.get("config") or {})
    return plain if isinstance(plain, dict) else {}


def _skipped(why: str) -> None:
    messages.once(f"tunix wandb {why}", f"W&B is left out: {why}; TensorBoard has everything")


def _stamp() -> str:
    return time.strftime(STAMP)
