"""Connects a run to its journal, stages, rules, sinks, probes and relay."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.core import messages, records
from chiplog.core.background.shared_thread import RunBackground, background
from chiplog.core.clock import RunClock
from chiplog.core.device_hooks import DeviceHooks
from chiplog.core.engine.components import Components
from chiplog.core.identity import Identity
from chiplog.core.paths import cache_dir
from chiplog.core.protocols import JournalLike, Probe, Rule, Sink, Stage, StepMeter, StepTimer
from chiplog.core.records import Plain
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.runtime.devices.pending_values import PendingValues
from chiplog.runtime.devices.watcher import DeviceWatcher
from chiplog.runtime.process import exit_hooks
from chiplog.runtime.process.live_compaction import LiveCompaction
from chiplog.sinks import registry
from chiplog.store import layout
from chiplog.store.journal import file_systems, segment_file, writer
from chiplog.store.journal.directory_identity import DirectoryIdentity
from chiplog.store.runs import liveness, rule_state, state
from chiplog.version import VERSION

if TYPE_CHECKING:
    from chiplog.runtime.ranks.reduce import Reduce
    from chiplog.store.reader import Stored


def open_run(
    identity: Identity,
    chosen: Settings,
    sinks: Mapping[str, Sink],
    *,
    config: Mapping[str, Plain] | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    services: Mapping[str, Mapping[str, Plain]] | None = None,
    main: bool = False,
) -> Run:
    """Open the journal and everything around it; the attempt record is its first line."""
    path, rank = identity.dir, identity.rank
    thread, clock = background(), RunClock()
    journal = open_journal(identity, chosen, thread)
    again = journal.segment.attempt > 1 and not identity.attached
    saved = rule_state.load(path, rank) if again else {}
    identity = msgspec.structs.replace(identity, attempt=journal.segment.attempt)
    first = 0 if identity.attached else next_step(identity, saved)
    made = build_run(identity, chosen, journal, thread, clock, config=config, stages=stages, rules=rules, first=first)
    made.engine.restore(saved)
    made.write(records.Attempt, **attempt_fields(identity, clock, journal.durability))
    thread.add(made.engine.tasks.run_due)
    start_delivery(made, journal, thread, chosen, sinks, services or {}, compact=main)
    thread.start()
    exit_hooks.finish_at_exit(made)
    return made


def open_journal(identity: Identity, chosen: Settings, thread: RunBackground) -> writer.Journal:
    """The journal of this rank's next attempt."""
    path = identity.dir
    segment, fd = file_systems.patiently(
        path, partial(segment_file.open_attempt, path, identity.rank, chosen.permissions)
    )
    durability = chosen.durability or file_systems.durability(path)
    return writer.Journal(path, segment, fd, durability=durability, wake=thread.wake)


def build_run(
    identity: Identity,
    chosen: Settings,
    journal: JournalLike,
    thread: RunBackground,
    clock: RunClock,
    *,
    config: Mapping[str, Plain] | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    first: int = 0,
    quiet: bool = False,
) -> Run:
    path = identity.dir
    own = journal.own_directory if isinstance(journal, writer.Journal) else DirectoryIdentity(path)
    parts = Components(
        identity,
        journal,
        clock=clock,
        background=thread,
        stages=stages,
        rules=rules,
        machine=DeviceHooks(PendingValues(), DeviceWatcher(), partial(step_meter, quiet=quiet), step_times),
        read=lambda: stored_run(path),
        save_state=lambda state: rule_state.save(path, identity.rank, state) if own.check() else None,
        strict=chosen.strict,
        first=first,
    )
    return Run(parts, identity.config if config is None else config)


def attempt_fields(identity: Identity, clock: RunClock, durability: str = "") -> dict[str, Plain]:
    """The fields of the attempt record."""
    pid = os.getpid()
    return {
        "attempt": identity.attempt, "launch": identity.launch, "rank": identity.rank, "world": identity.world,
        "host": liveness.hostname(), "pid": pid, "monotonic": clock.monotonic, "durability": durability,
        "version": VERSION, "boot": liveness.boot_id(), "born": liveness.born(pid), "attached": identity.attached,
        "pid_namespace": liveness.pid_namespace(),
    }  # fmt: skip


def start_delivery(
    made: Run,
    journal: writer.Journal,
    thread: RunBackground,
    chosen: Settings,
    sinks: Mapping[str, Sink],
    services: Mapping[str, Mapping[str, Plain]],
    *,
    compact: bool,
) -> None:
    """Start the sinks and the upkeep of an open journal."""
    if sinks:
        from chiplog.sinks.delivery.couriers import deliver

        threads = services if chosen.relay == "thread" and chosen.mode != "offline" else {}
        made.post = deliver(
            journal.run, journal.segment, sinks, threads, cwd=made.identity.cwd, environ=dict(os.environ)
        )
    thread.add(journal.maintain)
    if chosen.compact and compact:
        closed = LiveCompaction(journal, os.environ)
        thread.add(closed)
        made.at_finish(closed.compact_all)
    if chosen.on_signal == "flush":
        exit_hooks.flush_on_signal(made)


