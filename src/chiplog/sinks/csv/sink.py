"""CSV files: the metrics as one table, each logged table as another, and the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from chiplog.core import records
from chiplog.core.files import reading, writing
from chiplog.core.identity import Identity
from chiplog.core.paths import file_mode
from chiplog.core.records import AnyRecord, Event, Plain, Table
from chiplog.core.values import convert
from chiplog.sinks.csv.table import GrowingTable, cell
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.append_file import keep_aside
from chiplog.sinks.shared.clean_values import file_name
from chiplog.sinks.shared.history_updates import Update, Updates
from chiplog.sinks.shared.rows import Row, Rows

METRICS = "metrics"
CONFIG = "config.json"
STEP = "step/value"  # the column of a metric called `step`
LEADS = ("step", "time")


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Csv:  # noqa: ARG001
    return Csv(identity.files, config=identity.config)


class Csv:
    """`metrics.csv`, `config.json`, and `<name>.csv` for each table, in one directory.

    `rows` turns records into rows; by default they are joined by step. Existing files are kept under other names
    before the first state is taken, unless `restore` says that they are ours; an empty state means that nothing was
    written. With `table_steps=False`, tables have no column for the step.
    """

    def __init__(
        self,
        directory: Path,
        *,
        config: Mapping[str, Plain] | None = None,
        rows: Rows | Updates | None = None,
        table_steps: bool = True,
    ) -> None:
        self.directory = Path(directory)
        self.metrics = GrowingTable(self.directory / f"{METRICS}.csv", LEADS)
        self.tables: dict[str, GrowingTable] = {}
        self._rows = Rows() if rows is None else rows
        self._table_steps = table_steps
        self._first_config = _strict(convert.plain(config or {}))
        self._config = self._first_config
        self._config_written: dict[str, Plain] | None = None
        self._started = False  # or restored: the files are ours, except `_other_files`
        self._other_files: set[str] = set()  # stems of CSV files that were here before
        self._unrestored: Mapping[str, Plain] | None = None  # a state whose restore has failed so far
        self._second, self._date = 0, ""
        self._left_out = 0  # rows whose metric `step` is not in the file, since it was their step

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._start()
        rows: list[Row | Update] = []
        tables: dict[str, list[tuple[bytes, Mapping[str, Plain]]]] = {}
        for record in batch:
            if isinstance(record, Table):
                step = {} if record.step is None or not self._table_steps else {"step": record.step}
                tables.setdefault(record.name, []).extend((b"", {**step, **row}) for row in record.rows)
            elif isinstance(record, Event) and record.name == "config":
                self._config = {**self._config, **_strict(record.data)}
            else:
                rows += self._rows.feed(record)
        if not batch and isinstance(self._rows, Rows):  # an update is complete, or waits for a device
            rows += self._rows.drain()
        self._add(rows)
        for name, cells in tables.items():
            if cells:
                table = self._table(name)
                table.add(cells)
                table.close()  # there may be more tables than descriptors
        if self._config is not self._config_written:
            self._write_config()

    def close(self) -> None:
        self.write(())
        self._add(self._rows.drain())
        self.metrics.close()

    def state(self) -> dict[str, Plain]:
        self._start()
        tables = {name: {"file": table.path.name, **table.state()} for name, table in self.tables.items()}
        return {
            "metrics": self.metrics.state(),
            "tables": tables,
            "held": self._rows.save(),
            **({"left_out": self._left_out} if self._left_out else {}),
            "config": self._config_written,
            **({"found": sorted(self._other_files)} if self._other_files else {}),
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Bring all files back to what they were when the state was saved.

        If that fails, it is tried again before the next write. A table that was started later is emptied when it
        comes again.
        """
        self._unrestored = state
        self._restore()

    def _start(self) -> None:
        """Retry a restore, or keep what another run has left here under other names."""
        if self._unrestored is not None:
            self._restore()
        elif not self._started:
            self._other_files = {
                Path(name).stem.casefold() for name in reading.path_names(self.directory) if name.endswith(".csv")
            }
            self.metrics.keep_other()
            keep_aside(self.directory / CONFIG)
            self._started = True

    def _restore(self) -> None:
        state = self._unrestored or {}
        self._started = True
        self._other_files = set(saved_state.texts(state, "found"))
        self.metrics.restore(saved_state.mapping(state, "metrics"))
        kept = saved_state.mapping(state, "tables", dict[str, Any])
        for name in self.tables.keys() - kept.keys():
            self.tables.pop(name).remove()
        for name, table in kept.items():
            if name not in self.tables:
                self.tables[name] = GrowingTable(self.directory / _own_name(saved_state.text(table, "file")))
            self.tables[name].restore(table)
            self.tables[name].close()
        self._rows.load(state.get("held"))
        self._left_out = saved_state.count(state, "left_out")
        if state.get("config") is None:
            self._config, self._config_written = self._first_config, None
            writing.remove(self.directory / CONFIG)
        else:
            self._config = saved_state.mapping(state, "config")
            self._write_config()
        self._unrestored = None

    def _add(self, rows: Sequence[Row | Update]) -> None:
        if not rows:
            return
        keeps = STEP in self.metrics or any("step" in row.metrics and not _is_its_step(row) for row in rows)
        # Rows that have left it out because it was their step have it from now on.
        repeats = (STEP,) if self._left_out == self.metrics.rows else ()
        self.metrics.add([(self._lead(row), _cells(row, keeps)) for row in rows], repeats)
        self._left_out += sum("step" in row.metrics and not keeps for row in rows)

    def _table(self, name: str) -> GrowingTable:
        table = self.tables.get(name)
        if table is None:
            taken = {METRICS, *(other.path.stem.casefold() for other in self.tables.values())}
            stem = file_name(name, "table", taken)
            # All our tables are known: any other file was here before, or was left by a writer that was killed.
            table = self.tables[name] = GrowingTable(
                self.directory / f"{stem}.csv", ours=stem.casefold() not in self._other_files
            )
        return table

    def _write_config(self) -> None:
        writing.make_place(self.directory)
        text = msgspec.json.format(msgspec.json.encode(self._config), indent=2)
        with writing.replacing(path := self.directory / CONFIG, file_mode(path)) as temporary:
            temporary.write_bytes(text + b"\n")
        self._config_written = self._config

    def _lead(self, row: Row | Update) -> bytes:
        step = b"%d" % row.step if type(row.step) is int else cell(row.step)
        return b"%b,%b" % (step, self._time(row.time))

    def _time(self, time: int) -> bytes:
        """ISO 8601 in UTC with microseconds; the nanoseconds themselves beyond the calendar."""
        second, rest = divmod(time, 1_000_000_000)
        if second != self._second or not self._date:
            try:
                self._date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            except (ValueError, OverflowError, OSError):
                return b"%d" % time
            self._second = second
        return f"{self._date}.{rest // 1000:06d}Z".encode()


def _own_name(file: str) -> str:
    """The file of a table, as a saved state has it; never a path."""
    if Path(file).name != file or not file.endswith(".csv"):
        raise ValueError(f"{file!r} is not the file of a table")
    return file


def _is_its_step(row: Row | Update) -> bool:
    return bool(row.metrics["step"] == row.step)


def _cells(row: Row | Update, keeps: bool) -> Mapping[str, Plain]:
    """The cells of a row. A metric with the name of a leading column is called `step/value`; it is left out if it has
    always been the step."""
    metrics = row.metrics
    if not any(name in metrics for name in LEADS):
        return metrics
    cells: dict[str, Plain] = {}
    for name, value in metrics.items():
        if name != "step" or keeps:
            column = name
            while column in LEADS or (column != name and column in metrics):
                column += "/value"
            cells[column] = value
    return cells


def _strict(config: Mapping[str, Plain]) -> dict[str, Plain]:
    """A config as strict JSON, with non-finite numbers as text."""
    data: dict[str, Plain] = records.fields(Event(0, 0, "config", dict(config))).get("data", {})
    return data
