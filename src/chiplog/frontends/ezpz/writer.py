"""What a history, a tracker or a backend gives to a run: rows, a config, tables, pictures and files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chiplog.core import messages
from chiplog.core.records import Event, Row
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.line_pieces import WIDEST
from chiplog.core.values.media import Image, Media
from chiplog.frontends.ezpz.rows_in_memory import OwnRows
from chiplog.frontends.ezpz.vectors import array
from chiplog.runtime.devices.pending_values import PendingValues
from chiplog.sinks.shared.update_rows import UPDATE

logger = logging.getLogger("chiplog.ezpz")

_on_device = PendingValues().holds


class Writer:
    """One run, and the step of the next row that does not say its own."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.next: int | float = 0
        self.own: OwnRows | None = None  # for a history on a rank that keeps no journal
        self._log = run.log
        self._across = run.across

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> Row:
        """Record a row, and return its numbers; without a step it is the next one, or what its `step` says."""
        if isinstance(step, str):
            step = _number(step)
        counted = step is None
        if step is None:
            step = self.next
            if type(metrics) is dict and type(said := metrics.get("step")) is int:
                step, counted = said, False
        if self._across is not None:
            self._across.counted = counted
        if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())) and len(metrics) <= WIDEST:
            row = self._log(metrics, step)
        else:
            row = self._log_parts(metrics, step)
        self.next = step + 1 if commit else step
        if self.own is not None:
            self.own.add(dict(leaves(metrics)))
        return row

    def _log_parts(self, metrics: Mapping[str, Any], step: int | float) -> Row:
        """A row that may become several records: then one goes before them that names all of it."""
        flat = {name: array(value) for name, value in leaves(metrics)}
        if len(flat) > WIDEST or any(_is_apart(value) for value in flat.values()):
            self.run.write(Event, name=UPDATE, data={"names": list(flat)}, step=step)
        return self._log(flat, step)

    def log_config(self, config: Mapping[str, Any]) -> None:
        self.run.config.update(config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        self.run.table(key, [dict(zip(columns, row, strict=False)) for row in data])

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        try:
            self.run.log({key: Image(image_path, caption or "")})
        except (OSError, ValueError) as error:
            logger.warning("%r is not a picture that can be kept: %s", str(image_path), error)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        for name, path in artifacts.items():
            self.run.artifact(path, name)


def _number(text: str) -> int | float | None:
    """The step that a text says; None where it is not a number, and the row is counted."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    messages.once(f"step {text[:20]}", f"step = {text[:20]!r} is not a number; the row has the next step")
    return None


def leaves(metrics: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The values of a row by the names they are kept under: `d/a` for `{"d": {"a": 1.0}}`."""
    for key, value in metrics.items():
        name = prefix + convert.name(key)
        if isinstance(value, Mapping) and depth < convert.DEEPEST:
            yield from leaves(value, f"{name}/", depth + 1)
        else:
            yield name, value


def _is_apart(value: Any) -> bool:
    """Whether a value becomes a record of its own."""
    if type(value) in NUMBERS:
        return False
    try:
        return isinstance(value, Media) or _on_device(value) or convert.number(value) is None
    except Exception:  # values.number asks the value itself
        return True
