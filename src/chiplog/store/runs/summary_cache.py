"""All runs under a directory, for lists of thousands: caches a summary of each, and reads it again when it changes.

The summaries are saved in the user's cache directory, so that the next start has a list at once. The state of a run
that may still be alive is never taken from the cache.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path

import msgspec

from chiplog.core.files import reading, writing
from chiplog.core.paths import make_dir
from chiplog.core.records import Number
from chiplog.core.values.flatten import flatten
from chiplog.core.values.text import words
from chiplog.metrics.catalog import is_loss, pick_loss
from chiplog.store import layout, manifest
from chiplog.store.reader import Stored
from chiplog.store.runs import access, state
from chiplog.store.runs.problems import problems
from chiplog.store.runs.state import AttemptState, LastValues
from chiplog.store.runs.state_journals import StateJournals

LONGEST = 300  # characters of a text in a list
MOST = 300  # settings or values of a run in a list
FORMAT = 5  # of the cache file

FINAL = ("finished", "failed", "interrupted", "killed", "ended")  # a lost run may still be training elsewhere
SETTLED = 60.0  # s since the last write, after which a run in such a state is not written any more

UNREADABLE = "unreadable"  # the state of a run of another user

Scalar = int | float | bool | str | None


class Entry(msgspec.Struct):
    """The summary of a run in a list. `key` is derived from its path, but is not a path."""

    key: str
    place: str  # relative to the directory of runs; of one in another directory, its path
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
    reason: str = ""  # why it is unreadable
    trouble: str = ""  # why it cannot be read
    whole: bool = False  # whether `values` has those that were last logged long before the end, too
    version: int = 0  # the refresh at which it last changed
    quiet: str = ""  # of a run that has ended for good: what changes with the next attempt


class SummaryCache:
    """The runs under a directory; several threads may read it while one refreshes it."""

    def __init__(self, root: Path, cache: Path | None = None, others: Sequence[Path] = ()) -> None:
        self.cache = cache
        self.root = root
        self._others = tuple(path.absolute() for path in others)  # more directories of runs
        every = b"\0".join(os.fsencode(path) for path in (root.absolute(), *self._others))
        self._file = cache / "runs" / f"{_digest(every)}.msgpack" if cache else None
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, int] = {}
        self._lock = threading.Lock()
        self._saved = 0
        self.version = 0
        self._load()

    def _load(self) -> None:
        """Load the cache; the state of a run that may be alive is unknown until the next refresh."""
        if self._file is None:
            return
        try:
            cache = msgspec.msgpack.decode(reading.read_bytes(self._file.parent, self._file.name, 1 << 30), type=_Cache)
        except (OSError, ValueError, RecursionError):
            return
        if cache.format != FORMAT:
            return
        self.version = self._saved = 1
        for entry in cache.entries:
            entry.version = 1
            if entry.state in ("running", "lost"):
                entry.state = "unknown"
            self._entries[entry.key] = entry

    def refresh(self) -> bool:
        """Read the directory again; true if something has changed."""
        with self._lock:
            version = self.version + 1
            seen = set()
            changed = False
            own = f"{self.root}{os.sep}"
            for path, journal in chain.from_iterable(map(layout.candidates, (self.root, *self._others))):
                place = path.removeprefix(own) if path != str(self.root) else "."
                key = _digest(os.fsencode(place))
                seen.add(key)
                before = self._entries.get(key)
                quiet = quiet_stamp(path, journal) if journal is not None else ""
                if before is not None and before.quiet and before.quiet == quiet:
                    continue
                entry = self._read(Path(path), key, place, quiet, before)
                if entry is before:
                    continue
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

    def _read(self, path: Path, key: str, place: str, quiet: str, before: Entry | None) -> Entry:
        """The summary of a run: the one before, if its journals are as they were then."""
        files = StateJournals(path) if quiet else None
        if files is not None and path != self.root and not (files.is_readable() or layout.readable(path)):
            files = None
        stamp = stamp_of(path, files) if files is not None else ""
        entry = before
        if entry is None or entry.stamp != stamp or entry.state in ("running", "unknown"):
            entry = _newer(before, _entry(path, key, place, stamp, files))
        settled = files is not None and entry.state in FINAL and time.time() - files.newest_beat() > SETTLED
        if settled and entry.quiet != quiet:
            entry.quiet, self._saved = quiet, -1
        return entry

    def reload(self, key: str) -> Entry | None:
        """The current summary of a run."""
        entry, path = self.get(key), self.path(key)
        if entry is None or path is None:
            return None
        now = _newer(entry, _entry(path, key, entry.place, stamp_of(path)))
        with self._lock:
            now.version = self.version + 1 if _differ(entry, now) else entry.version
            self.version = max(self.version, now.version)
            self._entries[key] = now
        return now

    def complete(self, seconds: float) -> bool:
        """Look for values that were last logged long before the end of a run, for so long; true if there were some.

        The newest runs are first. Each is read once; from then on, what it writes at its end is enough.
        """
        until, added = time.monotonic() + seconds, False
        lacking = [one for one in self.entries() if not (one.whole or one.reason or one.trouble)]
        for entry in sorted(lacking, key=lambda one: -one.started):
            if time.monotonic() >= until:
                break
            values = _all_values(self.root / entry.place, self.cache) or entry.values
            with self._lock:
                now = self._entries.get(entry.key)
                if now is not entry:  # it was read again meanwhile
                    continue
                joined = {**values, **entry.values}
                if joined != entry.values:
                    added, self.version = True, self.version + 1
                    entry.values, entry.version = joined, self.version
                entry.whole, self._saved = True, -1
        return added

    def save(self) -> None:
        """Save the cache for the next start; a failure is ignored."""
        if self._file is None or self._saved == self.version:
            return
        self._saved = self.version
        try:
            make_dir(self._file.parent)
            cache = _Cache(FORMAT, [one for one in self.entries() if _sayable(one)])
            writing.replace(self._file.parent, self._file.name, msgspec.msgpack.encode(cache))
        except (OSError, ValueError):
            pass

    def entries(self, since: int = 0) -> list[Entry]:
        """The entries that changed after a version."""
        return [entry for entry in list(self._entries.values()) if entry.version > since]

    def gone(self, since: int) -> list[str]:
        return [key for key, version in list(self._gone.items()) if version > since and key not in self._entries]

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def path(self, key: str) -> Path | None:
        """The directory of a listed run, if it can be read; never a path built from the request."""
        entry = self._entries.get(key)
        return self.root / entry.place if entry is not None and not entry.reason else None


def _entry(path: Path, key: str, place: str, stamp: str, files: StateJournals | None = None) -> Entry:
    """The summary of a run, or why it cannot be read: one run never takes the list of all with it."""
    try:
        if stamp:
            return summarize(path, key, place, stamp, files)
    except PermissionError:
        pass
    name, why = _cut(path.name), access.reason(path)
    return Entry(
        key, place, _cut(path.parent.name), name, name, [], UNREADABLE, 0, 0.0, None, {}, {}, stamp, 0, reason=why
    )


def _newer(before: Entry | None, now: Entry) -> Entry:
    """A summary with the older values of the one before it; a new attempt may have replaced those."""
    if before is not None and before.whole and before.attempts == now.attempts and not now.trouble:
        now.values, now.whole = {**before.values, **now.values}, True
    return now


def _all_values(path: Path, cache: Path | None) -> dict[str, Scalar]:
    """The last value of every series, losses first; none if the run cannot be read now."""
    try:
        summary = Stored(path, cache=cache).summary
    except Exception:  # the list says what is wrong with a run
        return {}
    names = sorted(summary, key=lambda name: not is_loss(name))
    return {_cut(name): scalar(summary[name]) for name in names[:MOST]}


def summarize(path: Path, key: str, place: str, stamp: str, files: StateJournals | None = None) -> Entry:
    """A summary that does not need the whole journal. A run that cannot be read is `damaged`, and takes no other with
    it: its maker may be anybody."""
    try:
        files = files or StateJournals(path)
        entry = _summarize(path, key, place, stamp, files)
        trouble = problems(path, files.entries)
    except Exception as error:
        name = _cut(path.name)
        entry = Entry(key, place, _cut(path.parent.name), name, name, [], "", 0, 0.0, None, {}, {}, stamp)
        trouble = [words(error)]
    if trouble:
        entry.state, entry.trouble = "damaged", _cut("; ".join(trouble))
    return entry


def _summarize(path: Path, key: str, place: str, stamp: str, files: StateJournals) -> Entry:
    about = manifest.load(path)
    segments = files.segments
    attempts: list[AttemptState] = []
    values: dict[str, Number | None] = {}
    readable, highest = True, None
    try:
        attempts = state.attempts(path, rank=segments[0].rank, files=files) if segments else []
        values = dict(state.last_values(path, _enough, files))
        highest = state.highest_step(path, segments[0].rank, files) if segments else None
    except ImportError:  # its journal is compressed, and pyarrow is not installed
        readable = False
    now = time.time_ns()
    step = values.pop("step", None)
    if highest is not None and (step is None or step < highest):  # an evaluation of an older step may come last
        step = highest
    return Entry(
        key=key,
        place=place,
        project=_cut(about.project or path.parent.name),
        id=_cut(about.id or path.name),
        name=_cut(about.name or about.id or path.name),
        tags=[_cut(tag) for tag in about.tags[:50]],
        state=state.judge(attempts) if readable else "unknown",
        started=next((one.start.time for one in attempts if one.start), max(0, min(about.created, 2**62))),
        seconds=sum(one.seconds(now) for one in attempts),
        step=step if isinstance(step, (int, float)) and abs(step) < 2**63 else None,
        values={_cut(name): scalar(value) for name, value in list(values.items())[:MOST]},
        config={_cut(name): scalar(value) for name, value in islice(flatten(about.config, ".", deepest=20), MOST)},
        stamp=stamp,
        attempts=len(attempts),
    )


def stamp_of(path: Path, files: StateJournals | None = None) -> str:
    """A value that changes whenever a run is written: a digest of the sizes and times of its journals."""
    stamps = (files or StateJournals(path)).stamps()
    try:
        stamps.append(str((path / layout.IDENTITY).lstat().st_mtime_ns))
    except OSError:
        pass
    return blake2b("\n".join(stamps).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def quiet_stamp(path: str, journal: os.stat_result) -> str:
    """A value that changes when another attempt of a run starts, or what describes it is replaced."""
    try:
        described = os.lstat(f"{path}/{layout.IDENTITY}").st_mtime_ns
    except OSError:
        described = 0
    return f"{journal.st_ino} {journal.st_mtime_ns} {journal.st_ctime_ns} {described}"


def scalar(value: object) -> Scalar:
    """A value as a list shows it: long texts are cut, and what JSON cannot hold becomes a text."""
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


class _Cache(msgspec.Struct):
    format: int
    entries: list[Entry]


def _enough(values: LastValues) -> bool:
    return "step" in values and pick_loss(values) is not None


def _differ(before: Entry, now: Entry) -> bool:
    return any(
        getattr(before, field) != getattr(now, field)
        for field in Entry.__struct_fields__
        if field not in ("version", "stamp", "quiet", "seconds" if now.state == "running" else "")
    )


def _sayable(entry: Entry) -> bool:
    """Whether msgpack can encode it: a directory name may not be valid UTF-8."""
    try:
        msgspec.msgpack.encode(entry)
    except ValueError:
        return False
    return True


def _cut(text: str) -> str:
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=6).hexdigest()
