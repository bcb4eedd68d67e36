"""The path of a row: through the stages, into the journal, past the rules."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic_ns

from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.reentry_guard import ReentryGuard, is_ours
from chiplog.core.engine.rules import CarriedState, Rules, name_of
from chiplog.core.protocols import Stage
from chiplog.core.records import Eval, Number, Row, Step
from chiplog.core.values.row_pieces import pieces


class RowWriter:
    """Writes the rows of one run. If `plain`, a row of numbers may skip it and go straight to the journal."""

    def __init__(self, recorder: Recorder, stages: Sequence[Stage], rules: Rules, carried: CarriedState) -> None:
        self._recorder, self._carried = recorder, carried
        self._stages = tuple(
            (stage if is_ours(stage) else ReentryGuard(stage, f"stage {name_of(stage)}"), name_of(stage))
            for stage in stages
        )
        self.rules = rules
        self.plain = recorder.journal is not None and not self._stages

    def write(self, row: Row, step: Number, counted: bool = False) -> Row:
        """Write a row and return it as written."""
        recorder = self._recorder
        if recorder.inert:
            recorder.refuse_row(row)
            return row
        if self._carried.pending:
            self._carried.restore(step)
            self.plain = not self._stages
        for stage, name in self._stages:
            try:
                row = stage(row, step) or row
            except Exception as error:
                recorder.failed(f"stage {name}", error)
        for piece in pieces(row):
            recorder.append(Step(next(recorder.seq), monotonic_ns() + recorder.offset, step, piece, counted))  # type: ignore[arg-type]
        self.rules.check(row, step)
        return row.copy()

    def write_eval(self, row: Row, step: Number) -> Row:
        """Write the row of an evaluation, whose names are in the group `eval`, and return it without the group.

        One without numbers is not an evaluation.
        """
        if not row:
            return row
        short = {name.removeprefix("eval/"): value for name, value in row.items()}
        for piece in pieces(short):
            self._recorder.write(Eval, step=step, metrics=piece)
        self.rules.check(row, step)
        return short

    def write_statistics(self, row: Row, step: Number, *, counted: bool) -> None:
        """Write statistics across ranks, which no stage and no rule sees."""
        for piece in pieces(row):
            self._recorder.write(Step, step=step, metrics=piece, auto=counted, across=True)

    def wait_for_state(self) -> None:
        """Send the first row through `write`, which decides whether saved state is restored."""
        self.plain = self.plain and not self._carried.pending
