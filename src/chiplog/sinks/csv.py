"""CSV files: the metrics as one table, each logged table as another, and the config beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from chiplog.core import records, values
from chiplog.core.files import make_dir
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Event, Plain, Table
from chiplog.sinks.rows import Row, Rows
from chiplog.sinks.sheet import Sheet, cell
from chiplog.store.manifest import write_whole

METRICS = "metrics"
CONFIG = "config.json"
LONGEST_NAME = 100  # characters of a file name


def open_sink(identity: Identity, environ: Mapping[str, str]) -> Csv:  # noqa: ARG001
    return Csv(identity.files, config=identity.config)


class Csv:
    """`metrics.csv`, `config.json`, and `<name>.csv` for each table, in one directory.

    Rows are joined by step, or one a record with `joined=False`. Files that are there already are kept under
    other names, unless `restore` says that they are ours; an empty state stands for nothing written yet.
    """

    def __init__(self, directory: Path, *, config: Mapping[str, Plain] | None = None, joined: bool = True) -> None:
        self.directory = Path(directory)
        self.metrics = Sheet(self.directory / f"{METRICS}.csv", ("step", "time"))
        self.tables: dict[str, Sheet] = {}
        self._rows = Rows(joined)
        self._first_config = _strict(values.plain(config or {}))
        self._config = self._first_config
        self._config_written: dict[str, Plain] | None = None
        self._restored = False
        self._behind: Mapping[str, Plain] | None = None  # a state that is still to be restored
        self._second, self._date = 0, ""

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if self._behind is not None:
            self._go_back()
        rows: list[Row] = []
        tables: dict[str, list[tuple[bytes, Mapping[str, Plain]]]] = {}
        for record in batch:
            if isinstance(record, Table):
                step = {} if record.step is None else {"step": record.step}
                tables.setdefault(record.name, []).extend((b"", {**step, **row}) for row in record.rows)
            elif isinstance(record, Event) and record.name == "config":
                self._config = {**self._config, **_strict(record.data)}
            else:
                rows += self._rows.feed(record)
        if not batch:
            rows = self._rows.drain()
        if rows:
            self.metrics.add([(self._lead(row), row.metrics) for row in rows])
        for name, cells in tables.items():
            if cells:
                sheet = self._table(name)
                sheet.add(cells)
                sheet.close()  # there may be more tables than descriptors
        if self._config is not self._config_written:
            self._write_config()

    def close(self) -> None:
        self.write(())
        self.metrics.close()

    def state(self) -> dict[str, Plain]:
        if self._behind is not None:
            self._go_back()
        tables = {name: {"file": sheet.path.name, **sheet.state()} for name, sheet in self.tables.items()}
        return {
            "metrics": self.metrics.state(),
            "tables": tables,
            "held": self._rows.save(),
            "config": self._config_written,
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Bring all files back to what they were when `state` was taken.

        Where that fails it is tried again before the next write. A table that another process began after that is
        emptied when it comes again.
        """
        self._behind = state
        self._go_back()

    def _go_back(self) -> None:
        state = self._behind or {}
        self._restored = True
        self.metrics.restore(state.get("metrics", {}))
        kept = state.get("tables", {})
        for name in self.tables.keys() - kept.keys():
            self.tables.pop(name).remove()
        for name, table in kept.items():
            if name not in self.tables:
                self.tables[name] = Sheet(self.directory / table["file"])
            self.tables[name].restore(table)
            self.tables[name].close()
        self._rows.load(state.get("held"))
        config = state.get("config")
        if config is None:
            self._config, self._config_written = self._first_config, None
            (self.directory / CONFIG).unlink(missing_ok=True)
        else:
            self._config = config
            self._write_config()
        self._behind = None

    def _table(self, name: str) -> Sheet:
        sheet = self.tables.get(name)
        if sheet is None:
            taken = {METRICS, *(other.path.stem.casefold() for other in self.tables.values())}
            # After a restore all tables are known: a file under a new name is what a killed writer left.
            path = self.directory / f"{_filename(name, taken)}.csv"
            sheet = self.tables[name] = Sheet(path, ours=self._restored)
        return sheet

    def _write_config(self) -> None:
        make_dir(self.directory)
        text = msgspec.json.format(msgspec.json.encode(self._config), indent=2)
        write_whole(self.directory / CONFIG, text + b"\n")
        self._config_written = self._config

    def _lead(self, row: Row) -> bytes:
        step = b"%d" % row.step if type(row.step) is int else cell(row.step)
        return b"%b,%b" % (step, self._time(row.time))

    def _time(self, time: int) -> bytes:
        """ISO 8601 in UTC with microseconds; the nanoseconds themselves where no calendar reaches."""
        second, rest = divmod(time, 1_000_000_000)
        if second != self._second or not self._date:
            try:
                self._date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            except (ValueError, OverflowError, OSError):
                return b"%d" % time
            self._second = second
        return f"{self._date}.{rest // 1000:06d}Z".encode()


def _strict(config: Mapping[str, Plain]) -> dict[str, Plain]:
    """A config as JSON can say it, with non-finite numbers as text."""
    data: dict[str, Plain] = records.fields(Event(0, 0, "config", dict(config))).get("data", {})
    return data


def _filename(name: str, taken: set[str]) -> str:
    """A table's name as a file name that is safe and free."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in name)
    safe = safe.strip(".-")[:LONGEST_NAME] or "table"
    free, number = safe, 1
    while free.casefold() in taken:
        number += 1
        free = f"{safe}-{number}"
    return free
