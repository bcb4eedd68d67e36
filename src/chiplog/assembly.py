"""The composition root: `init` turns settings into a journal, stages, rules, sinks and probes, and returns a `Run`.

What every run needs is imported with the package, so that `init` is quick; what only some need is imported where they
ask for it, so that `import chiplog` is quick (docs/decisions/0003-imports.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.core import notes, records, run, settings, values
from chiplog.core.clock import Clock
from chiplog.core.ending import Delivery
from chiplog.core.errors import BadSetting, ChiplogError, RunExists, RunNotFound
from chiplog.core.identity import Identity
from chiplog.core.keeper import Keeper
from chiplog.core.protocols import Probe, Rule, Sink, Stage, Times
from chiplog.core.redact import redact, redact_text
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.metrics import defaults
from chiplog.runtime import exits, introduction, metering
from chiplog.runtime import ranks as ranks_
from chiplog.store import baselines, disks, journal, layout, manifest, process
from chiplog.version import VERSION

if TYPE_CHECKING:
    from chiplog.runtime.meeting import Meeting
    from chiplog.runtime.reduce import Reduce
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
    ranks: str | None = None,
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
    begin = _settle(config, sinks, probes, stages, rules, given)
    if run.current is not None:
        if not run.current.inert:
            notes.say(f"run {run.current.id} was still open and is finished now")
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
    """As `init`, but the current run goes on and stays it; where there is none, this one is. For front ends."""
    made = _settle(config, sinks, probes, stages, rules, more)()
    if run.current is None or run.current.inert:
        run.current = made
    return made


def attach(dir: str | Path) -> Run:
    """Open a journal of this process's own in a run that another process has begun; for forked and spawned workers."""
    environ = dict(os.environ)
    path = Path(dir).expanduser().absolute()
    disks.reach(path)
    if not disks.patiently(path, (path / layout.JOURNAL).is_dir):
        raise RunNotFound(f"there is no run in {str(path)!r}; give the `dir` of the run to join")
    stored = _stored(path)
    launch = stored.attempts[-1].launch if stored.attempts else os.urandom(8).hex()
    identity = Identity(stored.project, stored.id, path, stored.name, launch, stored.tags, *ranks_.detect(environ)[:2])
    made = _open(identity, Settings(compact=False), {}, attached=True)
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
    from chiplog.store import index

    return _stored(index.find(which, runs_dir(dir)))


def runs(dir: str | Path | None = None, project: str | None = None) -> list[Stored]:
    """All runs under a directory, oldest first."""
    from chiplog.store import index

    return index.runs(runs_dir(dir), project)


def runs_dir(dir: str | Path | None = None) -> Path:
    """Where runs are kept: the argument, `CHIPLOG_DIR`, the settings file, or `runs`."""
    return Path(settings.load({}, os.environ, Path.cwd()).dir if dir is None else dir).expanduser()


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
    plain = values.plain(config)
    if not isinstance(plain, dict):
        raise BadSetting(f"config is a mapping, a dataclass or an argparse namespace, not {type(config).__name__}")
    return {**chosen.config, **plain}


def _settle(
    config: Any,
    sinks: str | Iterable[Any] | Mapping[str, Any] | None,
    probes: str | Iterable[Any] | Mapping[str, Any] | Probe | None,
    stages: Sequence[Stage],
    rules: Sequence[Rule],
    given: Mapping[str, Any],
) -> Callable[[], Run]:
    """What begins a run, once all settings are known to be good."""
    environ = dict(os.environ)
    named, objects = _split_sinks(sinks)
    sampled, own = _split_probes(probes)
    place = None if given.get("dir") is None else os.fspath(given["dir"])
    chosen = settings.load({**given, "sinks": named, "probes": sampled, "dir": place}, environ, Path.cwd())
    known = _plain_config(config, chosen)
    return partial(make, chosen, known, objects, environ, stages=stages, rules=rules, probes=own)


def make(
    chosen: Settings,
    config: dict[str, Any],
    objects: list[tuple[str | None, Any]],
    environ: Mapping[str, str],
    *,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    probes: Sequence[Probe] = (),
) -> Run:
    """Begin a run beside the current one, by settled settings: for front ends that keep several."""
    project, run_id = _which(chosen, environ)
    mine = ranks_.detect(environ)
    launch = _launch(chosen, mine.world, environ)
    apart = chosen.ranks == "all" and not launch  # the ranks do not know yet which launch they are
    meeting = _meet(chosen, mine, environ, agree=apart)
    if meeting is not None and meeting.group is not None:
        run_id, launch = meeting.agree(run_id, launch or os.urandom(8).hex(), must=apart)
    if not launch:
        raise BadSetting(
            f"ranks='all' with {mine.world} processes: they must agree on a run; set CHIPLOG_RUN_ID to the same new "
            "value for all of them, call init() when torch.distributed, JAX or MPI is set up, or start them with a "
            "scheduler that says which job this is"
        )
    identity = _identity(chosen, project, run_id, launch, mine, config)
    reduce = meeting.reduce(mine) if meeting is not None else None
    stages = [*defaults.stages(chosen.smooth), *stages, *([reduce] if reduce is not None and reduce.is_stage else [])]
    if chosen.mode == "disabled" or (chosen.ranks == "main" and mine.rank != 0):
        if reduce is None:
            return run.inert(identity, config, reason="")
        return _take_part(identity, chosen, stages, reduce, _open_probes(chosen, mine.local, environ))
    _check_resume(chosen, identity)
    sinks, services = _open_sinks(chosen, objects, identity, environ) if mine.rank == 0 else ({}, {})
    probes = [*_open_probes(chosen, mine.local, environ), *probes]
    made = _open(
        identity,
        chosen,
        sinks,
        config=config,
        stages=stages,
        rules=[*defaults.rules(chosen.alerts), *rules],
    )
    if chosen.capture:
        _capture(made)
    if mine.rank == 0:
        introduction.introduce(made, environ)
    if services:
        _relay(made, services, environ)
    if reduce is not None:
        _join_ranks(made, reduce)
    for probe in probes:
        _sample(made, probe, reduce)
    return made


