"""Backends by name, and a tracker that passes everything to all of them.

A tracker with a run writes to the run; the sinks deliver from the journal to the backends, each on its own thread, so a
slow or failing backend does not affect the others. A tracker made of objects alone calls them directly.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chiplog import ChiplogError, Run, TrackerBackend
from chiplog.core.errors import UnknownSink
from chiplog.frontends.ezpz.backends.built_in import BuiltInBackend, CSVBackend, MLflowBackend, OtherSink, WandbBackend
from chiplog.frontends.ezpz.backends.custom import DirectBackends, QueuedCalls, name_of, sink_factory
from chiplog.frontends.ezpz.backends.service_runs import ActiveWandb
from chiplog.frontends.ezpz.environment import wandb_is_off
from chiplog.frontends.ezpz.run_writer import Writer, start_run
from chiplog.runtime.ranks import detect
from chiplog.sinks import registry

__all__ = [
    "CSVBackend",
    "MLflowBackend",
    "NullTracker",
    "Tracker",
    "TrackerBackend",
    "WandbBackend",
    "register_backend",
    "resolve_backend_names",
    "setup_tracker",
]

logger = logging.getLogger("chiplog.ezpz")

VARIABLES = ("EZPZ_TRACKER_BACKENDS", "EZPZ_TRACKERS")
BUILT_IN: dict[str, type[BuiltInBackend]] = {"csv": CSVBackend, "mlflow": MLflowBackend, "wandb": WandbBackend}

_registered: dict[str, Callable[..., Any]] = {}


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Let `backends="name"` mean this class; it replaces an earlier one of the same name, built-in ones included."""
    _registered[name.lower()] = backend


def resolve_backend_names(backends: str | Iterable[str] | None) -> list[str]:
    """The names of backends, each once, in lowercase; none for "none". By default those of `EZPZ_TRACKER_BACKENDS`."""
    if backends is None:
        backends = next((value for name in VARIABLES if (value := os.environ.get(name))), "")
    listed = backends.split(",") if isinstance(backends, str) else [str(one) for one in backends]
    names = dict.fromkeys(name.strip().lower() for name in listed if name.strip())
    return [name for name in names if name != "none"]


class Tracker:
    """What a `History` reports to. Every method reaches all backends; a failing one is reported once.

    A call that raises is retried, then skipped and counted, whether a backend has a run or is called directly.
    """

    def __init__(self, backends: Iterable[Any] = ()) -> None:
        self.backends = list(backends)
        self._direct = DirectBackends(self.backends)
        self._queued: QueuedCalls | None = None  # on a rank without a journal
        self._start: Callable[[], Run] | None = None  # of a run of its own that has not started
        self._writer: Writer | None = None

    def bind(self, writer: Writer) -> None:
        """Belong to a run whose sinks are the backends; on a rank without a journal, your own are called from here."""
        self._start, self._writer = None, writer
        for backend in self.backends:
            if isinstance(backend, BuiltInBackend):
                backend.bind(writer)
        custom = [one for one in self.backends if not isinstance(one, (BuiltInBackend, ActiveWandb))]
        if custom and writer.run.identity.rank != 0:
            self._queued = QueuedCalls(custom)
            if config := writer.run.identity.config:
                self._queued.call("log_config", config)

    def adopt(self) -> Writer | None:
        """For a history: the run that this tracker has started, or None if the history starts one now."""
        self._start = None
        return self._writer

    @property
    def project_name(self) -> str | None:
        """The project name that the backends were created with."""
        names = (one.project_name for one in self.backends if isinstance(one, BuiltInBackend))
        return next((name for name in names if name), None)

    @property
    def config(self) -> dict[str, Any]:
        """The config that the backends were created with."""
        return {
            key: value for one in self.backends if isinstance(one, BuiltInBackend) for key, value in one.config.items()
        }

    # -- all backends ----------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, object], step: int | float | None = None, commit: bool = True) -> None:
        if (writer := self._open()) is None:
            self._direct.call("log", metrics, step=step, commit=commit)
            return
        writer.log(metrics, step, commit)
        self.forward(metrics, step, commit)

    def forward(self, metrics: Mapping[str, object], step: int | float | None, commit: bool) -> None:
        """Pass a recorded row to the backends that no journal reaches."""
        if self._queued is not None:
            self._queued.log(metrics, step, commit)

    def log_config(self, config: Mapping[str, object]) -> None:
        self._pass("log_config", config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[object]]) -> None:
        self._pass("log_table", key, columns, data)

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        self._pass("log_image", key, image_path, caption=caption)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        self._pass("log_artifacts", artifacts)

    def watch(self, model: object, **options: object) -> None:
        self._open()
        self._direct.call("watch", model, **options)

    def finish(self, timeout: float = 30) -> None:
        """Finish all backends, once they have everything."""
        if (writer := self._open()) is None:
            self._direct.finish()
            return
        if self._queued is not None:
            self._queued.finish(timeout)
        writer.run.finish(timeout)

    # -- one backend -----------------------------------------------------------------------------------------------

    def get_backend(self, name: str) -> Any:
        """The backend with this name, or None."""
        return next((one for one in reversed(self.backends) if name_of(one) == name), None)

    @property
    def wandb_run(self) -> Any:
        """W&B's own run; waits until it has started. None without one."""
        return self._native("wandb")

    @property
    def mlflow_run(self) -> Any:
        """MLflow's run, with its id, parameters and newest metrics; waits until it has started. None without one."""
        return self._native("mlflow")

    def _native(self, name: str) -> Any:
        self._open()
        return getattr(self.get_backend(name), "run", None)

    def _open(self) -> Writer | None:
        if self._start is not None:
            self.bind(Writer(self._start()))
        return self._writer

    def _pass(self, method: str, *args: object, **kwargs: object) -> None:
        if (writer := self._open()) is None:
            self._direct.call(method, *args, **kwargs)
            return
        getattr(writer, method)(*args, **kwargs)
        if self._queued is not None:
            self._queued.call(method, *args, **kwargs)


