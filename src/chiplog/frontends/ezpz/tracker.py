"""Backends by name, and a tracker that gives each of them everything: a face of a run and its sinks.

A tracker that belongs to a run writes into the run; the sinks bring it to the backends from the journal, each on a
thread of its own, so a backend that fails or is slow disturbs nobody. A tracker made of objects alone calls them.
"""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chiplog import assembly
from chiplog.core.errors import ChiplogError
from chiplog.core.media import Image
from chiplog.core.run import Run
from chiplog.runtime import ranks
from chiplog.sinks import registry
from chiplog.sinks.wrappers import TrackerBackend
from chiplog.store import layout

__all__ = ["NullTracker", "Tracker", "TrackerBackend", "register_backend", "resolve_backend_names", "setup_tracker"]

logger = logging.getLogger("chiplog.ezpz")

START = 60.0  # s that W&B may take to begin a run
OFF = ("", "0", "false", "no", "off")

_registered: dict[str, Callable[..., Any]] = {}


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Let `backends="name"` mean this class; a later one of the same name, ours included, goes before."""
    _registered[name.lower()] = backend


def resolve_backend_names(backends: str | Iterable[str] | None) -> list[str]:
    """The names that are meant, each once, in small letters; none for "none".

    Without any, those of `EZPZ_TRACKER_BACKENDS`.
    """
    if backends is None:
        backends = os.environ.get("EZPZ_TRACKER_BACKENDS", "")
    listed = backends.split(",") if isinstance(backends, str) else [str(one) for one in backends]
    names = dict.fromkeys(name.strip().lower() for name in listed if name.strip())
    return [name for name in names if name != "none"]


class Tracker:
    """What a `History` gives its metrics to. Every method reaches all backends; one that fails is warned of, once."""

    def __init__(self, backends: Iterable[Any] = ()) -> None:
        self.backends = list(backends)
        self._run: Run | None = None
        self._warned: set[tuple[int, str]] = set()

    def bind(self, run: Run) -> None:
        """Belong to a run, whose sinks the backends are."""
        self._run = run

    # -- to all ----------------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> None:
        if self._run is not None:
            self._run.log(metrics, step)
        else:
            self._call("log", metrics, step=step, commit=commit)

    def log_config(self, config: Mapping[str, Any]) -> None:
        if self._run is not None:
            self._run.config.update(config)
        else:
            self._call("log_config", config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        if self._run is not None:
            self._run.table(key, [dict(zip(columns, row, strict=False)) for row in data])
        else:
            self._call("log_table", key, columns, data)

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        if self._run is None:
            self._call("log_image", key, image_path, caption=caption)
            return
        try:
            self._run.log({key: Image(image_path, caption or "")})
        except (OSError, ValueError) as error:
            logger.warning("%r is no picture that can be kept: %s", str(image_path), error)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        if self._run is None:
            self._call("log_artifacts", artifacts)
            return
        for name, path in artifacts.items():
            self._run.artifact(path, name)

    def watch(self, model: Any, **options: Any) -> None:
        self._call("watch", model, **options)

    def finish(self, timeout: float = 30) -> None:
        """End all backends; of a run, when they have everything."""
        if self._run is not None:
            self._run.finish(timeout)
        else:
            self._call("finish")

    # -- to one ----------------------------------------------------------------------------------------------------

    def get_backend(self, name: str) -> Any:
        """The backend of a name; None where there is none."""
        return next((one for one in reversed(self.backends) if _name(one) == name), None)

    @property
    def wandb_run(self) -> Any:
        """W&B's own run; waits until it has begun. None without one."""
        backend = self.get_backend("wandb")
        return None if backend is None else backend.run

    def _call(self, method: str, *args: Any, **kwargs: Any) -> None:
        for backend in self.backends:
            if not callable(call := getattr(backend, method, None)):
                continue
            try:
                call(*args, **kwargs)
            except Exception as error:
                if (id(backend), method) not in self._warned:
                    self._warned.add((id(backend), method))
                    logger.warning(
                        "backend %s.%s() failed: %s: %s", _name(backend), method, type(error).__name__, error
                    )


class NullTracker(Tracker):
    """No backends: everything is accepted, and nothing is done with it."""

    def __init__(self) -> None:
        super().__init__()

    def bind(self, run: Run) -> None:
        """It keeps to itself: what a history records, it records without it."""


class Wandb:
    """The run of the `wandb` sink, which works on a thread of its own."""

    name = "wandb"

    def __init__(self) -> None:
        self._chiplog: Run | None = None
        self._native: Any = None

    def bind(self, run: Run) -> None:
        self._chiplog = run

    @property
    def run(self) -> Any:
        """W&B's own object, as soon as it is there; None where W&B is disabled, cannot begin, or on another rank."""
        until = time.monotonic() + START
        while self._native is None and self._chiplog is not None and not self._chiplog.inert:
            sink = self._chiplog.sink("wandb")
            self._native = getattr(sink, "native", None)
            state = self._chiplog.health()["sinks"].get("wandb", {})
            if self._native is not None or state.get("errors"):
                break
            if time.monotonic() > until:
                logger.warning("W&B has not begun a run within %g s", START)
                break
            time.sleep(0.02)
        return self._native

    def watch(self, model: Any, **options: Any) -> Any:
        """W&B's `watch`: gradients and weights of a torch model."""
        return None if (run := self.run) is None else run.watch(model, **options)


