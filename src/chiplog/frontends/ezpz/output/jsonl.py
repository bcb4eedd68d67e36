"""The file with a line for every update: where it is, what becomes of one that is there, where it goes at the end."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

from chiplog.core.engine.shutdown import SinkDelivery
from chiplog.core.run import Run
from chiplog.frontends.ezpz.output.row_lines import RowLines
from chiplog.sinks.shared.append_file import CHUNK, keep_aside
from chiplog.store import layout

logger = logging.getLogger("chiplog.ezpz")

SINK = "ezpz-jsonl"


class Lines:
    """Its place is known when the run has its id."""

    def __init__(self, path: str | Path | None, folder: Path, overwrite: bool) -> None:
        self.path = Path(path).expanduser().absolute() if path is not None else folder
        self.overwrite = overwrite
        self._named = path is not None

    def open(self, outdir: str = "", rank: int = 0) -> RowLines:
        """A factory of the sink; `outdir` is the `files` of a run, below the folder that has its id."""
        if not self._named:
            self.path = self.path / f"{Path(outdir).parent.name}.jsonl"
        if self.overwrite:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", self.path, error)
        return RowLines(self.path, rank)

    def join(self, run: Run) -> None:
        """Follow a run that has begun without it."""
        from chiplog.sinks.delivery.couriers import deliver

        if run.inert:
            return
        identity, before = run.identity, run.post
        sink = self.open(str(identity.files), identity.rank)
        ours = deliver(run.dir, layout.Segment(identity.rank, identity.attempt, 0), {SINK: sink})
        run.post = ours if before is None else _both(before, ours)

    def bring(self, target: Path) -> None:
        """Bring it to the rest, or a copy of one at a place that somebody named.

        A file that is there is continued, unless it was to be overwritten; where a copy is to be, it is kept under a
        number, unless it is an older copy.
        """
        if self._named:
            self._copy(target)
        else:
            self._move(target)

    def _copy(self, target: Path) -> None:
        if not self.path.exists() or (target.exists() and target.samefile(self.path)):
            return
        try:
            if target.exists() and not self.overwrite and not _begins_with(self.path, target):
                keep_aside(target)
            shutil.copyfile(self.path, target)
        except OSError as error:
            logger.warning("%s cannot be copied to %s: %s", self.path, target, error)

    def _move(self, target: Path) -> None:
        if self.path == target or not self.path.exists():
            self.path = target if target.exists() else self.path
            return
        try:
            if target.exists() and not self.overwrite:
                with target.open("ab") as into, self.path.open("rb") as more:
                    shutil.copyfileobj(more, into)
                self.path.unlink()
            else:
                shutil.move(self.path, target)
        except OSError as error:
            logger.warning("%s cannot be moved to %s: %s", self.path, target, error)
        else:
            self.path = target


def _begins_with(path: Path, other: Path) -> bool:
    """Whether a file has everything that the other one has, and perhaps more behind it."""
    with path.open("rb") as whole, other.open("rb") as part:
        while piece := part.read(CHUNK):
            if whole.read(len(piece)) != piece:
                return False
    return True


def _both(first: SinkDelivery, second: SinkDelivery) -> SinkDelivery:
    def close(timeout: float) -> dict[str, str]:
        until = time.monotonic() + timeout
        return first.close(timeout) | second.close(max(1.0, until - time.monotonic()))

    return SinkDelivery(
        {**first.sinks, **second.sinks},
        lambda: {**first.health(), **second.health()},
        close,
        first.away,
        lambda timeout: first.settle(timeout) and second.settle(timeout),
    )
