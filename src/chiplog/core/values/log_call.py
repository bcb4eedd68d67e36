"""Calls of `log` and `eval` that are not `log({name: value}, step)`: what they mean, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chiplog.core import messages
from chiplog.core.values.convert import text
from chiplog.core.values.text import cut

IGNORED = ("commit", "sync")  # of W&B's log
SLIPS = ("steps", "stpe", "setp", "stp", "Step", "global_step")  # which may have been meant as `step`


def understand(
    call: str, run: str, metrics: object, step: Any, more: tuple[object, ...], named: Mapping[str, object]
) -> tuple[Mapping[str, object], Any]:
    """The row and the step that a call means; each kind of mistake is explained once per run."""
    if isinstance(metrics, Mapping) and not named and not more:
        return metrics, step
    row = dict(named)
    ignored = [name for name in IGNORED if isinstance(row.get(name), bool) and row.pop(name) is not None]
    if ignored:
        messages.once(
            f"{call} {run} {ignored}",
            f"{call}(..., {ignored[0]}=...) is ignored: rows with the same step are joined; pass step=...",
        )
    if step is None and (slip := next((name for name in SLIPS if name in named), None)):
        problem = f"{call}(..., {slip}=...) is a metric named {slip!r}; did you mean step=?"
        messages.once(f"{call} {run} {slip}", problem)
    if isinstance(metrics, Mapping):
        row = {**metrics, **row}
    elif isinstance(metrics, str) and step is None and not row:
        messages.once(
            f"{call} {run} name",
            f"{call}({cut(metrics, 60)!r}) has no value: write run.{call}({{{cut(metrics, 60)!r}: value}}, step=10)",
        )
    elif isinstance(metrics, str):
        example = f"run.{call}({{{metrics!r}: {cut(text(step), 40)}}}{', step' if more else ''})"
        messages.once(
            f"{call} {run} name", f"{call} takes a mapping; {cut(metrics, 60)!r} is kept, but write {example}"
        )
        return {metrics: step, **row}, next(iter(more), None)
    elif metrics is not None or not row:
        messages.once(
            f"{call} {run} {type(metrics).__name__}",
            f"{call}({cut(text(metrics), 60)}) records nothing: write run.{call}({{'loss': 0.5}}, step=10)",
        )
    if more:
        messages.once(f"{call} {run} more", f"{call} takes a mapping and a step; {cut(text(more), 60)} is left out")
    return row, step