def _identity(
    chosen: Settings, project: str, run_id: str, launch: str, mine: ranks_.Ranks, config: Mapping[str, Any]
) -> Identity:
    """What the run is called everywhere, when its place can be reached; a resumed one keeps its name."""
    root = Path(chosen.dir).expanduser().absolute()
    path = root / layout.check_slug("project", project) / layout.check_slug("id", run_id)
    if chosen.mode != "disabled":
        disks.reach(path)
    return Identity(
        project,
        run_id,
        path,
        redact_text(chosen.name or manifest.load(path).name),
        launch,
        tuple(map(redact_text, chosen.tags)),
        *mine[:2],
        0,
        redact(config),
        str(Path.cwd()),
        introduction.script(),
    )


def _check_resume(chosen: Settings, identity: Identity) -> None:
    """Refuse to go on with a run, or to begin one, against what `resume` says; and say which of both it is."""
    path, which = identity.dir, f"{identity.project}/{identity.id}"
    existed = disks.patiently(path, (path / layout.JOURNAL).is_dir)
    # With journals on all ranks, another rank may have made the directory a moment ago.
    before = existed and any(segment.rank == identity.rank for segment in layout.segments(path))
    if before and chosen.resume == "never":
        raise RunExists(f"run {which} is there already, and resume='never': {path}")
    if not existed and chosen.resume == "must":
        raise RunNotFound(f"there is no run {which} in {path.parent.parent} to go on with, and resume='must'")
    if before and chosen.resume is None and identity.rank == 0:
        notes.say(f"run {which} is there already; this is a new attempt of it")
    if not existed and chosen.resume not in (None, "never"):
        notes.say(f"there is no run {which} in {path.parent.parent}; it begins anew under that id")


def _open_probes(chosen: Settings, local: int, environ: Mapping[str, str]) -> list[Probe]:
    """The probes by name: one process of a machine is enough to ask it."""
    named = {name: options for name, options in chosen.probes.items() if name != "none"}
    if not named or local or environ.get("LOCAL_RANK", environ.get("SLURM_LOCALID", "0")) != "0":
        return []
    from chiplog.probes import registry

    return [registry.open_named(name, options, environ) for name, options in named.items()]


def _meet(chosen: Settings, mine: ranks_.Ranks, environ: Mapping[str, str], *, agree: bool) -> Meeting | None:
    """Where there are other ranks: the way to them."""
    if chosen.mode == "disabled" or (mine.world < 2 and chosen.reduce is None):
        return None
    from chiplog.runtime.meeting import meet

    return meet(mine, chosen.reduce, environ, agree=agree)


def _take_part(
    identity: Identity, chosen: Settings, stages: Sequence[Stage], reduce: Reduce, probes: Sequence[Probe]
) -> Run:
    """The run of a rank that writes nothing: its rows are part of the statistics, and that is all."""
    from chiplog.core.blank import Blank
    from chiplog.runtime.pending import Pending

    keeper = Keeper("keeper")
    made = Run(
        identity, Blank(), clock=Clock(), config=identity.config, keeper=keeper, stages=stages, waiting=Pending(),
        meters=metering.meter, times=_step_times, strict=chosen.strict,
    )  # fmt: skip
    keeper.add(made.chores.tend)
    keeper.start()
    exits.finish_at_exit(made)
    _join_ranks(made, reduce)
    for probe in probes:  # what they see of a device may explain that a rank of this machine is slow
        _sample(made, probe, reduce)
    return made


def _join_ranks(made: Run, reduce: Reduce) -> None:
    made.before_finish(reduce.close)
    reduce.start(made)


def _sample(made: Run, probe: Probe, reduce: Reduce | None = None) -> None:
    from chiplog.probes.sampler import Sampler

    def take(name: str, data: Mapping[str, Any]) -> None:
        made.event(name, **data)
        if reduce is not None and name == "gpu":
            reduce.tell_device(data)

    sampler = Sampler(probe, take)
    made.before_finish(sampler.stop)
    sampler.start()


