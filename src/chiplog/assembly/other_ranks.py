"""Runs on ranks that keep no journal, or none yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.assembly.wiring import (
    attempt_fields,
    build_run,
    join_ranks,
    next_step,
    open_journal,
    open_sinks,
    start_delivery,
    start_relay,
    step_meter,
    step_times,
)
from chiplog.core import messages, records
from chiplog.core.background.shared_thread import background
from chiplog.core.clock import RunClock
from chiplog.core.device_hooks import DeviceHooks
from chiplog.core.engine.components import Components
from chiplog.core.identity import Identity
from chiplog.core.journals.null_journal import NullJournal
from chiplog.core.protocols import Probe, Rule, Stage
from chiplog.core.run import Run
from chiplog.core.settings import Settings
from chiplog.runtime.devices.pending_values import PendingValues
from chiplog.runtime.process import exit_hooks, start_events
from chiplog.runtime.ranks.detect import Keepers
from chiplog.runtime.ranks.rows_without_journal import RowsWithoutJournal, names_in
from chiplog.runtime.ranks.run_claims import Claims, SharedClaims, numbered
from chiplog.runtime.ranks.run_owner import AT_END, Main, Successor
from chiplog.sinks.console.sink import Console
from chiplog.store import layout
from chiplog.store.journal.tail import Tail

if TYPE_CHECKING:
    from chiplog.runtime.ranks.reduce import Reduce


def stand_by(
    identity: Identity,
    chosen: Settings,
    objects: Sequence[tuple[str | None, object]],
    stages: Sequence[Stage],
    rules: Sequence[Rule],
    environ: Mapping[str, str],
    reduce: Reduce | None,
    probes: Sequence[Probe],
) -> Run:
    """The run of a rank other than 0: its rows are part of the statistics; if rank 0 logs nothing, it keeps them."""
    thread, clock, path, rank = background(), RunClock(), identity.dir, identity.rank

    def keep() -> None:
        alone = not layout.segments(path)
        journal = open_journal(identity, chosen, thread)
        made.take_over(journal.segment.attempt, rules)
        successor.pages.open(journal, journal.segment.attempt, journal.durability)
        messages.say(
            f"rank {rank} logs and rank 0 does not, so rank {rank} records the run: {path}; set init(ranks={rank}) to "
            "do so from the start"
        )
        try:
            sinks, services = open_sinks(chosen, objects, made.identity, environ)
        except Exception as error:  # in `init` this would raise; now it is too late
            messages.say(f"rank {rank} keeps the run without its sinks: {error}")
            sinks, services = {}, {}
        start_delivery(made, journal, thread, chosen, sinks, services, compact=alone)
        start_events.introduce(made, environ)
        if services:
            start_relay(made, services, environ, here=chosen.relay == "thread")

    def let_go(held: Sequence[records.Record]) -> None:
        if reduce is not None:
            made.engine.let_go()
            return
        unkept = RowsWithoutJournal(rank, partial(_kept_names, path, (0,)))
        unkept.add(held)
        made.engine.let_go(unkept)
        thread.stop(0.0, lambda: None)

    successor = Successor(rank, claims(identity, chosen, environ), keep, let_go)
    made = build_run(
        identity, chosen, successor.pages, thread, clock, stages=stages, quiet=True, first=next_step(identity)
    )
    made.write(records.Attempt, **attempt_fields(identity, clock))
    thread.add(made.engine.tasks.run_due)
    made.engine.shutdown.decide_owner = successor.decide
    exit_hooks.finish_at_exit(made)
    thread.start()
    if reduce is not None:
        join_ranks(made, reduce, probes)
    return made


def stand_aside(identity: Identity, unkept: RowsWithoutJournal) -> Run:
    """The run of a rank that writes nothing and takes part in nothing: its rows are counted."""
    made = Run(Components(identity), identity.config)
    made.engine.let_go(unkept)
    exit_hooks.finish_at_exit(made)
    return made


def take_part(
    identity: Identity,
    chosen: Settings,
    stages: Sequence[Stage],
    reduce: Reduce,
    probes: Sequence[Probe],
    unkept: RowsWithoutJournal | None,
) -> Run:
    """The run of a rank that writes nothing: its rows are only part of the statistics, and counted."""
    thread = background()
    machine = DeviceHooks(PendingValues(), None, partial(step_meter, quiet=True), step_times)
    parts = Components(identity, NullJournal(), background=thread, stages=stages, machine=machine, strict=chosen.strict)
    made = Run(parts, identity.config)
    if unkept is not None:
        made.engine.recorder.listen(unkept.note)
        made.engine.shutdown.unkept = unkept.missing
    thread.add(made.engine.tasks.run_due)
    thread.start()
    exit_hooks.finish_at_exit(made)
    join_ranks(made, reduce, probes)
    return made


def unkept_rows(identity: Identity, keepers: Keepers, local: int) -> RowsWithoutJournal:
    """The rows of a rank that has been told to keep none; `local` is its rank on this machine."""
    ranks = sorted(keepers.ranks or ())
    here = identity.rank - local <= keepers.main <= identity.rank  # launchers number the ranks of a machine in a row
    kept = partial(_kept_names, identity.dir, ranks, here=here)
    return RowsWithoutJournal(identity.rank, kept, ranks, AT_END)


def _kept_names(path: Path, keepers: Collection[int], names: Collection[str], *, here: bool = False) -> Collection[str]:
    """Which of these names the keepers have logged in this launch: usually all, in their first rows.

    All if their run is elsewhere, unless it should be `here`. Statistics and parts of a name count: `x/mean`, `x/a`.
    """
    attempts = {segment.rank: segment.attempt for segment in layout.segments(path) if segment.rank in keepers}
    if not attempts:
        return () if here else names
    left = set(names)
    for rank, attempt in attempts.items():
        tail = Tail(path, rank=rank, attempt=attempt)
        while left and (batch := tail.read()):
            for record in batch:
                for name in names_in(record):
                    parts = name.split("/")
                    left.difference_update("/".join(parts[:end]) for end in range(1, len(parts) + 1))
    return set(names) - left


def announce_keeper(made: Run, claims: Claims) -> None:
    """Tell the other ranks that rank 0 logs; close its sinks if another rank keeps the run in its place."""

    def hand_over(_: int) -> None:
        post, made.post = made.post, None
        if post is not None:
            for sink in post.sinks.values():
                if isinstance(sink, Console):
                    sink.leave()
            post.close(30.0)

    main = Main(claims, hand_over)
    made.before_finish(main.end)
    made.engine.recorder.at_first_row(main.log)
    main.start()


def claims(identity: Identity, chosen: Settings, environ: Mapping[str, str]) -> Claims:
    """Where ranks claim this run, under a key that all of them know: not an id that each generates."""
    run_id = chosen.resume or chosen.id or environ.get("CHIPLOG_RUN_ID", "")
    return SharedClaims(numbered(f"{identity.project}/{run_id}"), identity.dir.parent, environ)
