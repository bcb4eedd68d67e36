"""`chiplog sync`: deliver to services what they do not have yet, from the journal, later and from anywhere."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from chiplog.commands import apart
from chiplog.core import notes
from chiplog.core.errors import BadSetting
from chiplog.sinks import registry
from chiplog.sinks.delivery import enrol, enrolled
from chiplog.sinks.sync import Health, Sync
from chiplog.store import index, layout, state
from chiplog.views import units

PATIENCE = 60.0  # s of failures


def run(args: Namespace) -> int:
    os.environ.update({**registry.QUIET, **os.environ})
    if not args.alone:
        return _all(args)
    apart.begin()
    apart.end(_all(args))


def _all(args: Namespace) -> int:
    chosen = [index.find(which, args.root) for which in args.runs]
    if not chosen:
        chosen = [path for path in layout.find_runs(args.root) if enrolled(path)]
        if not chosen:
            print(f"no run under {args.root} has a service to be delivered to; name runs and a service with --to")
            return 0
    for name in args.to:
        registry.is_service(name)
    return max(_sync(path, args) for path in chosen)


def _sync(path: Path, args: Namespace) -> int:
    known = enrolled(path)
    services = {name: known.get(name, {}) for name in args.to} or known
    if not services:
        raise BadSetting(f"run {path.name} was not meant for any service; name one with --to, such as --to wandb")
    for name, options in services.items():
        enrol(path, name, options)
    label = notes.clean(f"{path.parent.name}/{path.name}")
    left = Sync(path, services, args.environ).run(_ended(path, args.follow), PATIENCE, _progress(label, args))
    for name in services:
        print(f"{label}  {name}: {notes.clean(left[name]) if name in left else 'complete'}", flush=True)
    return 2 if left else 0


def _ended(path: Path, follow: bool) -> Callable[[], bool]:
    """Whether nothing more is to be waited for."""
    looked = 0.0

    def ended() -> bool:
        nonlocal looked
        if not follow:
            return True
        if time.monotonic() - looked < 2:
            return False
        looked = time.monotonic()
        return state.state_of(path) != "running"

    return ended


def _progress(label: str, args: Namespace) -> Callable[[Health], None]:
    """A line on stderr that says how it goes; only where somebody watches."""

    def tell(health: Health) -> None:
        if not sys.stderr.isatty() or args.quiet:
            return
        words = [
            f"{name} {units.count(int(one['delivered']))} records, {units.size(int(one['lag_bytes']))} to go"
            for name, one in health.items()
        ]
        sys.stderr.write(f"\r\x1b[K{label}  {'; '.join(words)}")
        if all(one["state"] in ("closed", "failing") for one in health.values()):
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    return tell
