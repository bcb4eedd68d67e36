"""`wandb.plot`: charts of tables. Their data are kept as tables; the charts are not drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chiplog.compat.wandb import messages
from chiplog.compat.wandb.data.table import Table
from chiplog.compat.wandb.names_without_effect import Inert


def _table(table: Any, *_: object, **__: object) -> Any:
    """The table of a chart."""
    messages.not_kept("the layout of wandb.plot charts", "their tables are kept")
    return table


line = scatter = bar = histogram = _table


def plot_table(vega_spec_name: str = "", data_table: Any = None, *_: object, **__: object) -> Any:  # noqa: ARG001
    return _table(data_table)


def line_series(
    xs: Sequence[Any],
    ys: Sequence[Sequence[Any]],
    keys: Sequence[str] | None = None,
    title: str = "",  # noqa: ARG001
    xname: str = "x",  # noqa: ARG001
    **_: object,
) -> Table:
    """Several lines, as a table of step, key and value."""
    rows: list[list[Any]] = []
    for at, values in enumerate(ys):
        axis = xs[at] if xs and hasattr(xs[0], "__len__") else xs
        key = keys[at] if keys and at < len(keys) else f"key_{at}"
        rows += [[x, key, y] for x, y in zip(axis, values, strict=False)]
    made: Table = _table(Table(columns=["step", "lineKey", "lineVal"], data=rows))
    return made


def confusion_matrix(
    probs: Any = None,
    y_true: Sequence[int] | None = None,
    preds: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
    **_: object,
) -> Table:
    """How often each class was predicted for each class, as a table."""
    actual = [int(one) for one in (y_true if y_true is not None else ())]
    if preds is None:
        preds = [max(range(len(row)), key=row.__getitem__) for row in (probs if probs is not None else ())]
    predicted = [int(one) for one in preds]
    count = max([*actual, *predicted, -1]) + 1
    names = list(class_names) if class_names is not None else [f"Class_{at + 1}" for at in range(count)]
    pairs = list(zip(actual, predicted, strict=False))
    rows = [[names[a], names[p], pairs.count((a, p))] for a in range(len(names)) for p in range(len(names))]
    made: Table = _table(Table(columns=["Actual", "Predicted", "nPredictions"], data=rows))
    return made


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return Inert(f"wandb.plot.{name}")
