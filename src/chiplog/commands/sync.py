"""`chiplog sync`: deliver to services, from the journal, the records they do not have yet."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from chiplog.commands import side_process
from chiplog.core import display, messages
from chiplog.core.errors import BadSetting
from chiplog.sinks import registry
from chiplog.sinks.delivery.sync import Health, Sync
from chiplog.store import layout
from chiplog.store.journal.cursors import enrol, enrolled
from chiplog.store.runs import find, state

PATIENCE = 60.0  # s of failures, or of waiting for another process that gets nowhere
REPORT = 10.0  # s between lines where nobody watches


def run(args: Namespace) -> int:
    os.environ.update({**registry.QUIET, **os.environ})
    if not args.alone:
        return _all(args)
    side_process.begin()
    side_process.end(_all(args))


def _all(args: Namespace) -> int:
    chosen = [find.find(which, args.root) for which in args.runs]
    if not chosen:
        chosen = [path for path in layout.find_runs(args.root) if enrolled(path)]
        if not chosen:
            print(f"no run under {args.root} uses a service; name runs, and a service with --to")
            return 0
    for name in args.to:
        registry.is_service(name)
    return max(_sync(path, args) for path in chosen)


def _sync(path: Path, args: Namespace) -> int:
    known = enrolled(path)
    services = {name: known.get(name, {}) for name in args.to} or known
    if not services:
        raise BadSetting(f"run {path.name} does not use a service; name one with --to, such as --to wandb")
    for name, options in services.items():
        enrol(path, name, options)
    label = messages.clean(f"{path.parent.name}/{path.name}")
    sync = Sync(path, services, args.environ)
    left = sync.run(_ended(path, args.follow), PATIENCE, _DeliveryProgress(label, args))
    for name in services:
        result = messages.clean(left[name]) if name in left else "complete"
        if sync.health()[name].get("held_by"):
            result += f"; {PATIENCE:.0f} s have brought nothing. Run `chiplog sync` again when it has ended"
        print(f"{label}  {name}: {result}", flush=True)
    return 2 if left else 0


def _ended(path: Path, follow: bool) -> Callable[[], bool]:
    """Whether there is nothing left to wait for."""
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


class _DeliveryProgress:
    """Lines on stderr that say how it goes: one that changes where somebody watches, otherwise one now and then while
    another process delivers."""

    def __init__(self, label: str, args: Namespace) -> None:
        self._label = label
        self._quiet, self._watched = args.quiet, sys.stderr.isatty()
        self._holders: dict[str, str] = {}
        self._reported = 0.0

    def __call__(self, health: Health) -> None:
        if self._quiet:
            return
        for name, one in health.items():
            self._name_holder(name, one.get("held_by", ""))
        if self._watched:
            self._draw(health)
        elif any(self._holders.values()) and time.monotonic() - self._reported > REPORT:
            self._reported = time.monotonic()
            sys.stderr.write(f"{self._label}  {self._words(health)}\n")
            sys.stderr.flush()

    def _name_holder(self, name: str, holder: str) -> None:
        if holder and holder != self._holders.get(name):
            line = f"{self._label}  {holder} is delivering to {name!r}; waiting for it"
            sys.stderr.write(f"\r\x1b[K{line}\n" if self._watched else f"{line}\n")
            sys.stderr.flush()
            self._reported = time.monotonic()
        self._holders[name] = holder

    def _draw(self, health: Health) -> None:
        sys.stderr.write(f"\r\x1b[K{self._label}  {self._words(health)}")
        if all(one["state"] in ("closed", "failing") for one in health.values()):
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    def _words(self, health: Health) -> str:
        return "; ".join(
            f"{name} {display.count(int(one['delivered']))} records, {display.size(int(one['lag_bytes']))} to go"
            for name, one in health.items()
        )
