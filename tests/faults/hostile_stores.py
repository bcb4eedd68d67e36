"""Files of other trackers that are whole and hostile: valid JSON, SQLite and frames whose values are chosen to hurt.

`python -m tests.faults.hostile_stores SECONDS [SEED]` makes such files and lets the command line list, show and import
them, until time is up or something is wrong.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.sinks.tensorboard import events
from chiplog.store.foreign.formats.wandb import offline_runs
from chiplog.store.foreign.leveldb_log import LogReader
from chiplog.store.foreign.tfrecords import Reader
from chiplog.store.protobuf.writer import message
from tests.faults.hostile_runs import BAD_NUMBERS, BAD_TEXT, CONTROL, Findings, bounded, command
from tests.store.foreign.test_leveldb_log import HEAD, log_of
from tests.support.foreign_data import FOLDER
from tests.support.memory import peak

MORE_TEXT = ["1e999", "-", "9" * 5000, "2026-01-01T00:00:00", "inf", "[" * 2000, '{"a":' * 500, "\ud800"]


class Mutator:
    """Replaces a few of the values in a file, the same ones for a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def folder(self, root: Path) -> None:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self._file(path)

    def _file(self, path: Path) -> None:
        head = path.read_bytes()[:16]
        if head.startswith(b"SQLite"):
            self._database(path)
        elif head.startswith(b"PK"):
            self._archive(path)
        elif "tfevents" in path.name:
            self._frames(path)
        elif head.startswith(b":W&B"):
            self._log(path)
        elif path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist([self._row() for _ in range(5)]), path)
        else:
            path.write_bytes(self._text(path.name, path.read_bytes()))

    def _archive(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            files = [(one.filename, archive.read(one)) for one in archive.infolist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files:
                archive.writestr(name, self._text(name, data))

    def _text(self, name: str, data: bytes) -> bytes:
        if name.endswith((".tsv", ".csv")):
            return self._cells(data, b"\t" if name.endswith(".tsv") else b",")
        try:
            whole = json.loads(data)
        except (ValueError, RecursionError):
            return b"".join(self._line(line) for line in data.splitlines(keepends=True))
        return _encode(self._changed(whole))

    def _line(self, line: bytes) -> bytes:
        try:
            return _encode(self._changed(json.loads(line))) + b"\n"
        except ValueError:
            return line

    def _cells(self, data: bytes, comma: bytes) -> bytes:
        rows = [line.split(comma) for line in data.splitlines()]
        for row in rows[1:]:
            if self._random.random() < 0.3:
                row[self._random.randrange(len(row))] = str(self._value()).encode("utf-8", "surrogatepass")
        return b"\n".join(comma.join(row) for row in rows) + b"\n"

    def _changed(self, value: Any) -> Any:
        """The same structure with some of its values, or whole branches, replaced."""
        if self._random.random() < 0.06:
            return self._value()
        if isinstance(value, dict):
            return {self._key(key): self._changed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._changed(item) for item in value]
        return value

    def _key(self, key: str) -> str:
        return self._random.choice(BAD_TEXT) if self._random.random() < 0.02 else key

    def _value(self) -> Any:
        simple: list[Any] = [*BAD_NUMBERS, *BAD_TEXT, *MORE_TEXT, None, [], {}, float("nan"), float("inf")]
        kind = self._random.random()
        if kind < 0.1:
            return [self._random.choice(simple) for _ in range(3)]
        if kind < 0.2:
            return {self._random.choice(BAD_TEXT): self._random.choice(simple)}
        if kind < 0.25:
            return _deep(self._random.choice((50, 400)))
        return self._random.choice(simple)

    def _database(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA ignore_check_constraints=ON")
            connection.execute("PRAGMA foreign_keys=OFF")
            tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
            for table in tables:
                columns = [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]
                rows = [row for (row,) in connection.execute(f'SELECT rowid FROM "{table}"')]
                for row in rows:
                    if self._random.random() < 0.3:
                        self._cell(connection, table, self._random.choice(columns), row)
        connection.close()

    def _cell(self, connection: sqlite3.Connection, table: str, column: str, row: int) -> None:
        value = self._value()
        (now,) = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid=?', (row,)).fetchone()
        if isinstance(now, str) and now.startswith("{"):
            value = self._changed(json.loads(now))
        if isinstance(value, (list, dict)):
            value = _encode(value).decode("utf-8", "replace")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            value = str(value)
        elif isinstance(value, str):
            value = value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        try:
            connection.execute(f'UPDATE "{table}" SET "{column}"=? WHERE rowid=?', (value, row))
        except sqlite3.Error:
            pass  # a constraint

    def _frames(self, path: Path) -> None:
        """Bytes of events changed, in frames whose checksums are right."""
        frames = [bytes(one.data[start:end]) for one in Reader(path).read() for start, end in one.spans]
        changed = []
        for frame in frames:
            data = bytearray(frame)
            for _ in range(self._random.choice((0, 1, 1, 3))):
                if data:
                    data[self._random.randrange(len(data))] = self._random.choice((0, 1, 127, 128, 255))
            changed.append(events._framed(bytes(data)))
        path.write_bytes(b"".join(changed))

    def _log(self, path: Path) -> None:
        """Records of W&B whose values are JSON of any kind, a few of them with changed bytes."""
        records = list(LogReader(path, WANDB_HEAD).read())
        for step in range(8):
            pairs = [
                ("_step", step),
                (self._key("loss"), self._value()),
                (self._random.choice(BAD_TEXT), self._value()),
            ]
            records.append(_history(pairs))
        changed = []
        for record in records:
            data = bytearray(record)
            if self._random.random() < 0.2:
                data[self._random.randrange(len(data))] = self._random.choice((0, 1, 127, 128, 255))
            changed.append(bytes(data))
        path.write_bytes(_wandb(changed))

    def _row(self) -> dict[str, Any]:
        """A row of Parquet, whose columns have a type each."""
        return {
            "step": self._random.choice((0, 1, -1, 2**63 - 1, None)),
            "loss": self._random.choice((0.5, 1e308, float("nan"), float("-inf"), None)),
            "note": self._random.choice(BAD_TEXT),
            "more": [self._random.choice((1.0, float("inf"))) for _ in range(self._random.randrange(3))],
        }


WANDB_HEAD = 7


def _wandb(records: Sequence[bytes]) -> bytes:
    data = log_of(bytes(WANDB_HEAD - HEAD), *records)  # the header has the size of an empty piece, which it replaces
    return b":W&B" + struct.pack("<HB", 0xBEE1, 0) + data[WANDB_HEAD:]


def _items(field: int, pairs: Sequence[tuple[str, Any]]) -> bytes:
    return b"".join(
        message(field, message(1, key.encode("utf-8", "replace")) + message(16, _encode(value))) for key, value in pairs
    )


def _history(pairs: Sequence[tuple[str, Any]]) -> bytes:
    return message(offline_runs._HISTORY, _items(1, pairs))


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


def _encode(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def stores(folder: Path) -> None:
    """One of every kind, as their clients write them."""
    for place in FOLDER.iterdir():
        if place.is_dir():
            shutil.copytree(place, folder / place.name)
    texts = {
        "trainer/trainer_state.json": _encode(
            {"log_history": [{"step": step, "loss": 1.0} for step in range(5)]}
        ).decode(),
        "json/log.jsonl": "".join(f'{{"step": {step}, "loss": {step / 7}, "note": "x"}}\n' for step in range(5)),
        "ray/result.json": "".join(
            f'{{"training_iteration": {step}, "loss": {step / 7}, "config": {{"lr": 0.1}}, "timestamp": 1800000000}}\n'
            for step in range(5)
        ),
        "csv/metrics.csv": "epoch,step,loss\n" + "".join(f"0,{step},{step / 7}\n" for step in range(5)),
        "csv/hparams.yaml": "lr: 0.1\nmodel: {dim: 3}\n",
        "mlruns/0/meta.yaml": "experiment_id: '0'\nname: first\n",
        "mlruns/0/r1/meta.yaml": '{"run_id": "r1", "run_name": "n", "start_time": 1800000000000, "status": 3}',
        "mlruns/0/r1/metrics/loss": "".join(f"18000000000{step:02d} {step / 7} {step}\n" for step in range(5)),
        "mlruns/0/r1/params/lr": "0.1",
        "mlruns/0/r1/tags/mlflow.user": "me",
    }
    texts["surogate/log.json"] = "[\n  " + ",\n  ".join(
        f'{{"log": "step", "time": "2026-01-02 03:04:0{step}.1", "step": {step}, "loss": {step / 7}, "phase": "x"}}'
        for step in range(5)
    ) + "\n]\n"  # fmt: skip
    texts["ezpz/history.jsonl"] = "".join(
        f'{{"timestamp": "2026-01-02T03:04:05", "rank": 0, "metrics": {{"loss": {step / 7}, "note": "x"}}}}\n'
        for step in range(5)
    )
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    board = folder / "board" / "events.out.tfevents.1.host"
    board.parent.mkdir()
    scalars = events.Tags().scalars
    board.write_bytes(
        events.version(10**9)
        + b"".join(scalars(10**9 + step, step, {"loss": step / 7}) for step in range(5))
        + events.text(10**9, 1, "words", "hello")
        + events.histogram(10**9, 2, "spread", [0.0, 1.0, 2.0], [1.0, 2.0])
    )

    (folder / "tables").mkdir()
    pq.write_table(pa.table({"step": [1, 2], "loss": [0.5, 0.25]}), folder / "tables" / "metrics.parquet")
    (folder / "wandb" / "offline-run-20260102_030405-abc").mkdir(parents=True)
    run = message(1, b"abc") + message(3, b"proj") + message(4, _items(1, [("lr", 0.1), ("model", {"dim": 3})]))
    rows = [_history([("_step", step), ("_timestamp", 1.8e9), ("loss", step / 7)]) for step in range(5)]
    file = folder / "wandb" / "offline-run-20260102_030405-abc" / "run-abc.wandb"
    file.write_bytes(_wandb([message(offline_runs._RUN, run), *rows]))
    (folder / "trackio").mkdir()
    with sqlite3.connect(folder / "trackio" / "proj.db") as connection:
        for table in ("metrics", "system_metrics"):
            connection.execute(
                f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, timestamp, run_name, step, metrics, log_id)"
            )
            for step in range(5):
                row = (
                    "2026-01-02T03:04:05+00:00",
                    "first",
                    step,
                    f'{{"loss": {step / 7}, "note": {{"a": "x"}}}}',
                    str(step),
                )
                connection.execute(
                    f"INSERT INTO {table} (timestamp, run_name, step, metrics, log_id) VALUES (?,?,?,?,?)", row
                )
        connection.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_name, config, created_at)")
        connection.execute("INSERT INTO configs (run_name, config) VALUES ('first', '{\"lr\": 0.1}')")
    connection.close()


def fuzz(seconds: float, first: int = 0, most: int = 10**9) -> Findings:
    """Make and read files until time is up."""
    findings = Findings()
    until, seed = time.monotonic() + seconds, first
    while time.monotonic() < until and seed < first + most:
        with tempfile.TemporaryDirectory(prefix="chiplog-hostile-") as folder:
            source, target = Path(folder, "source"), Path(folder, "target")
            source.mkdir()
            stores(source)
            Mutator(seed).folder(source)
            for words in (
                ["ls", "--dir", str(source)],
                ["ls", "--dir", str(source), "--json"],
                ["import", str(source), "--dir", str(target)],
                ["ls", "--dir", str(target), "--columns", "loss,lr,name,project"],
            ):
                findings.commands += 1
                with bounded(findings, f"seed {seed}: {words[0]}"):
                    printed, error = command(words)
                if error:
                    findings.append(f"seed {seed}: chiplog {words[0]}: {error}")
                if bad := CONTROL.search(printed):
                    around = printed[max(0, bad.start() - 40) :][:80]
                    findings.append(f"seed {seed}: chiplog {words[0]}: prints {bad[0]!r} in {around!r}")
        seed += 1
    return findings


if __name__ == "__main__":
    found = fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for line in found:
        print(line)
    print(f"{found.commands} commands, {len(found)} findings, {peak()} MiB")
