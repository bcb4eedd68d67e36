"""Backends by name, and a tracker that gives each of them everything: a face of a run and its sinks.

A tracker that belongs to a run writes into the run; the sinks bring it to the backends from the journal, each on a
thread of its own, so a backend that fails or is slow disturbs nobody. A tracker made of objects alone calls them.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog import assembly
from chiplog.core.errors import ChiplogError
from chiplog.core.run import Run
from chiplog.frontends.ezpz.backends.built_in import (
    CSVBackend,
    Face,
    MLflowBackend,
    Named,
    WandbBackend,
    wandb_is_off,
)
from chiplog.frontends.ezpz.backends.custom import by_update, call_each
from chiplog.frontends.ezpz.backends.service_runs import ActiveWandb
from chiplog.frontends.ezpz.writer import Writer
from chiplog.runtime.ranks import detect
from chiplog.sinks import registry
from chiplog.sinks.adapters.backends import TrackerBackend
from chiplog.store import layout

if TYPE_CHECKING:
    from chiplog.frontends.ezpz.backends.other_ranks import OtherRank

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
FACES: dict[str, type[Face]] = {"csv": CSVBackend, "mlflow": MLflowBackend, "wandb": WandbBackend}

_registered: dict[str, Callable[..., Any]] = {}


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Let `backends="name"` mean this class; a later one of the same name, ours included, goes before."""
    _registered[name.lower()] = backend


def resolve_backend_names(backends: str | Iterable[str] | None) -> list[str]:
    """The names that are meant, each once, in small letters; none for "none".

    Without any, those of `EZPZ_TRACKER_BACKENDS`.
    """
    if backends is None:
        backends = next((found for name in VARIABLES if (found := os.environ.get(name))), "")
    listed = backends.split(",") if isinstance(backends, str) else [str(one) for one in backends]
    names = dict.fromkeys(name.strip().lower() for name in listed if name.strip())
    return [name for name in names if name != "none"]


