"""Deliver to services what they do not have yet."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from chiplog.commands.sync import side_process
from chiplog.commands.sync.progress import SyncProgress
from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.sinks import registry
from chiplog.sinks.delivery.sync import Sync
from chiplog.store import layout
from chiplog.store.journal.cursors import enrol, enrolled
from chiplog.store.runs import find, state

PATIENCE = 60.0  # s of failures, or of waiting for another process that gets nowhere
EXAMPLE = "chiplog sync latest --to wandb"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="the runs (default: all that use a service)")
    parser.add_argument(
        "--to", action="append", default=[], metavar="SINK", help="deliver only to this sink; repeatable"
    )
    parser.add_argument("--follow", action="store_true", help="keep delivering until the run ends")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: Namespace) -> int:
    os.environ.update({**registry.QUIET, **os.environ})
    if not args.alone:
        return _all(args)
    side_process.start()
    side_process.exit_at_once(_all(args))


def _all(args: Namespace) -> int:
    chosen = find.select(args.runs, args.root)
    if not chosen:
        chosen = [path for path in layout.find_runs(args.root) if enrolled(path)]
        if not chosen:
            print(f"no run under {args.root} uses a service; name runs, and a service with --to")
            return 0
    for name in args.to:
        registry.is_service(name)
    return max(_sync(path, args) for path in chosen)


def _sync(path: Path, args: Namespace) -> int:
    used = enrolled(path)
    services = {name: used.get(name, {}) for name in args.to} or used
    if not services:
        raise BadSetting(f"run {path.name} does not use a service; name one with --to, such as --to wandb")
    for name, options in services.items():
        enrol(path, name, options)
    label = messages.clean(f"{path.parent.name}/{path.name}")
    sync = Sync(path, services, args.environ)
    left = sync.run(_ended(path, args.follow), PATIENCE, (lambda _: None) if args.quiet else SyncProgress(label))
    for name in services:
        result = messages.clean(left[name]) if name in left else "complete"
        if sync.health()[name].get("held_by"):
            result += f"; gave up after {PATIENCE:.0f} s. Run `chiplog sync` again when it has ended"
        print(f"{label}  {name}: {result}", flush=True)
    return 2 if left else 0


def _ended(path: Path, follow: bool) -> Callable[[], bool]:
    """Whether there is nothing left to wait for."""
    checked = 0.0

    def ended() -> bool:
        nonlocal checked
        if not follow:
            return True
        if time.monotonic() - checked < 2:
            return False
        checked = time.monotonic()
        return state.state_of(path) != "running"

    return ended
