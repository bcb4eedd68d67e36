"""The rows of a run: what `log` records, at which step, and what becomes of the summary.

Everything is written as it is logged; nothing is held back until a step ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chiplog.compat.shared.file_media import FileMedia
from chiplog.compat.wandb import messages
from chiplog.compat.wandb.data.files import Files
from chiplog.compat.wandb.data.table import Table
from chiplog.compat.wandb.recording.metrics import Definitions
from chiplog.compat.wandb.recording.summary import Summary
from chiplog.compat.wandb.recording.values import LIST, flattened, kept, kept_row
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.core.values.media import Media


class RowRecorder:
    """The rows of one run. The step counts up; a call with a step of its own opens that one."""

    def __init__(self, recorded: Run, files: Files, summary: Mapping[str, object], first: int) -> None:
        self.definitions = Definitions()
        self.summary = Summary(self.definitions, self._summary_set, summary)
        self.step = first
        self.finished = False
        self._recorded, self._files = recorded, files
        self._last, self._write = self.summary._last, recorded.log  # for the hot path

    def log(self, data: Any, step: object, commit: bool | None) -> None:
        """Record values of the current step, which ends with the call unless `commit=False` or a `step` is passed."""
        try:
            if step is None:
                at: float = self.step
                ends = commit is None or commit
            else:
                at, ends = self._step_of(step), bool(commit)
            if type(data) is dict and NUMBERS.issuperset(map(type, data.values())):
                row: dict[str, Any] = self._defined(data) if self.definitions.any else data
                if at >= self.step:
                    self._last.update(data)
            else:
                row = self._row(data, at)
            if row:
                self._write(row, at)
            if ends and at >= self.step:
                self.step = int(at) + 1
        except Exception as error:
            messages.failed("wandb.log", error)

    def next_row(self) -> int:
        """A step of its own."""
        self.step += 1
        return self.step - 1

    def log_at(self, data: dict[str, Any], at: int) -> None:
        """Record values of a step that has passed."""
        if row := self._row(data, at):
            self._write(row, at)

    def complete(self) -> None:
        """Record what is known only at the end: aggregates, and values that were logged after they were set."""
        for key, value in self.summary.overtaken().items():
            self._recorded.summary[key] = value
        for name, aggregate in self.definitions.aggregates.items():
            for operation, value in aggregate.summary().items():
                self._recorded.summary[f"{name}.{operation}"] = value

    def _step_of(self, step: object) -> float:
        """The step that was passed; a step that W&B would ignore is kept, and reported once."""
        try:
            number = convert.number(step)
        except Exception:
            number = None
        if number is None or number - number != 0:
            kind = type(step).__name__
            messages.once(
                "step type", f"a step is a whole number, not a {kind}; the current step, {self.step}, is used"
            )
            return self.step
        if number < self.step:
            messages.once(
                f"step back {self._recorded.id}",
                f"step {number} is before the current step, {self.step}: W&B would drop it; chiplog keeps it",
            )
        else:
            self.step = int(number)
        return int(number) if number == int(number) else number

    def _row(self, data: object, at: float) -> dict[str, Any]:
        """A row of any values, completed by the x axes it needs; tables and files are recorded here."""
        if self.finished:
            messages.once(
                f"finished {self._recorded.id}", f"run {self._recorded.id} has finished: what is logged now is not kept"
            )
            return {}
        if not isinstance(data, Mapping):
            messages.once("log type", f"wandb.log takes a dictionary, not {type(data).__name__}; ignored")
            return {}
        if any(not isinstance(key, str) for key in data):
            messages.once("log keys", "names of metrics are strings; others are converted")
        row = kept_row(data, partial(self._keep, at))
        if self.definitions.any:
            names = tuple(name for name, value in flattened("", data) if value is not None)
            row |= {name: kept(value) for name, value in self.definitions.complete(names, self._last).items()}
            self.definitions.collect(row, names)
        if at >= self.step:
            self._last.update({str(name): _remembered(one) for name, one in data.items() if _is_summary(one)})
        return row

    def _defined(self, data: dict[str, Any]) -> dict[str, Any]:
        """A row of numbers, completed by the x axes it needs."""
        names = tuple(data)
        self.definitions.collect(data, names)
        missing = self.definitions.complete(names, self._last)
        return {**data, **missing} if missing else data

    def _keep(self, at: float, name: str, value: Table | FileMedia) -> None:
        if isinstance(value, FileMedia):
            self._files.keep(name, value, at)
            return
        rows = value.rows()
        for row in rows[value.logged :]:
            for column, cell in row.items():
                if isinstance(cell, FileMedia | Table):
                    self._keep(at, f"{name}/{column}", cell)
                elif isinstance(cell, Media):
                    self._write({f"{name}/{column}": cell}, at)
                else:
                    continue
                row[column] = f"{name}/{column}"
        self._recorded.table(name, rows[value.logged :], step=at)
        value.logged = len(rows)

    def _summary_set(self, key: str, value: object) -> None:
        if isinstance(value, Media | FileMedia | Table):
            self._keep_or_write(key, value)
        else:
            self._recorded.summary[key] = value

    def _keep_or_write(self, key: str, value: Media | FileMedia | Table) -> None:
        if isinstance(value, Media):
            self._write({key: value}, self.step)
        else:
            self._keep(self.step, key, value)


def _is_summary(value: Any) -> bool:
    """Whether a value is small enough to remember: a number, text, or plain values in a mapping or a list."""
    if isinstance(value, int | float | str):
        return True
    if isinstance(value, Mapping):
        return all(map(_is_summary, value.values()))
    if isinstance(value, list | tuple):
        return len(value) <= LIST and all(map(_is_summary, value))
    try:
        return hasattr(value, "dtype") and all(length == 1 for length in value.shape)
    except Exception:  # a value of the user may raise anything
        return False


def _remembered(value: Any) -> Any:
    """A value for the summary, without the graph that made it."""
    return value.detach() if hasattr(value, "detach") else value
