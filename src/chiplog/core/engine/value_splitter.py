"""Splits a logged mapping into numbers, device values, media and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chiplog.core import messages, records
from chiplog.core.engine.attachments import Attachments
from chiplog.core.engine.events import Events
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import DeviceValues
from chiplog.core.records import Number, Row
from chiplog.core.values import convert
from chiplog.core.values.foreign_media import Several, recognize
from chiplog.core.values.media import Image, Media
from chiplog.core.values.redact import redact_text
from chiplog.core.values.text import cut, words


class Splitter:
    """Returns the numbers of a logged mapping; values on a device wait, media and text become records."""

    def __init__(
        self,
        run: str,
        recorder: Recorder,
        events: Events,
        files: Attachments,
        waiting: DeviceValues | None,
        wake: Callable[[], None] | None,
    ) -> None:
        self._run, self._recorder, self._events, self._files = run, recorder, events, files
        self._waiting, self._wake = waiting, wake
        self.listeners: list[Callable[[str, Media, Number], object]] = []  # called with media
        self._kinds = convert.Kinds(waiting.holds if waiting is not None else _never, recognize)

    def split(self, metrics: Mapping[str, object], step: Number) -> Row:
        """The numbers of a row; the rest is recorded separately."""
        split = convert.split(metrics, self._kinds)
        if split.later and self._waiting is not None:
            self._waiting.add(step, split.later)
            if self._wake is not None:
                self._wake()
        for name, media in split.media.items():
            try:
                problem = self._write_media(name, media, step)
            except Exception as error:
                problem = words(error)
            if problem:
                self._report_problem(name, media, problem, step)
        for name, value in split.texts.items():
            text = redact_text(value)
            arrays = " shape (" in text or _is_arrays(metrics.get(name))
            fix = "; log a number, such as its mean, or keep it whole in a Histogram, Matrix or Image" if arrays else ""
            if self._recorder.keeps and not self._recorder.held:  # other ranks would repeat it
                short = repr(cut(text, 80)) if type(metrics.get(name)) is str else cut(text, 80)
                messages.once(
                    f"no number {self._run} {name}", f"{name!r} is not a number ({short}); stored as text{fix}"
                )
            self._recorder.write(records.TextRecord, name=name, text=text, step=step)
        return split.row

    def preview(self, metrics: Mapping[str, object]) -> tuple[Row, dict[str, object]]:
        """The numbers that can be read at once, and the rest; nothing is recorded yet."""
        split = convert.split(metrics, self._kinds)
        return split.row, {**split.later, **split.media, **split.texts}

    def _report_problem(self, name: str, media: Media, problem: str, step: Number) -> None:
        words = f"cannot record {name!r} ({problem}); the rest of the row is recorded"
        self._recorder.report(f"media {self._run} {name}", words, f"log ({name!r})")
        self._recorder.write(records.TextRecord, name=name, text=f"<{type(media).__name__}: {problem}>", step=step)

    def _write_media(self, name: str, media: Media, step: Number) -> str:
        """Record media; returns why they cannot be kept, or nothing."""
        if media.problem:
            return media.problem
        if isinstance(media, Image):
            self._files.image(name, media, step)
            return ""
        if isinstance(media, Several):
            return next(filter(None, [self._write_media(name, item, step) for item in media.items]), "")
        for kind, fields in media.records(name):
            if kind is records.Event:
                self._events.write(fields["name"], fields["data"], step)
            else:
                self._recorder.write(kind, step=step, **fields)
        for call in self.listeners:
            call(name, media, step)
        return ""


def _is_arrays(value: object) -> bool:
    """Whether a value is a list of arrays, which may be pictures or numbers."""
    if not issubclass(type(value), (list, tuple)):  # a class may claim to be another, and fail at it
        return False
    return bool(value) and getattr(type(value[0]), "shape", None) is not None  # type: ignore[index]


def _never(_: object) -> bool:
    return False
