"""A run as files of another tracker, written by the sink of that name, which needs the tracker's package.

Other trackers have one value per step: the points that a newer attempt has replaced are left out. What a tracker has no
place for is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

import msgspec

from chiplog.core import records
from chiplog.core.errors import ChiplogError
from chiplog.core.paths import make_dir
from chiplog.core.records import AnyRecord, Number
from chiplog.core.values.text import reason
from chiplog.sinks import registry
from chiplog.sinks.delivery.batch_writer import HalvingWriter
from chiplog.sinks.delivery.sync import identity_of
from chiplog.store.journal.tail import Tail
from chiplog.store.reader import Stored

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
REPLACED = "points that a newer attempt has replaced"
FRACTIONS = "fractions of steps"
RANKS = "records of other ranks"


@dataclass
class TrackerFiles:
    """What was written: its folder, the command that shows it, and by reason what could not be kept."""

    folder: Path
    how_to_open: str
    lost: dict[str, int] = field(default_factory=dict)


def to_tracker(
    stored: Stored, tracker: str, folder: Path, environ: Mapping[str, str], progress: Callable[[float], None]
) -> TrackerFiles:
    """Write a run into a folder, next to others that are there; again, it is written once if the tracker allows it."""
    module = import_module(f"chiplog.views.export.trackers.{tracker}")
    place = folder.absolute()
    make_dir(place)
    sink = registry.open_named(tracker, module.options(stored, place), identity_of(stored.path, str(place)), environ)
    written = TrackerFiles(folder, module.how_to_open(str(folder)))
    selection = _Selection(stored, module, written.lost)
    try:
        for batch in selection.batches(progress):
            writer = HalvingWriter(sink, None)
            writer.write(batch, [""] * len(batch))
            if writer.rejected:
                selection.count(f"records that {tracker} rejects ({writer.why})", len(writer.rejected))
        sink.close()
    except ChiplogError:
        raise
    except Exception as error:  # packages may raise anything
        raise ChiplogError(f"{tracker} does not accept the run: {reason(error)}") from error
    return written


class _Selection:
    """The records of a run that a tracker has a place for, and how many it has none for."""

    def __init__(self, stored: Stored, module: ModuleType, lost: dict[str, int]) -> None:
        self._stored, self._omitted, self._lost = stored, module.OMITTED, lost
        self._whole = module.WHOLE_STEPS
        for what in module.ALWAYS:
            self.count(what)

    def count(self, what: str, number: int = 1) -> None:
        self._lost[what] = self._lost.get(what, 0) + number

    def batches(self, progress: Callable[[float], None]) -> Iterator[list[AnyRecord]]:
        """All attempts of the main rank, oldest first."""
        attempts = self._stored.attempts
        main = min((one.rank for one in attempts), default=0)
        own = sorted(one.attempt for one in attempts if one.rank == main)
        if others := {one.rank for one in attempts} - {main}:
            self.count(f"{RANKS} ({len(others):,})")
        for number, attempt in enumerate(own):
            limit = self._stored.replaced_from(attempt, rank=main)
            tail = Tail(self._stored.path, rank=main, attempt=attempt)
            total = tail.lag() or 1
            while batch := tail.read():
                kept = [one for record in batch if (one := self._kept(record, limit, newest=attempt == own[-1]))]
                if kept:
                    yield kept
                progress((number + 1 - min(1.0, tail.lag() / total)) / len(own))

    def _kept(self, record: AnyRecord, limit: Number | None, *, newest: bool) -> AnyRecord | None:
        kind = records.kind_of(record)
        step = getattr(record, "step", None)
        if isinstance(record, records.Finish):
            # Others know no run whose end was not recorded.
            state = "finished" if record.state == "ended" else record.state
            return msgspec.structs.replace(record, state=state) if newest else None
        if kind in self._omitted and not (isinstance(record, records.File) and record.media.startswith("image/")):
            number = len(record.lines) if isinstance(record, records.ConsoleRecord) else 1
            self.count(self._omitted[kind], len(record.id) if isinstance(record, records.SpansRecord) else number)
            return None
        if limit is not None and step is not None and not step < limit:
            self.count(REPLACED, sum(1 for _ in records.points(record)))
            return None
        if self._whole and isinstance(step, float) and not step.is_integer():
            self.count(FRACTIONS)
        return record
