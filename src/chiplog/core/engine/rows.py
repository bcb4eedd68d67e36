"""A row on its way: through the stages, into the journal, past the rules."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic_ns

from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rules import CarriedState, Rules, name_of
from chiplog.core.protocols import Stage
from chiplog.core.records import Row, Step
from chiplog.core.values.line_pieces import pieces


class RowWriter:
    """Writes the rows of one run. `plain` is whether a row of numbers may skip it, straight to the journal."""

    def __init__(self, recorder: Recorder, stages: Sequence[Stage], rules: Rules, memory: CarriedState) -> None:
        self._recorder, self._stages, self._memory = recorder, tuple(stages), memory
        self.rules = rules
        self.plain = recorder.journal is not None and not self._stages

    def write(self, row: Row, step: int | float, counted: bool = False) -> Row:
        """The row as it was written."""
        recorder = self._recorder
        if recorder.inert:
            recorder.refuse()
            return row
        if self._memory.pending:
            self._memory.begin(step)
            self.plain = not self._stages
        for stage in self._stages:
            try:
                row = stage(row, step) or row
            except Exception as error:
                recorder.failed(f"stage {name_of(stage)}", error)
        for piece in pieces(row):
            recorder.append(Step(next(recorder.seq), monotonic_ns() + recorder.offset, step, piece, counted))  # type: ignore[arg-type]
        self.rules.look(row, step)
        return row.copy()

    def wait_for_state(self) -> None:
        """Let the first row go through `write`: it decides whether saved state is restored."""
        self.plain = self.plain and not self._memory.pending