class ActiveWandb(TrackerBackend):
    """A run that somebody began with `wandb.init`: it gets every row, and stays theirs to finish."""

    name = "wandb"

    def __init__(self, run: Any) -> None:
        self.run = run

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> None:
        self.run.log({**metrics, **({} if step is None else {"step": step})}, commit=commit)

    def log_config(self, config: Mapping[str, Any]) -> None:
        self.run.config.update(dict(config), allow_val_change=True)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        import wandb

        self.run.log({key: wandb.Table(columns=list(columns), data=[list(row) for row in data])})

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:
        import wandb

        self.run.log({key: wandb.Image(image_path, caption=caption)})

    def watch(self, model: Any, **options: Any) -> Any:
        return self.run.watch(model, **options)

    def finish(self) -> None:
        pass


def open_backends(
    names: Sequence[str], *, project_name: str | None, config: Mapping[str, Any], outdir: str | Path | None
) -> tuple[dict[str, Any], list[Any]]:
    """The sinks for backends by name, and their faces; one that is unknown or does not work is warned of."""
    sinks: dict[str, Any] = {}
    faces: list[Any] = []
    rank = ranks.detect(os.environ).rank
    for name in names:
        if name == "wandb" and name not in _registered and wandb_is_off(os.environ):
            continue
        try:
            if name in _registered:
                given = {"project_name": project_name, "config": dict(config), "outdir": outdir, "rank": rank}
                face = _make(_registered[name], given)
                sinks[name] = face
            else:
                sinks[name], face = _built_in(name, project_name, config, outdir)
        except ChiplogError as error:
            known = [*registry.BUILT_IN, *_registered, registry.NONE]
            logger.warning("backend %r is left out: %s; there are: %s", name, error, ", ".join(known))
        except Exception as error:
            logger.warning("backend %r is left out: %s: %s", name, type(error).__name__, error)
        else:
            faces.append(face)
    return sinks, faces


def wandb_is_off(environ: Mapping[str, str]) -> bool:
    return environ.get("WANDB_MODE") == "disabled" or environ.get("WANDB_DISABLED", "").lower() not in OFF


def _built_in(name: str, project_name: str | None, config: Mapping[str, Any], outdir: str | Path | None) -> Any:
    if name == "csv":
        from chiplog.sinks.csv import Csv

        sheet = Csv(Path(outdir or "."), config=config, joined=False)
        return sheet, _Face(name, sheet)
    registry.is_service(name)  # fails for what is not there
    options: dict[str, Any] = {}
    if name == "wandb":
        options = {"project": project_name} if project_name else {}
        return options, Wandb()
    if name == "mlflow":
        options = {"prefix": "ezpz.", **({"experiment": project_name} if project_name else {})}
    return options, _Face(name, None)


class _Face:
    """A sink by its name, for `get_backend`."""

    def __init__(self, name: str, sink: Any) -> None:
        self.name, self.sink = name, sink


def setup_tracker(
    project_name: str | None = None,
    backends: str | Iterable[str] | None = None,
    config: Mapping[str, Any] | None = None,
    outdir: str | Path | None = None,
    **options: Any,
) -> Tracker:
    """A tracker with a run of its own; a `NullTracker` where no backend is left."""
    sinks, faces = open_backends(
        resolve_backend_names(backends), project_name=project_name, config=config or {}, outdir=outdir
    )
    if not faces:
        return NullTracker()
    tracker = Tracker(faces)
    bind(tracker, begin(project_name, config or {}, sinks, **options))
    return tracker


def begin(project_name: str | None, config: Mapping[str, Any], sinks: Mapping[str, Any], **options: Any) -> Run:
    """A run with these sinks; W&B within this process, so that its own object can be reached."""
    return assembly.init(
        project=layout.slug(project_name) if project_name else None,
        name=project_name,
        config=dict(config),
        sinks=dict(sinks) or "none",
        relay="thread" if "wandb" in sinks else "auto",
        **options,
    )


def bind(tracker: Tracker, run: Run) -> None:
    """Let a tracker and its faces belong to a run."""
    tracker.bind(run)
    for face in tracker.backends:
        if isinstance(face, Wandb):
            face.bind(run)


def _make(factory: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """What a class makes of those facts it has parameters for."""
    parameters = inspect.signature(factory).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return factory(**given)
    return factory(**{key: value for key, value in given.items() if key in {one.name for one in parameters}})


def _name(backend: Any) -> str:
    return str(getattr(backend, "name", "") or type(backend).__name__).lower()
