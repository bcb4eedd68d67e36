"""All runs under a directory, for lists of thousands: what is known of each is kept, and looked at again as it changes.

What was found is remembered in a file under the user's cache directory, so that the next start has a list at once. What
a run is doing is never remembered for a run that may still be alive.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from chiplog.core.files import make_dir
from chiplog.store import layout, manifest, state
from chiplog.store.state import last_values

LONGEST = 300  # characters of a text in a list
MOST = 300  # settings or values of a run in a list
FORMAT = 1  # of the remembered file

Scalar = int | float | bool | str | None


class Entry(msgspec.Struct):
    """What is said of a run in a list. `key` is made by us from its place and is no path."""

    key: str
    place: str  # below the directory of runs
    project: str
    id: str
    name: str
    tags: list[str]
    state: str
    started: int  # wall-clock nanoseconds
    seconds: float
    step: int | float | None
    values: dict[str, Scalar]
    config: dict[str, Scalar]
    stamp: str  # of the files it was read from
    attempts: int = 1
    version: int = 0  # the refresh at which it last changed


class Catalog:
    """The runs under a directory; may be asked by several threads while one refreshes it."""

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        self.root = root
        self._file = cache / "runs" / f"{_digest(os.fsencode(root.absolute()))}.msgpack" if cache else None
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, int] = {}
        self._lock = threading.Lock()
        self._saved = 0
        self.version = 0
        self.remember()

    def remember(self) -> None:
        """Take what the last one found; the state of what may be alive is open until the next look."""
        if self._file is None:
            return
        try:
            kept = msgspec.msgpack.decode(self._file.read_bytes(), type=_Kept)
        except (OSError, ValueError, RecursionError):
            return
        if kept.format != FORMAT:
            return
        self.version = self._saved = 1
        for entry in kept.entries:
            entry.version = 1
            if entry.state in ("running", "lost"):
                entry.state = "unknown"
            self._entries[entry.key] = entry

    def refresh(self) -> bool:
        """Look at the directory again; true when something has changed."""
        with self._lock:
            version = self.version + 1
            seen = set()
            changed = False
            for path in layout.find_runs(self.root):
                place = os.fsencode(path.relative_to(self.root))
                key = _digest(place)
                seen.add(key)
                before = self._entries.get(key)
                stamp = _stamp(path)
                if before is not None and before.stamp == stamp and before.state not in ("running", "unknown"):
                    continue
                entry = look(path, key, os.fsdecode(place), stamp)
                if before is None or _differ(before, entry):
                    entry.version = version
                    changed = True
                else:
                    entry.version = before.version
                self._entries[key] = entry
            for key in [key for key in self._entries if key not in seen]:
                del self._entries[key]
                self._gone[key] = version
                changed = True
            self.version = version if changed or not self.version else self.version
            return changed

    def look_again(self, key: str) -> Entry | None:
        """A run as it is at this moment."""
        entry, path = self.get(key), self.path(key)
        if entry is None or path is None:
            return None
        now = look(path, key, entry.place, _stamp(path))
        with self._lock:
            now.version = self.version + 1 if _differ(entry, now) else entry.version
            self.version = max(self.version, now.version)
            self._entries[key] = now
        return now

    def save(self) -> None:
        """Write down what is known, for the next start. A cache that cannot be written is none."""
        if self._file is None or self._saved == self.version:
            return
        self._saved = self.version
        try:
            make_dir(self._file.parent)
            kept = _Kept(FORMAT, [one for one in self.entries() if _sayable(one)])
            manifest.write_whole(self._file, msgspec.msgpack.encode(kept))
        except (OSError, ValueError):
            pass

    def entries(self, since: int = 0) -> list[Entry]:
        """What has changed after a version."""
        return [entry for entry in list(self._entries.values()) if entry.version > since]

    def gone(self, since: int) -> list[str]:
        return [key for key, version in list(self._gone.items()) if version > since and key not in self._entries]

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def path(self, key: str) -> Path | None:
        """The directory of a run that is in the list; never one made from what was asked."""
        entry = self._entries.get(key)
        return self.root / entry.place if entry is not None else None


def look(path: Path, key: str, place: str, stamp: str) -> Entry:
    """The little that can be known without reading a whole journal."""
    about = manifest.load(path)
    segments = layout.segments(path)
    try:
        attempts = state.attempts(path, rank=segments[0].rank) if segments else []
        values = dict(last_values(path))
    except ImportError:  # its journal is compressed, and what reads it is not installed
        attempts, values = [], {}
    now = time.time_ns()
    step = values.pop("step", None)
    return Entry(
        key=key,
        place=place,
        project=_cut(about.project or path.parent.name),
        id=_cut(about.id or path.name),
        name=_cut(about.name or about.id or path.name),
        tags=[_cut(tag) for tag in about.tags[:50]],
        state=state.judge(attempts),
        started=next((one.start.time for one in attempts if one.start), about.created),
        seconds=sum(ran(one, now) for one in attempts),
        step=step if isinstance(step, (int, float)) and abs(step) < 2**63 else None,
        values={_cut(name): _scalar(value) for name, value in list(values.items())[:MOST]},
        config=dict(flat(about.config)),
        stamp=stamp,
        attempts=len(attempts),
    )


def ran(attempt: state.AttemptState, now: int) -> float:
    """For how many seconds an attempt has run."""
    if attempt.start is None:
        return 0.0
    end = now if attempt.state == "running" else attempt.last.time if attempt.last else attempt.start.time
    return max(0, end - attempt.start.time) / 1e9


def flat(config: Mapping[str, Any], most: int = MOST) -> Iterator[tuple[str, Scalar]]:
    """A nested mapping as pairs, `model.dim`; what is neither text nor number as its JSON."""
    count = 0
    waiting: list[tuple[str, Any]] = [(str(key), value) for key, value in reversed(list(config.items()))]
    while waiting and count < most:
        name, value = waiting.pop()
        if isinstance(value, dict) and value and name.count(".") < 20:
            waiting.extend((f"{name}.{key}", item) for key, item in reversed(value.items()))
        else:
            count += 1
            yield _cut(name), _scalar(value)


def stamp_of(path: Path) -> str:
    """What changes whenever a run is written to: the sizes and times of its journals."""
    return _stamp(path)


def _stamp(path: Path) -> str:
    found = []
    try:
        found.append(str((path / layout.IDENTITY).stat().st_mtime_ns))
    except OSError:
        pass
    try:
        with os.scandir(path / layout.JOURNAL) as entries:
            for entry in entries:
                if layout.parse_segment(entry.name):
                    about = entry.stat()
                    found.append(f"{entry.name} {about.st_size} {about.st_mtime_ns}")
    except OSError:
        pass
    return blake2b("\n".join(sorted(found)).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


class _Kept(msgspec.Struct):
    format: int
    entries: list[Entry]


def _differ(before: Entry, now: Entry) -> bool:
    return any(
        getattr(before, field) != getattr(now, field)
        for field in Entry.__struct_fields__
        if field not in ("version", "stamp", "seconds" if now.state == "running" else "")
    )


def _sayable(entry: Entry) -> bool:
    """Whether msgpack can say it: not where the name of a directory is no UTF-8."""
    try:
        msgspec.msgpack.encode(entry)
    except ValueError:
        return False
    return True


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    try:
        return _cut(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError):
        return "…"


def _cut(text: str) -> str:
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=6).hexdigest()
