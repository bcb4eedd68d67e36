"""Where the services of a user's own runs are: in the user's state directory, and never in a run.

A run directory may come from someone else. So what it says about its services is shown and not used, and `chiplog
sync` reads here what `init` wrote when the run was made: by this user, on this machine, at this path.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from chiplog.core import messages
from chiplog.core.files import reading, writing
from chiplog.core.paths import make_dir, state_dir
from chiplog.core.records import Plain
from chiplog.core.values.redact import redact
from chiplog.store import manifest
from chiplog.store.journal import cursors

PATIENCE = 2.0  # s that a home directory may take
KEPT = 90 * 86_400.0  # s after which the destination of a run that is gone is forgotten


class Destination(msgspec.Struct):
    """The services that get a run, with their options, and the folder in which their settings are."""

    run: str
    id: str
    cwd: str
    services: dict[str, dict[str, Plain]] = {}  # options without secrets, which are in the environment


def enrol(run: Path, service: str, options: Mapping[str, object], cwd: str, environ: Mapping[str, str]) -> None:
    """Note that a service gets this run, so that `chiplog sync` knows even if nothing has been delivered.

    Raises `OSError` if the run cannot be written. A state directory that cannot be, or a home that does not answer, is
    reported: then the user has to name the service.
    """
    cursors.enrol(run, service)
    why = ["it does not answer"]

    def note() -> None:
        try:
            _note(run, service, options, cwd, environ)
        except OSError as error:
            why[0] = str(error)
        else:
            why.clear()

    thread = threading.Thread(target=note, name="chiplog-destination", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if why:
        messages.once(
            f"destination {run} {service}",
            f"`chiplog sync` will not find sink {service!r} later: cannot write {_folder(environ)} ({why[0]}); "
            f"name it then: chiplog sync {run} --to {service}",
        )


def withdraw(run: Path, service: str, environ: Mapping[str, str]) -> None:
    """Take back what `enrol` has noted: the service has everything."""
    cursors.withdraw(run, service)
    if (noted := destination_of(run, environ)) is not None and noted.services.pop(service, None) is not None:
        writing.replace(_folder(environ), _name(run), msgspec.json.encode(noted))


def _note(run: Path, service: str, options: Mapping[str, object], cwd: str, environ: Mapping[str, str]) -> None:
    before = destination_of(run, environ)
    services = before.services if before is not None else {}
    now = Destination(os.path.realpath(run), manifest.load(run).id, cwd, {**services, service: redact(options)})
    if now != before:
        folder = _folder(environ)
        make_dir(folder)
        writing.replace(folder, _name(run), msgspec.json.encode(now))


def destination_of(run: Path, environ: Mapping[str, str]) -> Destination | None:
    """What the user noted about this run; None for a run that was made by someone else, made elsewhere, or moved."""
    try:
        destination = msgspec.json.decode(reading.read_bytes(_folder(environ), _name(run)), type=Destination)
    except (OSError, ValueError, RecursionError):
        return None
    mine = destination.run == os.path.realpath(run) and destination.id == manifest.load(run).id
    return destination if mine else None


def forget_old(environ: Mapping[str, str]) -> None:
    """Forget the destinations of runs that have been gone for long."""
    folder = _folder(environ)
    for name, about in reading.entries(folder.parent, folder.name):
        if time.time() - about.st_mtime > KEPT:
            try:
                kept = msgspec.json.decode(reading.read_bytes(folder, name), type=Destination)
                if not Path(kept.run).exists():
                    writing.unlink(folder, name)
            except (OSError, ValueError, RecursionError):
                continue


def _folder(environ: Mapping[str, str]) -> Path:
    return state_dir(environ) / "destinations"


def _name(run: Path) -> str:
    return f"{sha256(os.fsencode(os.path.realpath(run))).hexdigest()[:32]}.json"
