"""Keeps `run.json` up to date during a run: changes to its name, tags, config and summary."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from chiplog.core import messages
from chiplog.core.records import Plain
from chiplog.store import layout, manifest
from chiplog.store.manifest import Manifest

IDLE = 60.0  # s until the next look, unless something wakes the thread


class ManifestUpdates:
    """The manifest of a run that this process describes. Changes are noted at once, and saved in the background."""

    def __init__(self, path: Path, about: Manifest) -> None:
        self._path, self._about = path, about
        self._lock = threading.Lock()
        self._changed = False
        self._save(about)

    def note(self, name: str, data: Mapping[str, Plain]) -> None:
        """Note what a record of a change says."""
        with self._lock:
            if name == "config":
                self._about.config = {**self._about.config, **data}
            elif name == "summary":
                self._about.summary = {**self._about.summary, **data}
            elif name == "name":
                self._about.name = str(data["name"])
            elif name == "tags":
                self._about.tags = tuple(map(str, data["tags"]))
            self._changed = True

    def note_environment(self, environment: Mapping[str, Plain]) -> None:
        rank = manifest.load(self._path).rank  # another rank may have taken over the run
        with self._lock:
            self._about.environment, self._about.rank = dict(environment), rank
            self._changed = True

    def save_changes(self) -> float:
        """Save what has changed, if anything has; a task of the background thread."""
        with self._lock:  # not while saving: the disk may hang, and `note` must not
            about, changed, self._changed = msgspec.structs.replace(self._about), self._changed, False
        if changed:
            self._save(about)
        return IDLE

    def differing(self, config: Mapping[str, Plain]) -> dict[str, Plain]:
        """The values of a config that differ from what was noted, such as a list that was appended to."""
        # By their text: NaN is not equal to itself.
        return {name: value for name, value in config.items() if repr(self._about.config.get(name)) != repr(value)}

    def _save(self, about: Manifest) -> None:
        try:
            if manifest.load(self._path).created in (0, about.created):  # otherwise another run is there now
                manifest.save(self._path, about)
        except OSError as error:
            messages.once(
                f"manifest {self._path}",
                f"cannot write {self._path / layout.IDENTITY}: {error.strerror}; the journal has it too",
            )
