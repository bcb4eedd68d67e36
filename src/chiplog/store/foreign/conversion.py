"""Turns a foreign run into a run directory, and later adds what is new in its source.

`source.json` in the run directory records where the run comes from, how far its source has been read and what could not
be kept. It makes a conversion idempotent: the same source never becomes two runs, and no record is written twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chiplog.core import records
from chiplog.core.files import reading, writing
from chiplog.core.paths import file_name, make_dir
from chiplog.core.records import Plain
from chiplog.core.values.convert import plain
from chiplog.core.values.redact import redact
from chiplog.core.values.text import words
from chiplog.store import layout, manifest
from chiplog.store.foreign.protocol import (
    About,
    ForeignRun,
    Item,
    Losses,
    MediaFile,
    Points,
    Position,
    Restart,
    Rewritten,
    clean_name,
    digest,
)
from chiplog.store.foreign.run_writer import RunWriter, Written
from chiplog.store.manifest import Manifest

SOURCE = "source.json"
QUIET = 60.0  # s after which a source that does not record its end has ended
COPIED = 3600.0  # s between the last record of a source and its modification, beyond which it was copied or touched
SAVED_EVERY = 8 << 20  # bytes of journal between two records of how far it is
LARGEST_MEDIA = 64 << 20
ENDED = "ended"


Progress = Callable[[float], None]


class Source(msgspec.Struct, omit_defaults=True):
    """Where a run comes from, and how far its source has been read."""

    format: str
    key: str
    place: str
    stamp: str
    written: Written
    position: Plain = None
    lost: dict[str, int] = {}
    described: str = ""  # a digest of config, environment and summary as written
    settled: bool = False  # whether nothing more can come unless the source changes


@dataclass(frozen=True)
class Conversion:
    """What one call has done."""

    run: Path
    about: About
    points: int  # added by this call
    lost: dict[str, int]
    new: bool


def load(run: Path) -> Source | None:
    """The source of a run; None if it has none, as a run of our own."""
    try:
        return msgspec.json.decode(reading.read_bytes(run, SOURCE), type=Source)
    except (OSError, ValueError, RecursionError):
        return None


def place_of(run: ForeignRun, about: About, root: Path, project: str | None = None) -> Path:
    """The directory of a foreign run under a directory of runs; a run of another source keeps its own."""
    folder = root / layout.directory(project or about.project or run.format)
    place = folder / layout.directory(about.id or digest(run.key, 6))
    if place.exists() and ((source := load(place)) is None or source.key != run.key):
        place = folder / f"{layout.directory(about.id)[:50]}-{digest(run.key, 3)}"
    return place


def convert(run: ForeignRun, root: Path, *, project: str | None = None, progress: Progress | None = None) -> Conversion:
    """Write a foreign run under a directory of runs, or add to it what is new."""
    stamp = run.stamp()
    about = run.about(None)
    place = place_of(run, about, root, project)
    before = load(place)
    if before is not None and before.stamp == stamp and before.settled:
        return Conversion(place, run.about(before.position), 0, before.lost, False)
    make_dir(place)
    source = before or Source(run.format, run.key, str(run.path), "", Written(f"{run.format}-{digest(run.key, 4)}"))
    if before is None:
        _save(place, source)  # so that a conversion that is cut off finds its own run again
    losses = Losses(source.lost)
    points = source.written.points
    source = _read(run, place, source, losses, project, progress)
    source.stamp, source.lost = stamp, losses.counts
    _save(place, source)
    return Conversion(place, run.about(source.position), source.written.points - points, losses.counts, before is None)


def preview(run: ForeignRun, root: Path, *, project: str | None = None, progress: Progress | None = None) -> Conversion:
    """What `convert` would do: reads everything, writes nothing."""
    place = place_of(run, run.about(None), root, project)
    source = load(place)
    losses = Losses(source.lost if source else None)
    position, points = source.position if source else None, 0
    if source is None or source.stamp != run.stamp():
        try:
            for item in run.read(position, losses):
                if isinstance(item, Position):
                    position = item.value
                    if progress is not None:
                        progress(item.done)
                elif isinstance(item, Points):
                    points += len(item.steps)
                elif isinstance(item, (records.Step, records.Eval)):
                    points += len(item.metrics)
        except Exception as error:
            losses.set(f"the rest could not be read: {words(error)}", 1)
    return Conversion(place, run.about(position), points, losses.counts, source is None)


def _read(
    run: ForeignRun, place: Path, source: Source, losses: Losses, project: str | None, progress: Progress | None
) -> Source:
    writer = RunWriter(place, source.written, host="")
    media = _MediaFolder(place, writer, losses)
    saved = source.written.size
    about = run.about(None)
    if not source.written.attempt and about.created:
        writer.start(about.created)
    try:
        for item in _items(run, source, losses):
            if isinstance(item, Points):
                writer.append_points(item)
            elif isinstance(item, Position):
                source.position = item.value
                if abs(writer.written.size - saved) > SAVED_EVERY:
                    writer.flush()
                    saved, source.lost = writer.written.size, losses.counts
                    _save(place, source)
                if progress is not None:
                    progress(item.done)
            elif isinstance(item, MediaFile):
                media.keep(item)
            elif isinstance(item, Restart):
                writer.restart(item.time, item.step)
            else:
                writer.append(item)
    except Exception as error:
        # A format names what it cannot read. What it did not foresee must not take the rest of the runs with it.
        losses.set(f"the rest could not be read: {words(error)}", 1)
    except BaseException:
        writer.abandon()
        raise
    about = run.about(source.position)
    _describe(run, about, place, source, writer, project)
    _end(run, about, source, writer)
    writer.flush()
    _save(place, source)
    writer.close()
    _set_time(_last_written(run, source.written), place)
    return source


def _items(run: ForeignRun, source: Source, losses: Losses) -> Iterator[Item]:
    """The items from a position on; of a source that was written again, all of them, as another attempt."""
    try:
        yield from run.read(source.position, losses)
    except Rewritten:
        source.position = None
        yield Restart(0)
        yield from run.read(None, losses)


def _describe(
    run: ForeignRun, about: About, place: Path, source: Source, writer: RunWriter, project: str | None
) -> None:
    """Write config, environment and summary, if they have changed."""
    origin = {"format": run.format, "path": str(run.path), **about.source}
    facts: dict[str, Plain] = {
        "config": redact(plain(about.config)),
        "environment": redact(plain({**about.environment, "source": origin})),
        "summary": plain(about.summary),
    }
    created = about.created or writer.written.first_time
    described = digest(repr((facts, about.name, tuple(about.tags), created)))
    if described == source.described:
        return
    if not writer.written.attempt:
        writer.start(created)
    for name, data in facts.items():
        if data:
            writer.append(records.Event(0, writer.written.last_time or created, name, data))
    source.described = described
    manifest.save(
        place,
        Manifest(
            project=clean_name(project or about.project or run.format),
            id=place.name,
            name=clean_name(about.name or about.id),
            created=created,
            tags=tuple(clean_name(str(tag)) for tag in about.tags),
            config=facts["config"],
            environment=facts["environment"],
            summary=facts["summary"],
        ),
    )


def _end(run: ForeignRun, about: About, source: Source, writer: RunWriter) -> None:
    """Write how the run ended, if that is known or nothing has come for a while."""
    quiet = time.time() - _last_written(run, writer.written) > QUIET
    source.settled = quiet or bool(about.state and about.state != "running")
    if writer.written.finished or about.state == "running":
        return
    if about.state:
        writer.finish(about.state, about.reason, about.ended)
    elif quiet:
        writer.finish(ENDED, "its source does not record how it ended")


def _last_written(run: ForeignRun, written: Written) -> float:
    """When a source was last written to, in seconds since the epoch: by its own times if its file is much newer.

    A file that was copied, unpacked or touched is not a sign that its run goes on.
    """
    modified, recorded = run.modified(), written.last_time / 1e9
    return recorded if 0 < recorded < modified - COPIED else modified


def _set_time(modified: float, place: Path) -> None:
    """Give the newest segment the time of its source, which is the heartbeat of a run that has not ended."""
    segments = layout.segments(place)
    if modified and segments:
        os.utime(place / layout.JOURNAL / segments[-1].filename, (modified, modified))


def _save(place: Path, source: Source) -> None:
    writing.replace(place, SOURCE, msgspec.json.encode(source))


class _MediaFolder:
    """Copies the media of a source into the run."""

    def __init__(self, run: Path, writer: RunWriter, losses: Losses) -> None:
        self._run, self._writer, self._losses = run, writer, losses

    def keep(self, item: MediaFile) -> None:
        try:
            data = item.data
            if item.folder is not None:
                data = reading.read_bytes(item.folder, item.path, LARGEST_MEDIA)
            path = self._free(item)
            writing.make_folder(self._run, path.rpartition("/")[0])
            writing.replace(self._run, path, data)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else words(error)
            self._losses.add(f"files that could not be copied ({reason})")
            return
        self._writer.append(
            records.File(
                0, item.time, clean_name(item.name), path, item.media, len(data), clean_name(item.caption), item.step
            )
        )

    def _free(self, item: MediaFile) -> str:
        """A path that no other file has; with the step in it, like those of our own."""
        stem = file_name(item.name, "")
        path = f"files/media/{stem}{item.suffix}"
        if reading.exists(self._run, path) and item.step is not None:
            path = f"files/media/{stem}-{item.step}{item.suffix}"
        number = 1
        while reading.exists(self._run, path):
            number += 1
            path = f"files/media/{stem}-{number}{item.suffix}"
        return path
