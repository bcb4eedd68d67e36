"""What a history, a tracker or a backend writes to a run: rows, a config, tables, images and files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chiplog import Image, Matrix, Run, assembly
from chiplog.core import messages
from chiplog.core.records import Event, Row
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.media import Media
from chiplog.core.values.row_pieces import WIDEST
from chiplog.frontends.ezpz.rows_in_memory import RowsInMemory
from chiplog.runtime.devices.pending_values import PendingValues
from chiplog.sinks.shared.history_updates import UPDATE, nested_text

logger = logging.getLogger("chiplog.ezpz")

is_on_device = PendingValues().holds


def start_run(
    project_name: str | None, config: Mapping[str, object], sinks: Mapping[str, object], **options: Any
) -> Run:
    """Start a run with these sinks; W&B runs in this process, so that its own object can be reached. If the process is
    killed, another one delivers the rest."""
    return assembly.beside(
        project=project_name or None,
        config=dict(config),
        sinks=dict(sinks) or "none",
        relay="thread" if "wandb" in sinks else "auto",
        **options,
    )


class Writer:
    """One run, and the step of the next row that is logged without one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.next: int | float = 0
        self.memory: RowsInMemory | None = None  # for a history on a rank without a journal
        self._log = run.log
        self._across = run.across

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> Row:
        """Record a row and return its numbers; without a step it gets the next one, or its own `step` metric."""
        if isinstance(step, str):
            step = _parse_step(step)
        counted = step is None
        if step is None:
            step = self.next
            if type(metrics) is dict and type(own := metrics.get("step")) is int:
                step, counted = own, False
        if self._across is not None:
            self._across.counted = counted
        if type(metrics) is dict and NUMBERS.issuperset(map(type, metrics.values())) and len(metrics) <= WIDEST:
            row = self._log(metrics, step)
        else:
            row = self._log_parts(metrics, step)
        self.next = step + 1 if commit else step
        if self.memory is not None:
            self.memory.add(dict(leaves(metrics)))
        return row

    def _log_parts(self, metrics: Mapping[str, object], step: int | float) -> Row:
        """A row that may become several records, preceded by one that lists all its names."""
        flat = {name: _matrix(value) for name, value in leaves(metrics)}
        nested = {name: text for name, value in flat.items() if _dimensions(value) > 2 and (text := nested_text(value))}
        if len(flat) > WIDEST or any(_is_separate(value) for value in flat.values()):
            values = {"values": nested} if nested else {}
            self.run.write(Event, name=UPDATE, data={"names": list(flat), **values}, step=step)
        flat = {name: value for name, value in flat.items() if name not in nested}
        return self._log(flat, step) if flat or not nested else {}

    def log_config(self, config: Mapping[str, object]) -> None:
        self.run.config.update(config)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[object]]) -> None:
        self.run.table(key, [dict(zip(columns, row, strict=False)) for row in data])

    def log_image(self, key: str, image_path: str | Path, caption: str | None = None) -> None:
        try:
            self.run.log({key: Image(image_path, caption or "")})
        except (OSError, ValueError) as error:
            logger.warning("%r cannot be kept as an image: %s", str(image_path), error)

    def log_artifacts(self, artifacts: Mapping[str, str | Path]) -> None:
        for name, path in artifacts.items():
            self.run.artifact(path, name)


def leaves(metrics: Mapping[Any, object], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """The values of a row by the names they are recorded under: `d/a` for `{"d": {"a": 1.0}}`."""
    for key, value in metrics.items():
        name = prefix + convert.name(key)
        if isinstance(value, Mapping) and depth < convert.DEEPEST:
            yield from leaves(value, f"{name}/", depth + 1)
        else:
            yield name, value


def _parse_step(text: str) -> int | float | None:
    """A step from a string; None if it is not a number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    messages.once(f"step {text[:20]}", f"step = {text[:20]!r} is not a number; the row gets the next step")
    return None


def _matrix(value: Any) -> object:
    """A vector or matrix as a `Matrix`; the engine converts everything else."""
    if isinstance(value, (int, float, str, bytes)) or value is None:
        return value
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) in (1, 2) and not (len(shape) == 1 and shape[0] == 1):
        listed = value.detach().tolist() if hasattr(value, "detach") else value.tolist()
        return Matrix([listed] if len(shape) == 1 else listed)
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(one, (int, float)) for one in value):
            return Matrix([value])
        if all(isinstance(row, (list, tuple)) and all(isinstance(one, (int, float)) for one in row) for row in value):
            return Matrix(value)
    return value


def _dimensions(value: object) -> int:
    """How many dimensions an array or a list of lists has; 0 for anything else."""
    if (shape := getattr(value, "shape", None)) is not None:
        return len(shape) if hasattr(value, "tolist") else 0
    depth = 0
    while isinstance(value, (list, tuple)) and value:
        value, depth = value[0], depth + 1
    return depth


def _is_separate(value: object) -> bool:
    """Whether a value becomes a record of its own."""
    if type(value) in NUMBERS:
        return False
    try:
        return isinstance(value, Media) or is_on_device(value) or convert.number(value) is None
    except Exception:  # the conversion runs the value's own code
        return True
