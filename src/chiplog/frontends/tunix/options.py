"""The options of a metrics logger, and the run that they describe.

Without factories a logger writes to TensorBoard, and to W&B where it is installed and can log in without asking.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chiplog.core import messages
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.core.run import Run
from chiplog.frontends.tunix import backends
from chiplog.frontends.tunix.backends import BackendFactory, CluBackend, LoggingBackend, Options, SinkBackend
from chiplog.frontends.tunix.otel import Gauges
from chiplog.sinks import registry
from chiplog.sinks.adapters.factories import FactoryThread, factory_name
from chiplog.sinks.wandb import login
from chiplog.sinks.wandb.options import run_mode

TENSORBOARD = ("log_dir", "flush_every_n_steps", "flush_interval_s")
BACKENDS = ("tensorboard", "wandb", "clu", "custom_backend")


@dataclasses.dataclass
class MetricsLoggerOptions:
    """How to create a logger: plain data and factories, never live objects, so options can be copied and changed."""

    log_dir: str
    project_name: str = "tunix"
    run_name: str = ""  # by default the time of the start, such as 2025-01-14_08-40-01
    flush_every_n_steps: int = 100  # TensorBoard has every value sooner: within half a second
    backend_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    backend_factories: Sequence[BackendFactory] = ()
    enable_opentelemetry: bool = dataclasses.field(default=False, kw_only=True)

    def create_backends(self) -> list[LoggingBackend]:
        """Create new backends for use on their own; none except on the first process."""
        if not backends.is_first(os.environ):
            return []
        if factories := _factories(self):
            return [factory() for factory in factories]
        parts = _defaults(self, os.environ)
        sinks = [
            SinkBackend(self.project_name, self.run_name, sink, options, parts.config)
            for sink, options in parts.sinks.items()
        ]
        return [*sinks, *(thread.product() for thread in parts.threads if thread.wait())]


class _LoggerParts(NamedTuple):
    """What a logger's run consists of: sinks of ours by name, users' backends, and the config."""

    sinks: dict[str, Options]
    threads: list[FactoryThread]
    config: dict[str, Any]


def start_run(options: MetricsLoggerOptions, meter_provider: object = None) -> Run:
    """Start the run of a logger, with the sinks that its options ask for; inert except on the first process."""
    factories = _factories(options)
    if not backends.is_first(os.environ):
        return backends.start_run(options.project_name, options.run_name, {})
    parts = _from_factories(factories) if factories else _defaults(options, os.environ)
    if options.enable_opentelemetry:
        if meter_provider is None:
            parts.sinks["otel"] = {}
        else:
            parts.threads.append(_thread(lambda: Gauges(meter_provider), "Gauges"))
    return backends.start_run(options.project_name, options.run_name, parts.sinks, parts.config, parts.threads)


def _factories(options: MetricsLoggerOptions) -> list[BackendFactory]:
    """The factories that replace the defaults."""
    for key in options.backend_kwargs:
        if key not in BACKENDS:
            raise BadSetting(f"backend_kwargs has no {key!r}; available: {', '.join(BACKENDS)}")
    factories = [*options.backend_factories, *(options.backend_kwargs.get("custom_backend") or ())]
    for factory in factories:
        if not callable(factory):
            raise BadSetting(
                f"{factory!r:.100} is not a backend factory: pass a class, or a function that returns a backend"
            )
    return factories


def _defaults(options: MetricsLoggerOptions, environ: Mapping[str, str]) -> _LoggerParts:
    """TensorBoard, or CLU if it has options, and W&B."""
    clu, wandb = (options.backend_kwargs.get(name) for name in ("clu", "wandb"))
    threads: list[FactoryThread] = []
    if clu is not None:
        thread = _thread(lambda: CluBackend(**{"log_dir": options.log_dir, **clu}), "CluBackend")
        try:
            if thread.wait():
                thread.product()
            threads.append(thread)
        except MissingPackage as error:
            messages.once("tunix clu", f"CLU is left out: {error}; TensorBoard has everything")
    sinks: dict[str, Options] = {}
    if not threads or "tensorboard" in options.backend_kwargs:  # CLU writes event files too
        sinks["tensorboard"] = _tensorboard(options)
    if (wandb_options := _wandb(options, environ)) is not None:
        sinks["wandb"] = wandb_options
    return _LoggerParts(sinks, threads, backends.config_of(wandb or {}))


def _from_factories(factories: list[BackendFactory]) -> _LoggerParts:
    """What factories return: a backend of ours becomes a sink of the logger's run, others stay as they are."""
    parts = _LoggerParts({}, [], {})
    for factory in factories:
        thread = _thread(factory, factory_name(factory))
        ours = _sink_backend(thread)
        if ours is not None and ours.sink not in parts.sinks:
            parts.sinks[ours.sink] = ours.options
            parts.config.update(ours.config)
        else:
            parts.threads.append(thread)
    return parts


def _sink_backend(thread: FactoryThread) -> SinkBackend | None:
    """The backend of ours that a factory returned; its errors are reported when it is opened."""
    try:
        product = thread.product() if thread.wait() else None
    except BaseException:
        return None
    return product if isinstance(product, SinkBackend) else None


def _thread(factory: Callable[[], object], name: str) -> FactoryThread:
    return FactoryThread(lambda: _two_methods(factory()), name)


class _TwoMethods:
    """A user's backend reduced to the protocol's two methods: its other methods may mean something else."""

    takes_arrays = True

    def __init__(self, backend: LoggingBackend) -> None:
        self.name = type(backend).__name__.lower()
        self.log_scalar, self.close = backend.log_scalar, backend.close


def _two_methods(backend: Any) -> object:
    """A backend by its two methods; one of ours, and a metric writer of CLU, as it is."""
    is_writer = not hasattr(backend, "log_scalar") and hasattr(backend, "write_scalars")
    return backend if is_writer or isinstance(backend, SinkBackend) else _TwoMethods(backend)


def _tensorboard(options: MetricsLoggerOptions) -> Options:
    kwargs = options.backend_kwargs.get("tensorboard") or {}
    for key in kwargs:
        if key not in TENSORBOARD:
            raise BadSetting(f"backend_kwargs['tensorboard'] has no {key!r}; available: {', '.join(TENSORBOARD)}")
    return backends.event_file(kwargs.get("log_dir", options.log_dir))


def _wandb(options: MetricsLoggerOptions, environ: Mapping[str, str]) -> Options | None:
    """The options of W&B; None if it is disabled or, with one line that says why, if it would ask for a key."""
    reason: str | None = "it is not installed: pip install 'chiplog[wandb]'"
    if registry.is_installed("wandb"):
        kwargs = options.backend_kwargs.get("wandb") or {}
        chosen = backends.wandb_options(options.project_name, options.run_name, kwargs)
        mode = chosen.get("mode")
        if run_mode(mode, environ) == "disabled":
            return None
        reason = login.unknown_mode(environ, mode)
        if not reason and login.is_silent(environ, mode):
            return chosen
        reason = reason or "it has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline"
    messages.once(f"tunix wandb {reason}", f"W&B is left out: {reason}; TensorBoard has everything")
    return None
