"""What opening other trackers' files costs, next to their own readers. CPU time, because the machine may be busy."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import chiplog
from bench.rows import Figure, row
from chiplog.sinks.tensorboard import events
from chiplog.store import layout
from chiplog.store.foreign.cached_runs import refresh
from chiplog.store.protobuf import writer
from chiplog.store.reader import Stored

POINTS = int(os.environ.get("BENCH_POINTS", "1000000"))
ROWS, VALUES = 100_000, 20
START = 1_763_000_000 * 10**9
BLOCK = 32 << 10
SOURCE_MB = int(os.environ.get("BENCH_SOURCE_MB", "256"))
BLOCK_ROWS = 100_000

ACCUMULATOR = """
import sys, time
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
began = time.process_time()
accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
accumulator.Reload()
count = sum(len(accumulator.Scalars(tag)) for tag in accumulator.Tags()["scalars"])
print(count, time.process_time() - began)
"""
OPEN = """
import resource, sys
from pathlib import Path
from chiplog.store.foreign.cached_runs import refresh
assert refresh(Path(sys.argv[1]), Path(sys.argv[2])) is not None
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
CLIENT = """
import sys, time
from mlflow import MlflowClient
client = MlflowClient(tracking_uri="sqlite:///" + sys.argv[1])
(run,) = client.search_runs(["0"])
began = time.process_time()
count = sum(len(client.get_metric_history(run.info.run_id, f"metric_{number}")) for number in range(10))
print(count, time.process_time() - began)
"""


@row
def foreign() -> Iterator[Figure]:
    """Other trackers' files: decoded into the cache and read back, compared with their own readers (CPU time)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _tensorboard(folder / "tensorboard")
        yield from _wandb(folder / "wandb")
        yield from _mlflow(folder / "mlflow")
        yield from _many(folder / "many")
        yield from _memory(folder / "memory")


def _timed(path: Path, points: int) -> float:
    """CPU seconds to decode a source and to read all its series."""
    began = time.process_time()
    root = refresh(path, path.parent / "cache")
    assert root is not None
    count = 0
    for run in layout.find_runs(root):
        stored = Stored(run)
        count += sum(len(stored.series(one)) for one in stored.names())
    taken = time.process_time() - began
    assert count == points, (count, points)
    return taken


def _theirs(script: str, path: Path, points: int) -> float:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    count, taken = done.stdout.split()[-2:]
    assert int(count) == points, done.stdout
    return float(taken)


def _tensorboard(folder: Path) -> Iterator[Figure]:
    folder.mkdir()
    tags = events.Tags()
    with (folder / "events.out.tfevents.1763000000.host").open("wb") as file:
        file.write(events.version(START))
        for at in range(POINTS):
            file.write(tags.scalars(START + at * 1000, at // 10, {f"train/metric_{at % 10}": math.sin(at)}))
    ours, theirs = _timed(folder, POINTS), _theirs(ACCUMULATOR, folder, POINTS)
    yield Figure(f"event files, {POINTS:,} scalars", ours, "s")
    yield Figure("times as fast as EventAccumulator", theirs / ours, "x", 10.0, at_least=True)


def _wandb(folder: Path) -> Iterator[Figure]:
    folder.mkdir()
    log = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    run = writer.message(1, b"abc") + writer.message(3, b"bench")
    _append(log, writer.message(17, run))
    names = [f"train/metric_{number}".encode() for number in range(VALUES)]
    for at in range(ROWS):
        row = {name: json.dumps(math.sin(at + number)).encode() for number, name in enumerate(names)}
        row |= {b"_step": str(at).encode(), b"_timestamp": str(1.763e9 + at).encode()}
        items = b"".join(
            writer.message(1, writer.message(2, key) + writer.message(16, one)) for key, one in row.items()
        )
        _append(log, writer.message(2, items))
    (folder / "run-abc.wandb").write_bytes(log)
    taken = _timed(folder, ROWS * VALUES)
    yield Figure(f".wandb, {ROWS:,} rows of {VALUES}", ROWS * VALUES / taken, "values/s", 300_000, at_least=True)


def _append(log: bytearray, record: bytes) -> None:
    """A record in LevelDB's framing."""
    first = True
    while record or first:
        left = BLOCK - len(log) % BLOCK
        if left < 7:
            log += bytes(left)
            continue
        piece, record = record[: left - 7], record[left - 7 :]
        kind = (1 if first else 4) if not record else (2 if first else 3)
        log += struct.pack("<IHB", crc32(piece, crc32(bytes([kind]))), len(piece), kind) + piece
        first = False


def _mlflow(folder: Path) -> Iterator[Figure]:
    folder.mkdir()
    path = folder / "mlflow.db"
    make = f"from mlflow import MlflowClient; MlflowClient(tracking_uri='sqlite:///{path}').create_run('0')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", make], check=True, capture_output=True)
    with sqlite3.connect(path) as connection:
        ((run,),) = connection.execute("SELECT run_uuid FROM runs").fetchall()
        connection.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)",
            ((f"metric_{at % 10}", math.sin(at), 1_763_000_000_000 + at, run, at // 10) for at in range(POINTS)),
        )
    connection.close()
    ours, theirs = _timed(path, POINTS), _theirs(CLIENT, path, POINTS)
    yield Figure(f"MLflow's SQLite, {POINTS:,} points", ours, "s")
    yield Figure("times as fast as get_metric_history", theirs / ours, "x", 20.0, at_least=True)


def _memory(folder: Path) -> Iterator[Figure]:
    """Of a process that opens a large source; the bar is for 2 GB, and less is enough to see whether it grows."""
    place = folder / "logs"
    place.mkdir(parents=True)
    tags = events.Tags()
    rows = (tags.scalars(START + at * 1000, at, {f"train/metric_{at % 10}": math.sin(at)}) for at in range(BLOCK_ROWS))
    block = b"".join(rows)
    with (place / "events.out.tfevents.1763000000.host").open("wb") as file:
        file.write(events.version(START))
        while file.tell() < SOURCE_MB << 20:
            file.write(block)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(place), str(folder / "cache")], capture_output=True, text=True, check=True
    )
    yield Figure(f"memory to open {SOURCE_MB:,} MB of event files", float(done.stdout), "MB", 300.0)


def _many(folder: Path) -> Iterator[Figure]:
    data = events.version(START) + b"".join(events.Tags().scalars(START, step, {"x": step}) for step in range(10))
    for number in range(500):
        place = folder / "logs" / str(number)
        place.mkdir(parents=True)
        (place / "events.out.tfevents.1").write_bytes(data)
        os.utime(place / "events.out.tfevents.1", (1.7e9, 1.7e9))
    refresh(folder / "logs", folder / "cache")
    yield Figure("500 foreign runs, opened again", _seconds(lambda: _opened(folder)), "s", 0.5)


def _opened(folder: Path) -> list[Stored]:
    root = refresh(folder / "logs", folder / "cache")
    runs = chiplog.runs(root)
    assert len(runs) == 500
    return runs


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
