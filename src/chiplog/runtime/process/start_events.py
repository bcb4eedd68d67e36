"""The first events of a run: its config at once, and its environment when that has been collected."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from chiplog.core import records
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.core.values.redact import redact
from chiplog.runtime.process import notebook
from chiplog.runtime.process.description import Description
from chiplog.store import layout
from chiplog.store.runs import manifest
from chiplog.store.runs.manifest import Manifest

PATIENCE = 2.0  # s that the end of a short run waits for the environment


def introduce(made: Run, environ: Mapping[str, str]) -> None:
    """Record config and environment of a run, in its journal and in `run.json`."""
    identity = made.identity
    config = identity.config
    argv = list(sys.orig_argv)
    opened = notebook.path(environ)
    place = {"script": identity.script, **({"notebook": opened} if opened else {})}
    old = manifest.load(identity.dir)
    about = Manifest(
        project=identity.project,
        id=identity.id,
        name=identity.name,
        created=old.created or made.now(),
        tags=identity.tags or old.tags,
        config={**old.config, **config},
        environment={**old.environment, "cwd": identity.cwd, **place},
        summary=old.summary,
        rank=identity.rank,
    )
    description = Description(identity.dir, about)
    made.write(records.Event, name="config", data=config)
    made.parts.changes.listeners.append(description.note)
    made.keep(description.save_changes)
    made.before_finish(lambda: _settle(made, description))
    made.parts.shutdown.closing.append(description.save_changes)
    # Imported here, not in the thread: a child forked while a thread imports could never import the same module.
    from chiplog.runtime.process import source_state
    from chiplog.runtime.process.environment import gather

    def collect() -> None:
        environment = {**gather(environ, argv, Path(identity.cwd)), **place}
        if not made.inert:
            made.write(records.Event, name="environment", data=environment)
        description.note_environment(environment)
        description.save_changes()
        _keep(made, "packages.txt", "".join(f"{line}\n" for line in source_state.packages()))
        git = environment.get("git")
        if isinstance(git, Mapping) and git.get("dirty"):
            _keep(made, "git.diff", source_state.diff(Path(identity.cwd), environ))

    thread = threading.Thread(target=collect, name="chiplog-environment", daemon=True)
    thread.start()
    made.before_finish(lambda: thread.join(PATIENCE))


def _keep(made: Run, name: str, text: str) -> None:
    """Write a file, not a record, which services would upload; a later attempt has its own."""
    if made.inert or not text:
        return
    stem, _, suffix = name.partition(".")
    attempt = made.identity.attempt
    path = f"{layout.FILES}/environment/{name if attempt <= 1 else f'{stem}-{attempt}.{suffix}'}"
    try:
        for folder in reversed((made.dir / path).parents[:2]):
            folder.mkdir(0o700, exist_ok=True)  # not the run directory: it may have been renamed
        with open(made.dir / path, "xb", opener=_private) as file:
            file.write(text.encode(errors="replace"))
    except OSError:  # a full disk, say, which the journal reports
        pass


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def script() -> str:
    """The file that Python was started with."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(file).absolute()) if file else ""


def _settle(made: Run, description: Description) -> None:
    """Record what changed inside the values of the config, such as a list that was appended to."""
    made.parts.changes.write("config", description.differing(redact(convert.plain(dict(made.config)))))
