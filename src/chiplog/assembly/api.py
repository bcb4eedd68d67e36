"""The public functions of the package, such as `init`. Arguments become settings here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from chiplog.assembly.run_choice import make
from chiplog.assembly.wiring import open_run, stored_run
from chiplog.core import messages, records, run, settings
from chiplog.core.engine.shutdown import Delivery
from chiplog.core.errors import BadSetting, ChiplogError, RunNotFound
from chiplog.core.identity import Identity
from chiplog.core.operating_system import is_dir
from chiplog.core.protocols import Probe, Rule, Stage
from chiplog.core.records import Plain
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.core.values import convert
from chiplog.runtime.ranks import detect as ranks_
from chiplog.sinks import registry
from chiplog.store import layout
from chiplog.store.journal import file_systems

# Names separated by commas, a list of names and objects, or names with their options.
Choice: TypeAlias = str | Iterable[object] | Mapping[str, object] | None


def init(
    project: str | None = None,
    name: str | None = None,
    config: object = None,
    sinks: Choice = None,
    *,
    dir: str | Path | None = None,
    id: str | None = None,
    resume: str | bool | None = None,
    tags: Sequence[str] | str | None = None,
    ranks: str | int | Sequence[int] | None = None,
    reduce: bool | str | None = None,
    durability: str | None = None,
    relay: str | None = None,
    on_signal: str | None = None,
    strict: bool | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    probes: Choice | Probe = None,
    beside: bool = False,
    **more: object,
) -> Run:
    """Start a run, or continue one, and make it the current run.

    >>> with chiplog.init(project="tiny-lm", config={"lr": 3e-4}, sinks="console,csv") as run:
    ...     run.log({"train/loss": 2.5}, step=0)

    project: groups related runs; default "default".
    name: for people to read; default: the id.
    config: the run's configuration: a mapping, a dataclass or an argparse namespace.
    sinks: destinations: names ("console,csv"), names with options ({"wandb": {"entity": "me"}}), or objects; default
        "console".
    dir: the directory of all runs; default "runs".
    id: the run's own name in its project; default: made from the time.
    resume: "allow" continues the run with this id, or starts it; "must" and "never" insist; "auto" or True continues
        the newest run of the project that has not finished; a token of `run.resume_token()` continues that run.
    tags: words to find the run by.
    ranks: the ranks that keep a journal: "main", "all", "last", or their numbers; default "main".
    reduce: statistics across ranks: False, "sync", "async" and other options; default: asynchronously.
    durability: "process": on disk before `log` returns; "relaxed": up to 0.5 s later; "disk": synced; default: by
        file system.
    relay: where sinks for services run: "auto" in a process of their own, "thread" in this one.
    on_signal: "flush" flushes at SIGTERM, then does what SIGTERM did before.
    strict: whether errors in `log` raise instead of being reported.
    stages: functions `(row, step) -> row` called before a row is written.
    rules: functions `(row, step) -> Finding or None` called after it.
    probes: what to sample during training: "nvidia", "amd", "cpu", or objects.
    beside: leave the current run open and current; a process may have hundreds of runs open, such as one per trial.
    more: the other settings: permissions, mode, smooth, alerts, capture, compact (docs/settings.md).

    `CHIPLOG_*` variables and `chiplog.toml` set the same.
    """
    arguments = {
        "project": project, "name": name, "dir": dir, "id": id, "resume": resume, "tags": tags, "ranks": ranks,
        "reduce": reduce, "durability": durability, "relay": relay, "on_signal": on_signal, "strict": strict, **more,
    }  # fmt: skip
    start = _prepare(config, sinks, probes, stages, rules, arguments, succeed=True, elsewhere=False)
    if beside:
        return start()
    if run.current is not None:
        if not run.current.inert and not run.current.engine.recorder.held:
            messages.say(
                f"finished run {run.current.id}, which was still open, because it was the current run; "
                "init(beside=True) starts a run and leaves the current one open"
            )
        run.current.finish()
    run.current = start()
    return run.current


def beside(
    config: object = None,
    sinks: Choice = None,
    *,
    probes: Choice | Probe = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    **more: object,
) -> Run:
    """Start a run that becomes current only if no other run is; for front ends.

    If its directory cannot be written, the run is kept in a temporary one.
    """
    started = _prepare(config, sinks, probes, stages, rules, more)()
    if run.current is None or run.current.inert:
        run.current = started
    return started


def attach(dir: str | Path) -> Run:
    """Open a journal for this process in a run that another process has started; for forked and spawned workers.

    The records are part of the attempt that is running there. A second call in the same process returns the same run.
    """
    environ = dict(os.environ)
    path = Path(dir).expanduser().absolute()
    if (joined := run.current) is not None and joined.identity.attached and joined.dir == path and not joined.inert:
        return joined
    file_systems.reach(path)
    if not file_systems.patiently(path, lambda: is_dir(path / layout.JOURNAL)):
        raise RunNotFound(f"there is no run in {str(path)!r}; give the `dir` of the run to join")
    stored = stored_run(path)
    launches = [attempt.launch for attempt in stored.attempts if attempt.start is not None]
    launch = launches[-1] if launches else os.urandom(8).hex()  # none yet: another process is opening its journal
    rank, world = ranks_.detect(environ)[:2]
    identity = Identity(
        stored.project, stored.id, path, stored.name, launch, stored.tags, rank, world, attached=True
    )  # fmt: skip
    run.current = open_run(identity, Settings(compact=False), {})
    return run.current


def current() -> Run:
    """The run that `init` started last, even if it has finished."""
    if (last := run.current or run.previous) is None:
        raise ChiplogError("there is no run: call chiplog.init() first")
    return last


def log(
    metrics: Mapping[str, object] | None = None, step: int | float | None = None, *more: object, **named: object
) -> records.Row:
    """`Run.log` on the current run.

    In a spawned worker that has joined no run, nothing is kept, and training continues.
    """
    if run.current is None and run.previous is None and _is_worker():
        messages.once(
            "worker without a run",
            "this worker process has joined no run, and what is logged here is not kept; "
            "chiplog.attach(run.dir) opens a journal of its own",
        )
        return {}
    return current().log(metrics, step, *more, **named)


def _is_worker() -> bool:
    """Whether multiprocessing has started this process, which it can only have done if it is imported."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def finish(timeout: float = 30) -> Delivery:
    """`Run.finish` on the current run, if there is one."""
    return run.current.finish(timeout) if run.current is not None else Delivery(True, {})