def next_step(identity: Identity, saved: Mapping[str, Plain] | None = None) -> int:
    """The first step of a new attempt that counts its steps: the one after the highest so far, on any rank."""
    highest = (saved or {}).get("highest", -1)
    highest = int(highest) if isinstance(highest, (int, float)) and highest - highest == 0 else -1
    before = partial(state.highest_before, identity.dir, identity.rank, identity.launch)
    written = file_systems.patiently(identity.dir, before)
    return max(highest, -1 if written is None else written) + 1


def step_meter(**options: Any) -> StepMeter:
    from chiplog.runtime.devices.new_meter import meter

    return meter(**options)


def step_times() -> StepTimer:
    from chiplog.metrics.step_spans import StepTimes

    return StepTimes()


def open_sinks(
    chosen: Settings, objects: Sequence[tuple[str | None, object]], identity: Identity, environ: Mapping[str, str]
) -> tuple[dict[str, Sink], dict[str, dict[str, Plain]]]:
    """The sinks that run here, and the services for the relay with their options."""
    named = {name: options for name, options in chosen.sinks.items() if name != "none"}
    if not named and not objects:
        return {}, {}
    opened: dict[str, Sink] = {}
    services = {name: options for name, options in named.items() if registry.is_service(name)}
    for name, options in named.items():
        registry.check_options(name, options)
        if name not in services:
            opened[name] = registry.open_named(name, options, identity, environ)
        elif chosen.relay == "thread" and chosen.mode != "offline":
            opened[name] = registry.open_service(name, options, identity, environ)
    return {**opened, **registry.open_objects(objects, identity)}, services


def enrol_for_sync(identity: Identity, services: Mapping[str, Mapping[str, Plain]], environ: Mapping[str, str]) -> None:
    """Note which services get an offline run, for `chiplog sync`."""
    from chiplog.sinks.delivery.destinations import enrol

    path = identity.dir
    for name, options in services.items():
        enrol(path, name, options, identity.cwd, environ)
    messages.say(f"offline: `chiplog sync {path}` delivers this run to {', '.join(services)}")


def start_relay(
    made: Run, services: Mapping[str, Mapping[str, Plain]], environ: Mapping[str, str], *, here: bool = False
) -> None:
    """Start the process that delivers the journal to services, as part of the run's delivery.

    If the services run on threads `here`, the process delivers only what those cannot.
    """
    from chiplog.sinks.delivery import relay, standby

    identity = made.identity
    segment = layout.Segment(identity.rank, identity.attempt, 0)
    if here and made.post is not None:
        waiting = standby.Standby(made.post, identity.dir, segment, services, environ, identity.cwd)
        made.keep(waiting.check)
        made.post = waiting.delivery
        return
    process = relay.Relay(identity.dir, segment, services, environ, identity.cwd)
    made.keep(process.check)
    made.post = process.beside(made.post)


def open_probes(chosen: Settings, local: int, environ: Mapping[str, str]) -> list[Probe]:
    """The probes by name; one process per machine samples them."""
    named = {name: options for name, options in chosen.probes.items() if name != "none"}
    if not named or local or environ.get("LOCAL_RANK", environ.get("SLURM_LOCALID", "0")) != "0":
        return []
    from chiplog.probes import registry as probes

    return [probes.open_named(name, options, environ) for name, options in named.items()]


def _start_probe(made: Run, probe: Probe, reduce: Reduce | None) -> None:
    from chiplog.probes.sampler import Sampler

    def record(name: str, data: Mapping[str, Plain]) -> None:
        made.event(name, **data)
        if reduce is not None and name == "gpu":
            reduce.update_device(data)

    sampler = Sampler(probe, record)
    made.before_finish(sampler.stop)
    sampler.start()


def join_ranks(made: Run, reduce: Reduce | None, probes: Sequence[Probe]) -> None:
    """Start the statistics across ranks, if there are any, and the probes, whose device samples are part of them."""
    if reduce is not None:
        made.across = reduce
        made.before_finish(reduce.close)
        reduce.start(made)
    for probe in probes:
        _start_probe(made, probe, reduce)


def start_capture(made: Run) -> None:
    """Record what is printed from now on, except the lines of the console sink, which repeat the journal."""
    from chiplog.runtime.process.capture import Capture

    capture = Capture(made.write, made.now)
    made.engine.tasks.collecting.append(capture.collect)
    made.before_finish(capture.close)
    capture.open()


def stored_run(path: Path) -> Stored:
    from chiplog.store.reader import Stored

    return Stored(path, cache=cache_dir(os.environ))
