"""The file with a line per update: `{"timestamp": …, "rank": 0, "step": 7, "metrics": {…}}`.

Statistics across ranks are among the metrics, and once more under `aggregated`.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from chiplog import Run
from chiplog.assembly.run_sinks import add_sink
from chiplog.core import records
from chiplog.core.records import AnyRecord, Plain
from chiplog.core.values import convert
from chiplog.metrics.ranks.statistics import ALWAYS
from chiplog.sinks.jsonl import Jsonl
from chiplog.sinks.shared.append_file import CHUNK, keep_aside
from chiplog.sinks.shared.history_updates import Update, Updates

logger = logging.getLogger("chiplog.ezpz")

SINK = "ezpz-jsonl"
STATISTICS = tuple(f"/{one}" for one in ALWAYS)

_encode = msgspec.json.Encoder().encode


class JsonlFile:
    """The place of the file, which is known once the run has its id."""

    def __init__(self, path: str | Path | None, folder: Path, overwrite: bool) -> None:
        self.path = Path(path).expanduser().absolute() if path is not None else folder
        self.overwrite = overwrite
        self._is_chosen = path is not None

    def open(self, outdir: str = "", rank: int = 0) -> RowLines:
        """A factory of the sink; `outdir` is the `files` of a run, below the directory with its id."""
        if not self._is_chosen:
            self.path = self.path / f"{Path(outdir).parent.name}.jsonl"
        if self.overwrite:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", self.path, error)
        return RowLines(self.path, rank)

    def follow(self, run: Run) -> None:
        """Write the lines of a run that has started without this file."""
        if not run.inert:
            add_sink(run, SINK, self.open(str(run.identity.files), run.identity.rank))

    def move(self, target: Path) -> None:
        """Move the file, or copy it if its user chose the path.

        A move appends to an existing file, unless it is to be overwritten; a copy renames one that is not an older
        copy.
        """
        try:
            if self._is_chosen:
                self._copy(target)
            else:
                self._move(target)
        except OSError as error:
            verb = "copied" if self._is_chosen else "moved"
            logger.warning("%s cannot be %s to %s: %s", self.path, verb, target, error)

    def _copy(self, target: Path) -> None:
        if not self.path.exists() or (target.exists() and target.samefile(self.path)):
            return
        if target.exists() and not self.overwrite and not _starts_with(self.path, target):
            keep_aside(target)
        shutil.copyfile(self.path, target)

    def _move(self, target: Path) -> None:
        if self.path == target or not self.path.exists():
            self.path = target if target.exists() else self.path
            return
        if target.exists() and not self.overwrite:
            with target.open("ab") as destination, self.path.open("rb") as source:
                shutil.copyfileobj(source, destination)
            self.path.unlink()
        else:
            shutil.move(self.path, target)
        self.path = target


class RowLines:
    """The sink: a line per update, appended to a file."""

    def __init__(self, path: Path, rank: int = 0) -> None:
        self._rank = rank
        self._updates = Updates()
        self._file = Jsonl(path, encode=self._line)  # type: ignore[arg-type]  # it gets updates instead of records

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._write([update for record in batch for update in self._updates.feed(record)])

    def close(self) -> None:
        self._write(self._updates.drain())
        self._file.close()

    def state(self) -> dict[str, Plain]:
        return {**self._file.state(), "waiting": self._updates.save()}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._file.restore(state)
        self._updates.load(state.get("waiting"))

    def _write(self, updates: list[Update]) -> None:
        self._file.write(updates)  # type: ignore[arg-type]

    def _line(self, update: Update) -> bytes:
        metrics = update.metrics
        line: dict[str, Plain] = {"timestamp": update.time / 1e9, "rank": self._rank, "step": update.step}
        line["metrics"] = metrics
        if aggregated := {name: value for name, value in metrics.items() if _is_statistic(name, metrics)}:
            line["aggregated"] = aggregated
        try:
            text = _encode(line)
        except (ValueError, TypeError, OverflowError):  # lone surrogates, ints that `str` refuses to convert
            text = b"null"
        return text if b"null" not in text else _encode(convert.plain(_strict(line)))


def _is_statistic(name: str, metrics: Mapping[str, Plain]) -> bool:
    return name.endswith(STATISTICS) and name.rpartition("/")[0] in metrics


def _strict(line: Mapping[str, Plain]) -> Plain:
    """A line with NaN and infinities as strings."""
    return records.fields(records.Event(0, 0, "row", dict(line)))["data"]


def _starts_with(path: Path, other: Path) -> bool:
    """Whether a file starts with all bytes of the other one."""
    with path.open("rb") as whole, other.open("rb") as part:
        while piece := part.read(CHUNK):
            if whole.read(len(piece)) != piece:
                return False
    return True