class Tracker:
    """What a `History` gives its metrics to. Every method reaches all backends; one that fails is warned of, once."""

    def __init__(self, backends: Iterable[Any] = ()) -> None:
        self.backends = list(backends)
        self._begin: Callable[[], Run] | None = None  # where it has a run of its own that has not begun
        self._feed: Writer | None = None
        self._elsewhere: OtherRank | None = None
        self._warned: set[tuple[int, str]] = set()

    def bind(self, feed: Writer) -> None:
        """Belong to a run, whose sinks the backends are; on a rank without a journal, your own are called from here."""
        self._begin, self._feed = None, feed
        for face in self.backends:
            if isinstance(face, Face):
                face.bind(feed)
        own = [one for one in self.backends if not isinstance(one, (Face, ActiveWandb))]
        if own and feed.run.identity.rank != 0:
            from chiplog.frontends.ezpz.backends.other_ranks import OtherRank

            self._elsewhere = OtherRank(own, _name)
            if config := feed.run.identity.config:
                self._elsewhere.call("log_config", config)

    def adopt(self) -> Writer | None:
        """For a history, which begins the run now; or the run that this tracker has begun already."""
        self._begin = None
        return self._feed

    @property
    def project_name(self) -> str | None:
        """What the backends were given as the project."""
        return next((one.project_name for one in self.backends if isinstance(one, Face) and one.project_name), None)

    @property
    def config(self) -> dict[str, Any]:
        """What they were given as the config, all of it."""
        return {key: value for one in self.backends if isinstance(one, Face) for key, value in one.config.items()}

    # -- to all ----------------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> None:
        if (feed := self._open()) is None:
            self._call("log", metrics, step=step, commit=commit)
            return
        feed.log(metrics, step, commit)
        self.forward(metrics, step, commit)

    def forward(self, metrics: Mapping[str, Any], step: int | float | None, commit: bool) -> None:
        """Give a row that has been recorded to backends that no journal reaches."""
        if self._elsewhere is not None:
            self._elsewhere.log(metrics, step, commit)

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._pass("log_config", config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        self._pass("log_table", key, columns, data)

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        self._pass("log_image", key, image_path, caption=caption)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        self._pass("log_artifacts", artifacts)

    def watch(self, model: Any, **options: Any) -> None:
        self._open()
        self._call("watch", model, **options)

    def finish(self, timeout: float = 30) -> None:
        """End all backends; of a run, when they have everything."""
        if (feed := self._open()) is None:
            self._call("finish")
            return
        if self._elsewhere is not None:
            self._elsewhere.finish(timeout)
        feed.run.finish(timeout)

    # -- to one ----------------------------------------------------------------------------------------------------

    def get_backend(self, name: str) -> Any:
        """The backend of a name; None where there is none."""
        return next((one for one in reversed(self.backends) if _name(one) == name), None)

    @property
    def wandb_run(self) -> Any:
        """W&B's own run; waits until it has begun. None without one."""
        return self._native("wandb")

    @property
    def mlflow_run(self) -> Any:
        """MLflow's run, with its id, parameters and newest metrics; waits until it has begun. None without one."""
        return self._native("mlflow")

    def _native(self, name: str) -> Any:
        self._open()
        return getattr(self.get_backend(name), "run", None)

    def _open(self) -> Writer | None:
        if self._begin is not None:
            self.bind(Writer(self._begin()))
        return self._feed

    def _pass(self, method: str, *args: Any, **kwargs: Any) -> None:
        if (feed := self._open()) is None:
            self._call(method, *args, **kwargs)
            return
        getattr(feed, method)(*args, **kwargs)
        if self._elsewhere is not None:
            self._elsewhere.call(method, *args, **kwargs)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> None:
        call_each(self.backends, method, args, kwargs, self._warned, _name)


class NullTracker(Tracker):
    """No backends: everything is accepted, and nothing is done with it."""

    def __init__(self) -> None:
        super().__init__()

    def bind(self, feed: Writer) -> None:
        """It keeps to itself: what a history records, it records without it."""


def open_backends(
    names: Sequence[str],
    *,
    project_name: str | None = None,
    config: Mapping[str, Any] | None = None,
    outdir: str | Path | None = None,
    rank: int | None = None,
    **options: Any,
) -> list[Any]:
    """The backends of names; one that is unknown or does not work is left out and warned of."""
    found: list[Any] = []
    rank = detect.detect(os.environ).rank if rank is None else rank
    given = {"project_name": project_name, "config": dict(config or {}), "outdir": outdir, "rank": rank, **options}
    for name in names:
        if name == "wandb" and name not in _registered and wandb_is_off(os.environ):
            continue
        try:
            if name in _registered:
                found.append(_make(_registered[name], given))
            elif name in FACES:
                found.append(FACES[name](**given))
            else:
                registry.is_service(name)  # fails for what is not there
                found.append(Named(name, **given))
        except ChiplogError as error:
            choices = [*dict.fromkeys((*registry.names()[:-1], *_registered)), registry.NONE]
            why = str(error).partition("; there are: ")[0]
            logger.warning("backend %r is left out: %s; there are: %s", name, why, ", ".join(choices))
        except Exception as error:
            logger.warning("backend %r is left out: %s: %s", name, type(error).__name__, error)
    return found


def sinks_of(backends: Iterable[Any]) -> dict[str, Any]:
    """The sinks that a run needs for backends to get what it records."""
    sinks: dict[str, Any] = {}
    for backend in backends:
        name = _name(backend)
        while name in sinks:
            name += "-2"
        if not isinstance(backend, Face):
            sinks[f"{name}-active" if isinstance(backend, ActiveWandb) else name] = by_update(backend)
        elif backend.writes:
            sinks[name] = backend.sink()
    return sinks


def setup_tracker(
    project_name: str | None = None,
    backends: str | Iterable[str] | None = None,
    config: Mapping[str, Any] | None = None,
    outdir: str | Path | None = None,
    rank: int | None = None,
    **options: Any,
) -> Tracker:
    """A tracker with a run of its own, unless a history takes it; a `NullTracker` where no backend is left.

    The options are given to the backends that know them: `entity`, `mode`, and so on.
    """
    known = dict(config or {})
    faces = open_backends(
        resolve_backend_names(backends), project_name=project_name, config=known, outdir=outdir, rank=rank, **options
    )
    if not faces:
        return NullTracker()
    tracker = Tracker(faces)
    tracker._begin = lambda: begin(project_name, known, sinks_of(faces))
    return tracker


def begin(project_name: str | None, config: Mapping[str, Any], sinks: Mapping[str, Any], **options: Any) -> Run:
    """A run with these sinks; W&B within this process, so that its own object can be reached."""
    return assembly.beside(
        project=layout.slug(project_name) if project_name else None,
        name=project_name,
        config=dict(config),
        sinks=dict(sinks) or "none",
        relay="thread" if "wandb" in sinks else "auto",
        **options,
    )


def _make(factory: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """What a class makes of those facts it has parameters for."""
    parameters = inspect.signature(factory).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return factory(**given)
    return factory(**{key: value for key, value in given.items() if key in {one.name for one in parameters}})


def _name(backend: Any) -> str:
    return str(getattr(backend, "name", "") or type(backend).__name__).lower()
