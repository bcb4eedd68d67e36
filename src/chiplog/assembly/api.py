"""What users call: `init` and what else is a function of the package. Arguments become settings here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiplog.assembly.run_choice import make
from chiplog.assembly.wiring import open_run, stored_run
from chiplog.core import messages, records, run, settings
from chiplog.core.engine.shutdown import Delivery
from chiplog.core.errors import BadSetting, ChiplogError, RunNotFound
from chiplog.core.identity import Identity
from chiplog.core.protocols import Probe, Rule, Stage
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.core.values import convert
from chiplog.runtime.ranks import detect as ranks_
from chiplog.store import layout
from chiplog.store.journal import file_systems

if TYPE_CHECKING:
    from chiplog.store.reader import Stored


def init(
    project: str | None = None,
    name: str | None = None,
    config: Any = None,
    sinks: str | Iterable[Any] | Mapping[str, Any] | None = None,
    *,
    dir: str | Path | None = None,
    id: str | None = None,
    resume: str | None = None,
    tags: Sequence[str] | str | None = None,
    ranks: str | int | Sequence[int] | None = None,
    reduce: bool | str | None = None,
    durability: str | None = None,
    relay: str | None = None,
    on_signal: str | None = None,
    strict: bool | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    probes: str | Iterable[Any] | Mapping[str, Any] | Probe | None = None,
    **more: Any,
) -> Run:
    """Begin a run, or go on with one, and make it the current one.

    >>> with chiplog.init(project="tiny-lm", config={"lr": 3e-4}, sinks="console,csv") as run:
    ...     run.log({"train/loss": 2.5}, step=0)
    """
    given = {
        "project": project, "name": name, "dir": dir, "id": id, "resume": resume, "tags": tags, "ranks": ranks,
        "reduce": reduce, "durability": durability, "relay": relay, "on_signal": on_signal, "strict": strict, **more,
    }  # fmt: skip
    begin = _settle(config, sinks, probes, stages, rules, given, succeed=True, elsewhere=False)
    if run.current is not None:
        if not run.current.inert and not run.current.held:
            messages.say(f"run {run.current.id} was still open and is finished now")
        run.current.finish()
    made = run.current = begin()
    return made


def beside(
    config: Any = None,
    sinks: str | Iterable[Any] | Mapping[str, Any] | None = None,
    *,
    probes: str | Iterable[Any] | Mapping[str, Any] | Probe | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    **more: Any,
) -> Run:
    """As `init`, but the current run goes on and stays it; where there is none, this one is. For front ends: a place
    that cannot be written is no error, but the run is kept elsewhere."""
    made = _settle(config, sinks, probes, stages, rules, more)()
    if run.current is None or run.current.inert:
        run.current = made
    return made


def attach(dir: str | Path) -> Run:
    """Open a journal of this process's own in a run that another process has begun; for forked and spawned workers."""
    environ = dict(os.environ)
    path = Path(dir).expanduser().absolute()
    file_systems.reach(path)
    if not file_systems.patiently(path, (path / layout.JOURNAL).is_dir):
        raise RunNotFound(f"there is no run in {str(path)!r}; give the `dir` of the run to join")
    stored = stored_run(path)
    begun = [one.launch for one in stored.attempts if one.start is not None]  # another may be opening its journal
    launch = begun[-1] if begun else os.urandom(8).hex()
    identity = Identity(stored.project, stored.id, path, stored.name, launch, stored.tags, *ranks_.detect(environ)[:2])
    made = open_run(identity, Settings(compact=False), {}, attached=True)
    run.current = made
    return made


def current() -> Run:
    """The run that `init` began last, also when it has finished."""
    if (last := run.current or run.previous) is None:
        raise ChiplogError("there is no run: call chiplog.init() first")
    return last


def log(metrics: Mapping[str, Any], step: int | float | None = None) -> records.Row:
    """`Run.log` on the current run."""
    return current().log(metrics, step)


def finish(timeout: float = 30) -> Delivery:
    """`Run.finish` on the current run; nothing when there is none."""
    return run.current.finish(timeout) if run.current is not None else Delivery(True, {})


def read(which: str | Path = "latest", *, dir: str | Path | None = None) -> Stored:
    """A stored run: by its path, its id or the beginning of it, its name, or `latest`."""
    from chiplog.store.runs import find

    return stored_run(find.find(which, runs_dir(dir)))


def runs(dir: str | Path | None = None, project: str | None = None) -> list[Stored]:
    """All runs under a directory, oldest first."""
    from chiplog.store.runs import find

    return find.runs(runs_dir(dir), project)


def runs_dir(dir: str | Path | None = None) -> Path:
    """Where runs are kept: the argument, `CHIPLOG_DIR`, the settings file, or `runs`."""
    return Path(settings.load({}, os.environ, Path.cwd()).dir if dir is None else dir).expanduser()


def _settle(
    config: Any,
    sinks: str | Iterable[Any] | Mapping[str, Any] | None,
    probes: str | Iterable[Any] | Mapping[str, Any] | Probe | None,
    stages: Sequence[Stage],
    rules: Sequence[Rule],
    given: Mapping[str, Any],
    *,
    succeed: bool = False,
    elsewhere: bool = True,
) -> Callable[[], Run]:
    """What begins a run, once all settings are known to be good."""
    environ = dict(os.environ)
    named, objects = _split_sinks(sinks)
    sampled, own = _split_probes(probes)
    place = None if given.get("dir") is None else os.fspath(given["dir"])
    chosen = settings.load({**given, "sinks": named, "probes": sampled, "dir": place}, environ, Path.cwd())
    known = _plain_config(config, chosen)
    how: dict[str, Any] = {"stages": stages, "rules": rules, "probes": own, "succeed": succeed, "elsewhere": elsewhere}
    return partial(make, chosen, known, objects, environ, **how)


def _split_sinks(sinks: Any) -> tuple[Any, list[tuple[str | None, Any]]]:
    """Names for the settings, and objects as they are, each with the name it was given."""
    if sinks is None or isinstance(sinks, str):
        return sinks, []
    if isinstance(sinks, Mapping):
        options = {name: one or {} for name, one in sinks.items() if one is None or isinstance(one, Mapping)}
        return options, [(name, one) for name, one in sinks.items() if name not in options]
    if callable(sinks) or hasattr(sinks, "write") or not isinstance(sinks, Iterable):
        return (), [(None, sinks)]
    listed = list(sinks)
    return [one for one in listed if isinstance(one, str)], [(None, one) for one in listed if not isinstance(one, str)]


def _split_probes(probes: Any) -> tuple[Any, list[Probe]]:
    """Names for the settings, and objects as they are."""
    if probes is None or isinstance(probes, str):
        return probes, []
    if isinstance(probes, Mapping):
        return {name: options or {} for name, options in probes.items()}, []
    listed = [probes] if hasattr(probes, "sample") else list(probes)
    names = [one for one in listed if isinstance(one, str)]
    return names or None, [one for one in listed if not isinstance(one, str)]


def _plain_config(config: Any, chosen: Settings) -> dict[str, Any]:
    if config is None:
        return dict(chosen.config)
    if not isinstance(config, Mapping) and hasattr(config, "__dict__") and not hasattr(config, "__dataclass_fields__"):
        config = vars(config)  # argparse.Namespace and the like
    plain = convert.plain(config)
    if not isinstance(plain, dict):
        raise BadSetting(f"config is a mapping, a dataclass or an argparse namespace, not {type(config).__name__}")
    return {**chosen.config, **plain}
