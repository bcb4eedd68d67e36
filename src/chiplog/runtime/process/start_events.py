"""The first events of a run: its config at once, and its environment when that has been collected."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from chiplog.core import records
from chiplog.core.files import writing
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.core.values.redact import redact
from chiplog.runtime.process import notebook
from chiplog.runtime.process.environment import diff, gather, packages
from chiplog.runtime.process.manifest_updates import ManifestUpdates
from chiplog.store import layout, manifest
from chiplog.store.manifest import Manifest

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
    description = ManifestUpdates(identity.dir, about)
    made.write(records.Event, name="config", data=config)
    made.engine.changes.listeners.append(description.note)
    made.keep(description.save_changes)
    made.before_finish(lambda: _write_config_changes(made, description))
    made.engine.shutdown.closing.append(description.save_changes)

    def collect() -> None:
        environment = {**gather(environ, argv, Path(identity.cwd)), **place}
        if not made.inert:
            made.write(records.Event, name="environment", data=environment)
        description.note_environment(environment)
        description.save_changes()
        _keep(made, "packages.txt", "".join(f"{line}\n" for line in packages()))
        git = environment.get("git")
        if isinstance(git, Mapping) and git.get("dirty"):
            _keep(made, "git.diff", diff(Path(identity.cwd), environ))

    thread = threading.Thread(target=collect, name="chiplog-environment", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started; it costs a moment here
        collect()
    else:
        made.before_finish(lambda: thread.join(PATIENCE))


def _keep(made: Run, name: str, text: str) -> None:
    """Write a file, not a record, which services would upload; a later attempt has its own."""
    if made.inert or not text:
        return
    stem, _, suffix = name.partition(".")
    attempt = made.identity.attempt
    path = f"{layout.FILES}/environment/{name if attempt <= 1 else f'{stem}-{attempt}.{suffix}'}"
    try:
        writing.make_folder(made.dir, f"{layout.FILES}/environment")
        writing.create(made.dir, path, text.encode(errors="replace"))
    except OSError:  # a full disk, say, which the journal reports
        pass


def script() -> str:
    """The file that Python was started with."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(file).absolute()) if file else ""


def _write_config_changes(made: Run, description: ManifestUpdates) -> None:
    """Record what changed inside the values of the config, such as a list that was appended to."""
    made.engine.changes.write("config", description.differing(redact(convert.plain(dict(made.config)))))
