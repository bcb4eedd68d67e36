"""Splits a logged mapping into numbers, device values, media and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chiplog.core import messages, records
from chiplog.core.engine.attachments import Attachments
from chiplog.core.engine.events import Events
from chiplog.core.engine.recorder import Recorder
from chiplog.core.protocols import DeviceValues
from chiplog.core.records import Row
from chiplog.core.values import convert
from chiplog.core.values.media import Image, Media
from chiplog.core.values.redact import redact_text
from chiplog.core.values.text import cut, words


class Splitter:
    """Takes the numbers out of what was logged; values on a device wait, media and texts become records."""

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
        self.watchers: list[Callable[[str, Media, int | float], object]] = []  # of media
        self._holds = waiting.holds if waiting is not None else _never

    def sort(self, metrics: Mapping[str, Any], step: int | float) -> Row:
        """The numbers of a row; what else is in it goes its own way."""
        found = convert.sort(metrics, self._holds)
        if found.later and self._waiting is not None:
            self._waiting.add(step, found.later)
            if self._wake is not None:
                self._wake()
        for name, media in found.media.items():
            try:
                self._keep(name, media, step)
            except Exception as error:
                why = words(error)
                messages.once(f"media {self._run} {name}", f"{name!r} cannot be kept ({why}); the rest of the row is")
                self._recorder.write(records.Text, name=name, text=f"<{type(media).__name__}: {why}>", step=step)
        for name, value in found.texts.items():
            text = redact_text(value)
            messages.once(
                f"no number {self._run} {name}",
                f"{name!r} is not a number ({cut(text, 60)!r}); stored as text",
            )
            self._recorder.write(records.Text, name=name, text=text, step=step)
        return found.row

    def apart(self, metrics: Mapping[str, Any]) -> tuple[Row, dict[str, Any]]:
        """The numbers that can be read at once, and the rest; nothing is kept yet."""
        found = convert.sort(metrics, self._holds)
        return found.row, {**found.later, **found.media, **found.texts}

    def _keep(self, name: str, media: Media, step: int | float) -> None:
        if isinstance(media, Image):
            self._files.image(name, media, step)
        else:
            for kind, fields in media.records(name):
                if kind is records.Event:
                    self._events.write(fields["name"], fields["data"], step)
                else:
                    self._recorder.write(kind, step=step, **fields)
            for watch in self.watchers:
                watch(name, media, step)


def _never(_: Any) -> bool:
    return False