def _open_sinks(
    chosen: Settings, objects: list[tuple[str | None, Any]], identity: Identity, environ: Mapping[str, str]
) -> tuple[dict[str, Sink], dict[str, dict[str, Any]]]:
    """The sinks that run here, and the services for the relay with their options."""
    named = {name: options for name, options in chosen.sinks.items() if name != "none"}
    if not named and not objects:
        return {}, {}
    from chiplog.sinks import registry

    opened: dict[str, Sink] = {}
    services = {name: options for name, options in named.items() if registry.is_service(name)}
    for name, options in named.items():
        registry.check_options(name, options)
        if name not in services:
            opened[name] = registry.open_named(name, options, identity, environ)
        elif chosen.relay == "thread":
            opened[name] = registry.open_service(name, options, identity, environ)
    return {**opened, **registry.open_objects(objects, identity)}, services if chosen.relay == "auto" else {}


def _relay(made: Run, services: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]) -> None:
    """Start the process that brings the journal to the services, and let it have a part in the run's delivery."""
    from chiplog.sinks.relay import Relay

    identity = made.identity
    relay = Relay(identity.dir, layout.Segment(identity.rank, identity.attempt, 0), services, environ)
    made.keep(relay.tend)
    made.post = relay.beside(made.post)


def _stored(path: Path) -> Stored:
    from chiplog.store.reader import Stored

    return Stored(path)


def _capture(made: Run) -> None:
    """Keep what is printed, from here on; but for the lines of the console sink, which are rows of the journal."""
    from chiplog.runtime.capture import Capture

    capture = Capture(made.write, made.now)
    made.chores.collecting.append(capture.collect)
    made.before_finish(capture.close)
    capture.open()


def _step_times() -> Times:
    from chiplog.metrics.timing import StepTimes

    return StepTimes()


def _which(chosen: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    """(project, id) of the run to write."""
    if chosen.resume not in (None, "must", "never"):
        project, slash, run_id = chosen.resume.partition("/")
        if not slash:
            raise BadSetting(
                f"resume = {chosen.resume!r}: give None, 'must', 'never', or a token of run.resume_token() (project/id)"
            )
        return project, run_id
    known = chosen.id or environ.get("CHIPLOG_RUN_ID")
    if not known and chosen.resume == "must":
        raise BadSetting("resume='must' needs the id of the run to go on with: init(id=..., resume='must')")
    if not known and chosen.ranks == "all" and (job := ranks_.job_id(environ)):
        known = layout.slug(job)
    return chosen.project, known or layout.new_id()


def _launch(chosen: Settings, world: int, environ: Mapping[str, str]) -> str:
    """What tells this start from others; with journals on all ranks the same on each of them, or empty: not known."""
    if chosen.ranks == "main" or world == 1:
        return os.urandom(8).hex()
    return ranks_.launch_id(environ) or environ.get("CHIPLOG_RUN_ID", "")


def _open(
    identity: Identity,
    chosen: Settings,
    sinks: Mapping[str, Any],
    *,
    config: Mapping[str, Any] | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    attached: bool = False,
) -> Run:
    """Open the journal and everything around it; the attempt record is its first line."""
    from chiplog.runtime.pending import Pending
    from chiplog.runtime.watch import Watch

    path = identity.dir
    segment, fd = disks.patiently(path, lambda: journal.open_attempt(path, identity.rank))
    durability = chosen.durability or disks.durability(path)
    keeper = Keeper("keeper")
    pages = journal.Journal(path, segment, fd, durability=durability, wake=keeper.wake)
    clock = Clock()
    made = Run(
        msgspec.structs.replace(identity, attempt=segment.attempt),
        pages,
        clock=clock,
        config=identity.config if config is None else config,
        keeper=keeper,
        stages=stages,
        rules=rules,
        waiting=Pending(),
        watcher=Watch(),
        reread=lambda: _stored(path),
        remember=lambda state: baselines.save(path, identity.rank, state),
        meters=metering.meter,
        times=_step_times,
        strict=chosen.strict,
    )
    if segment.attempt > 1 and not attached:
        made.recall(baselines.load(path, identity.rank))
    pid = os.getpid()
    made.write(
        records.Attempt,
        attempt=segment.attempt,
        launch=identity.launch,
        rank=identity.rank,
        world=identity.world,
        host=process.hostname(),
        pid=pid,
        monotonic=clock.monotonic,
        durability=durability,
        version=VERSION,
        boot=process.boot_id(),
        born=process.born(pid),
        attached=attached,
    )
    if sinks:
        from chiplog.sinks.delivery import deliver

        made.post = deliver(path, segment, sinks)
    keeper.add(pages.tend)
    keeper.add(made.chores.tend)
    keeper.start()
    if chosen.compact and identity.rank == 0:
        made.at_finish(lambda: _compact(path) if pages.settled else None)
    if chosen.on_signal == "flush":
        exits.flush_on_signal(made)
    exits.finish_at_exit(made)
    return made


def _compact(path: Path) -> None:
    from chiplog.runtime.compaction import compact_beside

    compact_beside(path, os.environ)