def runs_dir(dir: str | Path | None = None) -> Path:
    """Where runs are kept: the argument, `CHIPLOG_DIR`, the settings file, or `runs`."""
    return Path(settings.load({}, os.environ, Path.cwd()).dir if dir is None else dir).expanduser()


def _prepare(
    config: object,
    sinks: Choice,
    probes: Choice | Probe,
    stages: Sequence[Stage],
    rules: Sequence[Rule],
    arguments: Mapping[str, object],
    *,
    succeed: bool = False,
    elsewhere: bool = True,
) -> Callable[[], Run]:
    """Check all settings; the result starts the run."""
    environ = dict(os.environ)
    named, objects = _split_sinks(sinks)
    sampled, own = _split_probes(probes)
    folder = arguments.get("dir")
    folder = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
    chosen = settings.load({**arguments, "sinks": named, "probes": sampled, "dir": folder}, environ, Path.cwd())
    if chosen.sinks.keys() != {"console"}:
        front_end = not succeed and sinks is not None  # it has chosen all of them
        chosen = msgspec.structs.replace(chosen, sinks=registry.with_console(chosen.sinks, add=not front_end))
    plain = _plain_config(config, chosen)
    start = partial(make, chosen, plain, objects, environ, succeed=succeed, elsewhere=elsewhere)
    return partial(start, stages=stages, rules=rules, probes=own)


def _split_sinks(sinks: object) -> tuple[object, list[tuple[str | None, object]]]:
    """Names for the settings, and objects, each with its name if it has one."""
    if sinks is None or isinstance(sinks, str):
        return sinks, []
    if isinstance(sinks, Mapping):
        options = {name: item or {} for name, item in sinks.items() if item is None or isinstance(item, Mapping)}
        return options, [(name, item) for name, item in sinks.items() if name not in options]
    if callable(sinks) or hasattr(sinks, "write") or not isinstance(sinks, Iterable):
        return (), [(None, sinks)]
    items = list(sinks)
    objects: list[tuple[str | None, object]] = [(None, item) for item in items if not isinstance(item, str)]
    return [item for item in items if isinstance(item, str)], objects


def _split_probes(probes: Any) -> tuple[object, list[Probe]]:
    """Names for the settings, and objects."""
    if probes is None or isinstance(probes, str):
        return probes, []
    if isinstance(probes, Mapping):
        return {name: options or {} for name, options in probes.items()}, []
    items = [probes] if hasattr(probes, "sample") else list(probes)
    names = [item for item in items if isinstance(item, str)]
    return names or None, [item for item in items if not isinstance(item, str)]


def _plain_config(config: object, chosen: Settings) -> dict[str, Plain]:
    if config is None:
        return dict(chosen.config)
    if not isinstance(config, Mapping) and hasattr(config, "__dict__") and not hasattr(config, "__dataclass_fields__"):
        config = vars(config)  # such as argparse.Namespace
    plain = convert.plain(config)
    if not isinstance(plain, dict):
        raise BadSetting(f"config is a mapping, a dataclass or an argparse namespace, not {type(config).__name__}")
    return {**chosen.config, **plain}
