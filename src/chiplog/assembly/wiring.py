"""The parts of a run, put together: journal, stages, rules, sinks, probes, relay."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chiplog.core import records
from chiplog.core.background.thread import Background
from chiplog.core.clock import RunClock
from chiplog.core.engine.device_hooks import Machine
from chiplog.core.identity import Identity
from chiplog.core.protocols import JournalLike, Probe, Rule, Sink, Stage, StepTimer
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.runtime.devices import meter
from chiplog.runtime.process import exit_hooks
from chiplog.store import layout
from chiplog.store.journal import file_systems, segment_file, writer
from chiplog.store.runs import liveness, rule_state, state
from chiplog.version import VERSION

if TYPE_CHECKING:
    from chiplog.runtime.ranks.reduce import Reduce
    from chiplog.store.reader import Stored


def open_run(
    identity: Identity,
    chosen: Settings,
    sinks: Mapping[str, Any],
    *,
    config: Mapping[str, Any] | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    services: Mapping[str, Any] | None = None,
    attached: bool = False,
    main: bool = False,
) -> Run:
    """Open the journal and everything around it; the attempt record is its first line."""
    path, rank = identity.dir, identity.rank
    background, clock = Background("background"), RunClock()
    pages = open_pages(identity, chosen, background)
    again = pages.segment.attempt > 1 and not attached
    saved = rule_state.load(path, rank) if again else {}
    identity = msgspec.structs.replace(identity, attempt=pages.segment.attempt)
    first = next_step(path, rank, saved) if again else 0
    made = build_run(identity, chosen, pages, background, clock, config=config, stages=stages, rules=rules, first=first)
    made.recall(saved)
    made.write(records.Attempt, **attempt_fields(identity, clock, pages.durability, attached=attached))
    background.add(made.tasks.tend)
    start_delivery(made, pages, background, chosen, sinks, services or {}, compact=main)
    background.start()
    exit_hooks.finish_at_exit(made)
    return made


def open_pages(identity: Identity, chosen: Settings, background: Background) -> writer.Journal:
    """The journal of this rank's next attempt."""
    path = identity.dir
    segment, fd = file_systems.patiently(path, lambda: segment_file.open_attempt(path, identity.rank))
    durability = chosen.durability or file_systems.durability(path)
    return writer.Journal(path, segment, fd, durability=durability, wake=background.wake)


def build_run(
    identity: Identity,
    chosen: Settings,
    pages: JournalLike,
    background: Background,
    clock: RunClock,
    *,
    config: Mapping[str, Any] | None = None,
    stages: Sequence[Stage] = (),
    rules: Sequence[Rule] = (),
    first: int = 0,
    quiet: bool = False,
) -> Run:
    from chiplog.runtime.devices.pending_values import PendingValues
    from chiplog.runtime.devices.watcher import DeviceWatcher

    path = identity.dir
    return Run(
        identity,
        pages,
        clock=clock,
        config=identity.config if config is None else config,
        background=background,
        stages=stages,
        rules=rules,
        machine=Machine(PendingValues(), DeviceWatcher(), partial(meter.meter, quiet=quiet), step_times),
        reread=lambda: stored_run(path),
        remember=lambda state: rule_state.save(path, identity.rank, state),
        strict=chosen.strict,
        first=first,
    )


def attempt_fields(
    identity: Identity, clock: RunClock, durability: str = "", *, attached: bool = False
) -> dict[str, Any]:
    """What the attempt record says."""
    pid = os.getpid()
    return {
        "attempt": identity.attempt, "launch": identity.launch, "rank": identity.rank, "world": identity.world,
        "host": liveness.hostname(), "pid": pid, "monotonic": clock.monotonic, "durability": durability,
        "version": VERSION, "boot": liveness.boot_id(), "born": liveness.born(pid), "attached": attached,
    }  # fmt: skip


def start_delivery(
    made: Run,
    pages: writer.Journal,
    background: Background,
    chosen: Settings,
    sinks: Mapping[str, Any],
    services: Mapping[str, Any],
    *,
    compact: bool,
) -> None:
    """Let everything around a journal that is open begin."""
    if sinks:
        from chiplog.sinks.delivery.couriers import deliver

        threads = services if chosen.relay == "thread" else {}
        made.post = deliver(pages.run, pages.segment, sinks, threads)
    background.add(pages.maintain)
    if chosen.compact and compact:
        made.at_finish(lambda: _compact(pages.run) if pages.settled else None)
    if chosen.on_signal == "flush":
        exit_hooks.flush_on_signal(made)


def next_step(path: Path, rank: int, saved: Mapping[str, Any] | None = None) -> int:
    """Where the count of steps goes on that nobody gives: behind the highest of the attempts before."""
    known = (saved or {}).get("highest", -1)
    known = int(known) if isinstance(known, (int, float)) and known - known == 0 else -1
    ends = file_systems.patiently(path, lambda: state.highest_step(path, rank))
    return max(known, -1 if ends is None else ends) + 1


def step_times() -> StepTimer:
    from chiplog.metrics.timing import StepTimes

    return StepTimes()


def open_sinks(
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
    return {**opened, **registry.open_objects(objects, identity)}, services


def start_relay(
    made: Run, services: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str], *, here: bool = False
) -> None:
    """Start the process that brings the journal to the services, and let it have a part in the run's delivery; where
    they are on threads `here`, only for what those leave."""
    from chiplog.sinks.delivery.relay import Relay, followed

    identity = made.identity
    segment = layout.Segment(identity.rank, identity.attempt, 0)
    if here and made.post is not None:
        made.post = followed(made.post, identity.dir, segment, services, environ)
        return
    relay = Relay(identity.dir, segment, services, environ)
    made.keep(relay.tend)
    made.post = relay.beside(made.post)


def open_probes(chosen: Settings, local: int, environ: Mapping[str, str]) -> list[Probe]:
    """The probes by name: one process of a machine is enough to ask it."""
    named = {name: options for name, options in chosen.probes.items() if name != "none"}
    if not named or local or environ.get("LOCAL_RANK", environ.get("SLURM_LOCALID", "0")) != "0":
        return []
    from chiplog.probes import registry

    return [registry.open_named(name, options, environ) for name, options in named.items()]


def start_probe(made: Run, probe: Probe, reduce: Reduce | None = None) -> None:
    from chiplog.probes.sampler import Sampler

    def take(name: str, data: Mapping[str, Any]) -> None:
        made.event(name, **data)
        if reduce is not None and name == "gpu":
            reduce.tell_device(data)

    sampler = Sampler(probe, take)
    made.before_finish(sampler.stop)
    sampler.start()


def join_ranks(made: Run, reduce: Reduce) -> None:
    made.across = reduce
    made.before_finish(reduce.close)
    reduce.start(made)


def start_capture(made: Run) -> None:
    """Keep what is printed, from here on; but for the lines of the console sink, which are rows of the journal."""
    from chiplog.runtime.process.capture import Capture

    capture = Capture(made.write, made.now)
    made.tasks.collecting.append(capture.collect)
    made.before_finish(capture.close)
    capture.open()


def stored_run(path: Path) -> Stored:
    from chiplog.store.reader import Stored

    return Stored(path)


def _compact(path: Path) -> None:
    from chiplog.runtime.process.start_compaction import compact_beside

    compact_beside(path, os.environ)
