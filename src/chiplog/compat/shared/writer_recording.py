"""What a writer records, such as TensorBoard's. Nothing raises: an error is reported once, and training goes on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

import chiplog
from chiplog import assembly
from chiplog.compat.shared import file_media
from chiplog.compat.shared import writer_values as values
from chiplog.compat.shared.quiet_sinks import quiet_sinks
from chiplog.core import messages
from chiplog.core import run as engine
from chiplog.core.engine.shutdown import ending
from chiplog.core.errors import ChiplogError
from chiplog.core.guarded import failed, guarded
from chiplog.core.identity import Identity
from chiplog.core.run import Run
from chiplog.runtime.ranks import detect

_safe = guarded("a writer", None)
_of_writers: WeakSet[Run] = WeakSet()  # runs that a writer has started: each has its own


class Recording:
    """The run of one writer: the one passed in, the script's current one, or one of its own."""

    def __init__(self, who: str, name: str | None, run: Run | None, settings: Mapping[str, Any]) -> None:
        self.who, self._name, self._settings = who, name, settings
        self._counts: Counter[str] = Counter()  # of calls without a step, by tag
        self._own = False
        current = engine.current
        if run is None and current is not None and not current.inert and current not in _of_writers:
            run = current
        self.run = run or self._started()

    def _started(self, **resume: Any) -> Run:
        """A run of its own. The other ranks may have no writer, so none of them is waited for."""
        rank = detect.detect(os.environ).rank
        name = os.environ.get("CHIPLOG_NAME") or self._name
        usual = {"name": name, "sinks": quiet_sinks(os.environ), "ranks": rank, "reduce": False}
        try:
            run = assembly.beside(**{**usual, **self._settings, **resume})
        except ChiplogError as error:
            messages.say(f"{self.who}: no run could be started, so nothing is kept: {error}")
        except Exception as error:
            failed(f"{self.who}: starting a run", error)
        else:
            self._own = True
            _of_writers.add(run)
            return run
        return engine.inert(Identity("", "", Path(), "", ""), reason="")

    @_safe
    def log(self, tag: str, value: Any, step: Any, walltime: Any) -> None:
        """A value, or a row of them, at a step; without one, the calls with this tag are counted."""
        if walltime is not None:
            self.not_kept("walltime=", "a record has the time at which it was logged")
        row = dict(value) if isinstance(value, Mapping) else {tag: value}
        self._open().log(row, self._step(tag, step))

    @_safe
    def scalars(self, tag: str, row: Mapping[str, Any], step: Any, walltime: Any) -> None:
        self.log(tag, {f"{tag}/{name}": value for name, value in dict(row).items()}, step, walltime)

    @_safe
    def histogram(self, tag: str, sample: Any, step: Any, bins: Any, most: int | None) -> None:
        self.log(tag, values.histogram(sample, bins, most), step, None)

    @_safe
    def raw_histogram(self, tag: str, low: float, limits: Any, counts: Any, step: Any) -> None:
        self.log(tag, values.raw_histogram(low, limits, counts), step, None)

    @_safe
    def images(self, tag: str, images: Any, step: Any, formats: str) -> None:
        self.log(tag, chiplog.Image(values.batch(images, formats)), step, None)

    @_safe
    def sound(self, tag: str, samples: Any, rate: int, step: Any) -> None:
        self._file(tag, ".wav", file_media.wav(values.channels_last(samples), int(rate)), step)

    @_safe
    def sounds(self, tag: str, batch: Any, rate: int, step: Any) -> None:
        """A batch of sounds, each of samples and channels."""
        for name, samples in values.items_of(tag, batch, 2):
            self._file(name, ".wav", file_media.wav(samples, int(rate)), step)

    @_safe
    def videos(self, tag: str, batch: Any, rate: float, step: Any) -> None:
        """A batch of videos, each of frames with the channels last."""
        for name, frames in values.items_of(tag, batch, 4):
            self._file(name, ".gif", file_media.gif(values.channels_second(frames), rate), step)

    @_safe
    def video(self, tag: str, frames: Any, rate: float, step: Any) -> None:
        self._file(tag, ".gif", file_media.gif(frames, rate), step)

    @_safe
    def pr_curve(self, tag: str, labels: Any, predictions: Any, weights: Any, thresholds: int, step: Any) -> None:
        rows = values.precision_and_recall(labels, predictions, weights, thresholds)
        self._open().table(tag, rows, self._step(tag, step))

    @_safe
    def raw_pr_curve(self, tag: str, counts: tuple[Any, Any, Any, Any], step: Any) -> None:
        self._open().table(tag, values.rates_of(counts), self._step(tag, step))

    @_safe
    def hyperparameters(self, settings: Mapping[str, Any], metrics: Mapping[str, Any], step: Any) -> None:
        run = self._open()
        run.config.update({str(name): value for name, value in dict(settings).items()})
        numbers = {str(name): value for name, value in dict(metrics).items()}
        if numbers:
            run.log(numbers, self._step("hparams", step))

    @_safe
    def flush(self) -> None:
        self.run.flush()

    @_safe
    def finish(self, error: BaseException | None = None) -> None:
        """End the run, if it was started here."""
        if self._own and not self.run.inert:
            state, reason = ending(error)
            self.run.finish(state=state, reason=reason)

    def not_kept(self, what: str, why: str) -> None:
        """Report that a call or an argument is accepted and has no effect, once."""
        messages.once(f"{self.who} {what}", f"{self.who}: {what} is accepted and not kept: {why}")

    def _open(self) -> Run:
        """The run; as torch's writer opens another file after `close`, a run of its own is continued."""
        if self._own and self.run.inert and self.run.dir.name:
            self.run = self._started(resume=self.run.resume_token())
        return self.run

    def _step(self, tag: str, step: Any) -> Any:
        if step is not None:
            return step.item() if hasattr(step, "item") else step
        self._counts[tag] += 1
        return self._counts[tag] - 1

    def _file(self, tag: str, suffix: str, data: bytes, step: Any) -> None:
        media = file_media.FileMedia(data)
        media.suffix = suffix
        file_media.write(self._open(), str(tag), media, self._step(tag, step))