class NullTracker(Tracker):
    """No backends: accepts everything and does nothing with it."""

    def __init__(self) -> None:
        super().__init__()

    def bind(self, writer: Writer) -> None:
        """Stay unbound: what is logged to this tracker does not belong in the run of its history."""


def open_backends(
    names: Sequence[str],
    *,
    project_name: str | None = None,
    config: Mapping[str, object] | None = None,
    outdir: str | Path | None = None,
    rank: int | None = None,
    **options: object,
) -> list[Any]:
    """The backends with these names; an unknown or failing one is left out with a warning."""
    opened: list[Any] = []
    rank = detect.detect(os.environ).rank if rank is None else rank
    arguments = {"project_name": project_name, "config": dict(config or {}), "outdir": outdir, "rank": rank, **options}
    for name in names:
        if name == "wandb" and name not in _registered and wandb_is_off(os.environ):
            continue
        try:
            if name in _registered:
                opened.append(_make(_registered[name], arguments))
            elif name in BUILT_IN:
                opened.append(BUILT_IN[name](**arguments))  # type: ignore[arg-type]
            else:
                registry.is_service(name)  # raises for an unknown name
                opened.append(OtherSink(name, **arguments))
        except UnknownSink:
            logger.warning("backend %r is left out: %s", name, registry.unknown(name, _registered))
        except ChiplogError as error:
            logger.warning("backend %r is left out: %s", name, error)
        except Exception as error:
            logger.warning("backend %r is left out: %s: %s", name, type(error).__name__, error)
    return opened


def sinks_of(backends: Iterable[Any]) -> dict[str, object]:
    """The sinks through which backends get what a run records."""
    sinks: dict[str, object] = {}
    for backend in backends:
        name = name_of(backend)
        while name in sinks:
            name += "-2"
        if not isinstance(backend, BuiltInBackend):
            sinks[f"{name}-active" if isinstance(backend, ActiveWandb) else name] = sink_factory(backend)
        elif backend.writes:
            sinks[name] = backend.sink()
    return sinks


def setup_tracker(
    project_name: str | None = None,
    backends: str | Iterable[str] | None = None,
    config: Mapping[str, object] | None = None,
    outdir: str | Path | None = None,
    rank: int | None = None,
    **options: object,
) -> Tracker:
    """A tracker with a run of its own, unless a history takes it over; a `NullTracker` if no backend is left.

    The options go to the backends that have them: `entity`, `mode`, and so on.
    """
    settings = dict(config or {})
    opened = open_backends(
        resolve_backend_names(backends), project_name=project_name, config=settings, outdir=outdir, rank=rank, **options
    )
    if not opened:
        return NullTracker()
    tracker = Tracker(opened)
    tracker._start = lambda: start_run(project_name, settings, sinks_of(opened))
    return tracker


def _make(factory: Callable[..., Any], arguments: Mapping[str, object]) -> Any:
    """Call a factory with those arguments that it has parameters for."""
    parameters = inspect.signature(factory).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return factory(**arguments)
    return factory(**{key: value for key, value in arguments.items() if key in {one.name for one in parameters}})
