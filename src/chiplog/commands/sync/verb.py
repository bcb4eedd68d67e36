"""Send services the records they are missing."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from chiplog.commands.sync import delivery_process
from chiplog.commands.sync.progress import SyncProgress
from chiplog.core import messages, settings
from chiplog.core.errors import BadSetting
from chiplog.core.files.working_directory import outside_runs
from chiplog.core.operating_system import check_writes
from chiplog.core.records import Plain
from chiplog.sinks import registry
from chiplog.sinks.delivery.destinations import destination_of, enrol, forget_old
from chiplog.sinks.delivery.sync import Sync
from chiplog.store import layout
from chiplog.store.journal.cursors import services
from chiplog.store.runs import find, state

PATIENCE = 60.0  # s of failures, or of waiting for another process that gets nowhere
EXAMPLE = "chiplog sync latest --to wandb"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="the runs (default: all that use a service)")
    parser.add_argument(
        "--to", action="append", default=[], metavar="SINK", help="deliver only to this sink; repeatable"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_option,
        metavar="OPTION=VALUE",
        help="an option of the sink named with --to, such as uri=http://localhost:5000; repeatable",
    )
    parser.add_argument("--follow", action="store_true", help="keep delivering until the run ends")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: Namespace) -> int:
    check_writes("run `chiplog sync` in WSL, or where they were written")
    os.environ.update({**registry.QUIET, **os.environ})
    if not args.alone:
        return _all(args)
    delivery_process.start()
    delivery_process.exit_at_once(_all(args))


def _all(args: Namespace) -> int:
    for name in args.to:
        registry.is_service(name)
    chosen = [path.absolute() for path in find.select(args.runs, args.root)]
    if not chosen:
        own = [path for path in layout.find_runs(args.root) if destination_of(path, args.environ)]
        chosen = [path.absolute() for path in own]
        forget_old(args.environ)
        if not chosen:
            print(f"none of your runs under {args.root} uses a service; name the runs, and a service with --to")
            return 0
    if args.set and len(args.to) != 1:
        raise BadSetting("--set is an option of one sink: name it with --to, such as --to mlflow")
    with outside_runs():  # where the packages of services look for settings and keys
        return max(_sync(path, args) for path in chosen)


def _sync(path: Path, args: Namespace) -> int:
    mine = destination_of(path, args.environ)
    used = mine.services if mine is not None else {}
    wanted = {name: {**_options(name, used, args.environ), **dict(args.set)} for name in args.to} or used
    if not wanted:
        raise BadSetting(_unknown(path))
    cwd = mine.cwd if mine is not None else str(Path.cwd())
    for name, options in wanted.items():
        enrol(path, name, options, cwd, args.environ)
    if args.alone:
        delivery_process.bound_answers(wanted)
    label = messages.clean(f"{path.parent.name}/{path.name}")
    sync = Sync(path, wanted, args.environ, cwd)
    left = sync.run(_ended(path, args.follow), PATIENCE, (lambda _: None) if args.quiet else SyncProgress(label))
    for name in wanted:
        result = messages.clean(left[name]) if name in left else "complete"
        if sync.health()[name].get("held_by"):
            result += f"; gave up after {PATIENCE:.0f} s. Run `chiplog sync` again when it has ended"
        print(f"{label}  {name}: {result}", flush=True)
    return 2 if left else 0


def _options(name: str, used: Mapping[str, dict[str, Plain]], environ: Mapping[str, str]) -> dict[str, Plain]:
    """The options of a service: those that the user's own run has, or those in the user's settings."""
    return used[name] if name in used else settings.load({}, environ, Path.cwd()).sinks.get(name, {})


def _unknown(path: Path) -> str:
    """Why there is nowhere to deliver to, and what the run says about it, which is not used."""
    which = f"{path.parent.name}/{path.name}"
    named = services(path)
    if not named:
        return f"run {which} does not use a service; name one with --to, such as --to wandb"
    example = f"chiplog sync {path} --to {named[0]}"
    return (
        f"run {which} was not made by you at this path, so where it goes is not read from it. "
        f"It has been delivered to {', '.join(named)}; to deliver it with your own settings: {example}"
    )


def _option(text: str) -> tuple[str, Plain]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not OPTION=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


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
