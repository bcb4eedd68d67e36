"""Which run to open: decided by its settings, its ranks and the runs that exist."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chiplog.assembly.wiring import (
    enrol_for_sync,
    join_ranks,
    open_probes,
    open_run,
    open_sinks,
    start_capture,
    start_relay,
)
from chiplog.core import messages, run
from chiplog.core.errors import BadSetting, RunExists, RunNotFound, Unsupported, Unwritable
from chiplog.core.identity import Identity
from chiplog.core.operating_system import is_dir
from chiplog.core.protocols import Probe, Rule, Stage
from chiplog.core.records import Plain
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.core.values.redact import redact, redact_text
from chiplog.metrics.rules import defaults
from chiplog.runtime.process import start_events
from chiplog.runtime.ranks import detect as ranks_
from chiplog.store import layout, manifest
from chiplog.store.journal import file_systems
from chiplog.store.runs.state import state_of

if TYPE_CHECKING:
    from chiplog.runtime.ranks.reduce import Reduce
    from chiplog.runtime.ranks.rendezvous import Rendezvous


RESUME = (None, "allow", "must", "never", "auto")  # anything else is a token


def make(
    chosen: Settings,
    config: dict[str, Plain],
    objects: Sequence[tuple[str | None, object]],
    environ: Mapping[str, str],
    *,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    probes: Sequence[Probe] = (),
    succeed: bool = False,
    elsewhere: bool = True,
) -> Run:
    """Start a run next to the current one from complete settings; for front ends that keep several.

    With `succeed`, the first rank that logs something keeps the run if rank 0 logs nothing; where it has been said who
    keeps it, rows that are not kept are counted. With `elsewhere`, a run whose directory cannot be written is kept in a
    temporary one.
    """
    mine = ranks_.detect(environ)
    keepers = ranks_.keepers(chosen.ranks, mine)
    project, run_id, launch, rendezvous = _agree(chosen, mine, keepers, environ)
    if elsewhere and chosen.mode != "disabled" and keepers.include(mine.rank):
        chosen = _writable(chosen, project, run_id)
    identity = _identity(chosen, project, run_id, launch, mine, config)
    reduce = rendezvous.reduce(mine, keepers.main) if rendezvous is not None else None
    stages = [*defaults.stages(chosen.smooth), *stages, *([reduce] if reduce is not None and reduce.is_stage else [])]
    rules = [*defaults.rules(chosen.alerts), *rules]
    counts = succeed and chosen.ranks != "main" and mine.world > 1 and chosen.mode != "disabled"
    succeed = succeed and chosen.ranks == "main" and mine.world > 1 and chosen.mode != "disabled"
    main = mine.rank == keepers.main
    keeps = chosen.mode != "disabled" and keepers.include(mine.rank)
    if not keeps and reduce is None and not succeed and not counts:
        return run.inert(identity, config, reason="")
    if succeed or not keeps:
        from chiplog.assembly import other_ranks
    if not keeps:
        unkept = other_ranks.unkept_rows(identity, keepers, mine.local) if counts else None
        if reduce is None and unkept is not None:
            return other_ranks.stand_aside(identity, unkept)
        sampled = open_probes(chosen, mine.local, environ)
        if reduce is not None and not succeed:
            return other_ranks.take_part(identity, chosen, stages, reduce, sampled, unkept)
        return other_ranks.stand_by(identity, chosen, objects, stages, rules, environ, reduce, sampled)
    with _leaving_the_others(reduce):
        _check_resume(chosen, identity, main=main)
        sinks, services = open_sinks(chosen, objects, identity, environ) if main else ({}, {})
        probes = [*open_probes(chosen, mine.local, environ), *probes]
        opened = open_run(
            identity, chosen, sinks, config=config, stages=stages, rules=rules, services=services, main=main
        )
    if chosen.capture:
        start_capture(opened)
    if main:
        start_events.introduce(opened, environ)
    if services and chosen.mode == "offline":
        enrol_for_sync(opened.identity, services, environ)
    elif services:
        start_relay(opened, services, environ, here=chosen.relay == "thread")
    join_ranks(opened, reduce, probes)
    if succeed:
        other_ranks.announce_keeper(opened, other_ranks.claims(identity, chosen, environ))
    return opened


@contextmanager
def _leaving_the_others(reduce: Reduce | None) -> Iterator[None]:
    """If the run cannot be started, tell the other ranks that this one does not come."""
    try:
        yield
    except BaseException:
        if reduce is not None:
            reduce.abandon()
        raise


def _agree(
    chosen: Settings, mine: ranks_.Ranks, keepers: ranks_.Keepers, environ: Mapping[str, str]
) -> tuple[str, str, str, Rendezvous | None]:
    """The project, the run's id and the launch, on which all ranks agree, and the connection to the other ranks."""
    project, run_id = _which(chosen, environ, keepers)
    launch = _launch(keepers, mine.world, environ)
    apart = keepers.several and not launch  # the ranks do not know yet which launch they are
    rendezvous = _join(chosen, mine, environ, agree=apart)
    alone = rendezvous is None or rendezvous.group is None
    run_id = run_id or _new_id(chosen, mine, environ, keepers, alone=alone)
    if rendezvous is not None and rendezvous.group is not None:
        run_id, launch = rendezvous.agree(run_id, launch or os.urandom(8).hex(), must=apart, main=keepers.main)
    if not launch:
        raise BadSetting(
            f"ranks={chosen.ranks!r} with {mine.world} processes: they must agree on a run; set CHIPLOG_RUN_ID to the "
            "same new value for all of them, call init() when torch.distributed, JAX or MPI is set up, or start them "
            "with a scheduler that sets a job id"
        )
    return project, run_id, launch, rendezvous


