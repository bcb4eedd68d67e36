"""W&B's table: columns and rows, added at once or one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chiplog.compat.wandb import messages


class Table:
    """A table. Its rows are appended to the table of that name when it is logged; none are dropped."""

    MAX_ROWS = MAX_ARTIFACT_ROWS = 200_000  # scripts set these; there is no limit here

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        data: Any = None,
        rows: Sequence[Sequence[Any]] | None = None,
        dataframe: Any = None,
        dtype: object = None,  # noqa: ARG002  values keep their types
        optional: object = True,  # noqa: ARG002
        allow_mixed_types: bool = False,  # noqa: ARG002
        log_mode: str | None = "IMMUTABLE",
    ) -> None:
        self.columns: list[Any] = list(columns) if columns is not None else []
        self.data: list[list[Any]] = []
        self.log_mode = log_mode
        self.logged = 0  # rows that have been logged, for tables that grow
        try:
            frame = dataframe if dataframe is not None else data if hasattr(data, "columns") else None
            if frame is not None:
                self.columns = [str(column) for column in frame.columns]
                self.data = [list(row) for row in _frame_rows(frame)]
            else:
                listed = rows if data is None else data
                if columns is None:
                    self.columns = ["Input", "Output", "Expected"] if listed is None else []
                self.data = [list(row) for row in (listed if listed is not None else ())]
                if not self.columns and self.data:
                    self.columns = [str(at) for at in range(len(self.data[0]))]
        except Exception as error:
            messages.failed("wandb.Table", error)

    def add_data(self, *data: object) -> None:
        """Append one row."""
        if len(data) != len(self.columns):
            messages.once(
                f"row of {len(data)}",
                f"Table.add_data got {len(data)} values for {len(self.columns)} columns; the row is kept unchanged",
            )
        self.data.append(list(data))

    add_row = add_data

    def add_column(self, name: str, data: Iterable[Any], optional: bool = False) -> None:  # noqa: ARG002
        """Append one column."""
        values = list(data)
        self.columns.append(name)
        while len(self.data) < len(values):
            self.data.append([None] * (len(self.columns) - 1))
        for row, value in zip(self.data, values, strict=False):
            row.append(value)

    def get_column(self, name: str, convert_to: str | None = None) -> Any:
        """The values of one column."""
        at = self.columns.index(name)
        values = [row[at] for row in self.data]
        if convert_to == "numpy":
            import numpy as np

            return np.array(values)
        return values

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        yield from enumerate(self.data)

    def get_dataframe(self) -> Any:
        import pandas

        return pandas.DataFrame.from_records(self.data, columns=self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """Each row by column."""
        return [
            {str(self.columns[at]) if at < len(self.columns) else str(at): value for at, value in enumerate(row)}
            for row in self.data
        ]


def _frame_rows(frame: Any) -> Iterable[Any]:
    rows: Iterable[Any] = frame.rows() if hasattr(frame, "rows") else frame.itertuples(index=False, name=None)
    return rows