def _which(chosen: Settings, environ: Mapping[str, str], keepers: ranks_.Keepers) -> tuple[str, str]:
    """(project, id) of the run to write; no id for a new one."""
    if chosen.resume not in RESUME:
        project, slash, run_id = str(chosen.resume).rpartition("/")
        if not slash:
            raise BadSetting(
                f"resume = {chosen.resume!r}: give 'allow', 'must', 'never', 'auto', or a token of run.resume_token() "
                "(project/id)"
            )
        return project, run_id
    run_id = chosen.id or environ.get("CHIPLOG_RUN_ID", "")
    if not run_id and chosen.resume == "auto":
        run_id = _unfinished(chosen) if not keepers.several else ""
    if not run_id and chosen.resume == "must":
        raise BadSetting("resume='must' needs the id of the run to continue: init(id=..., resume='must')")
    return chosen.project or "default", run_id


def _unfinished(chosen: Settings) -> str:
    """The id of the newest run of the project, and of this name if there is one, unless it has finished."""
    folder = _path(chosen, chosen.project, "any").parent
    runs = [(about.created, path, about) for path in layout.find_runs(folder) if (about := manifest.load(path))]
    named = [run for run in runs if chosen.name in (None, run[2].name)]
    if not named:
        return ""
    _, path, about = max(named, key=lambda run: (run[0], run[1].name))
    state = state_of(path)
    if state in ("failed", "interrupted", "killed", "lost"):
        messages.say(f"run {about.project}/{about.id} was {state} and is continued (resume='auto')")
        return about.id
    return ""


def _new_id(
    chosen: Settings, mine: ranks_.Ranks, environ: Mapping[str, str], keepers: ranks_.Keepers, *, alone: bool
) -> str:
    """A new id: that of the launch, if its ranks cannot reach each other (`alone`) or may be started again."""
    new = layout.new_id()
    apart = alone and keepers.several and mine.world > 1
    if chosen.mode == "disabled" or not keepers.include(mine.rank) or not (apart or ranks_.restarts(environ)):
        return new
    from chiplog.runtime.ranks import shared_run_id

    try:
        return (
            shared_run_id.shared_id(new, _path(chosen, chosen.project or "default", new).parent, mine.rank, environ)
            or new
        )
    except OSError as error:
        messages.say(f"ranks and restarts of this launch may be recorded as separate runs: {error}; pass init(id=...)")
        return new


def _launch(keepers: ranks_.Keepers, world: int, environ: Mapping[str, str]) -> str:
    """The id of this start; the same on all ranks that keep journals, or empty if it is not known yet."""
    if not keepers.several or world == 1:
        return os.urandom(8).hex()
    return ranks_.launch_id(environ) or environ.get("CHIPLOG_RUN_ID", "")


def _path(chosen: Settings, project: str, run_id: str) -> Path:
    root = Path(chosen.dir).expanduser().absolute()
    return root / layout.directory(project) / layout.directory(run_id)


def _writable(chosen: Settings, project: str, run_id: str) -> Settings:
    """Settings with a writable directory: backends read the journal, so there must be one somewhere."""
    try:
        file_systems.check(
            _path(chosen, project, run_id), means="CHIPLOG_DIR"
        )  # scripts of front ends do not call init
    except Unsupported as error:
        messages.say(f"{error}. Nothing of this run is recorded or delivered")
        return msgspec.structs.replace(chosen, mode="disabled")
    except Unwritable as error:
        if (folder := file_systems.temporary()) is None:
            messages.say(
                f"{error}; there is no temporary directory either, so nothing of this run is recorded or delivered"
            )
            return msgspec.structs.replace(chosen, mode="disabled")
        messages.say(f"{error}. Using {folder} instead, which the system may delete; backends are not affected")
        return msgspec.structs.replace(chosen, dir=folder, resume=None)
    return chosen


def _identity(
    chosen: Settings, project: str, run_id: str, launch: str, mine: ranks_.Ranks, config: Mapping[str, Plain]
) -> Identity:
    """The identity of the run, once its directory can be reached; a resumed run keeps its name."""
    path = _path(chosen, project, run_id)
    if chosen.mode != "disabled":
        file_systems.reach(path)
    old = manifest.load(path)  # a token names directories
    token = chosen.resume not in RESUME and old.created
    return Identity(
        old.project if token else project,
        old.id if token else run_id,
        path,
        redact_text(chosen.name or (old.name if old.created else run_id)),
        launch,
        tuple(map(redact_text, chosen.tags)),
        *mine[:2],
        0,
        redact(config),
        str(Path.cwd()),
        start_events.script(),
    )


def _check_resume(chosen: Settings, identity: Identity, *, main: bool) -> None:
    """Refuse to continue or to create a run against `resume`; report which of the two happens."""
    path, which = identity.dir, f"{identity.project}/{identity.id}"
    existed = file_systems.patiently(path, lambda: is_dir(path / layout.JOURNAL))
    # With journals on all ranks, another rank may have created the directory a moment ago.
    before = existed and any(segment.rank == identity.rank for segment in layout.segments(path))
    there = manifest.load(path).id if before else identity.id
    if there != identity.id and there.casefold() == identity.id.casefold():
        raise RunExists(
            f"run {identity.id!r} would be written into run {there!r}: the file system of {path} ignores case; choose "
            "an id that differs in more than case"
        )
    if before and chosen.resume == "never":
        raise RunExists(f"run {which} exists already, and resume='never': {path}")
    if not existed and chosen.resume == "must":
        raise RunNotFound(f"there is no run {which} in {path.parent.parent} to continue, and resume='must'")
    if before and chosen.resume is None and main:
        messages.say(f"run {which} exists already; this is a new attempt of it")
    if not existed and chosen.resume not in RESUME:
        messages.say(f"there is no run {which} in {path.parent.parent}; a new run starts under that id")


def _join(chosen: Settings, mine: ranks_.Ranks, environ: Mapping[str, str], *, agree: bool) -> Rendezvous | None:
    """Connect to the other ranks, if there are any."""
    if chosen.mode == "disabled" or (mine.world < 2 and chosen.reduce is None):
        return None
    from chiplog.runtime.ranks.rendezvous import join

    return join(mine, chosen.reduce, environ, agree=agree)
