"""Files that only look like another tracker's: nothing is run, nothing is contacted, nothing is written elsewhere."""

from __future__ import annotations

import json
import os
import pickle
import random
import sqlite3
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chiplog.sinks.tensorboard.events import Tags, version
from tests.store.foreign.test_leveldb_log import log_of

GUARD = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import mimetypes, sqlite3, tempfile
from chiplog.cli import main
import chiplog.store.foreign.registry, chiplog.store.foreign.conversion
import yaml
mimetypes.init()
target = os.path.realpath(sys.argv[2])
allowed = (target, os.path.realpath(tempfile.gettempdir()) + os.sep + "chiplog-", "/dev/")

def guard(event, args):
    if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "ctypes.dlopen") or event.startswith("socket."):
        os.write(2, f"FORBIDDEN {event} {args}\\n".encode()); os._exit(9)
    if event == "open" and isinstance(args[0], str) and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        if args[0].startswith("/") and not os.path.realpath(args[0]).startswith(allowed):  # others are names in an open folder
            os.write(2, f"WRITES {args}\\n".encode()); os._exit(9)

sys.addaudithook(guard)
sys.exit(main(["import", sys.argv[1], "--dir", sys.argv[2]]))
"""


def corpus(folder: Path) -> None:
    """Malformed and hostile files under the names that formats look for."""
    chance = random.Random(3)
    bomb = pickle.dumps(os.system)
    for number in range(6):
        noise = chance.randbytes(3000)
        for name in (
            "events.out.tfevents.1.host", "run-a.wandb", "x.db", "y.sqlite", "metrics.csv", "result.json", "log.jsonl",
            "z.parquet", "trainer_state.json", "training_args.bin", "meta.yaml", "model.pkl", "offline.zip", "journal.log",
            "plots/metrics/a.tsv", "inbox/w/0.jsonl", "messages.json", "experiment.json", "task.json",
        ):  # fmt: skip
            place = folder / str(number) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(noise if number % 2 else bomb + noise)
        (folder / str(number) / "run-b.wandb").write_bytes(b":W&B" + struct.pack("<HB", 0xBEE1, 0) + noise)
        (folder / str(number) / "p.parquet").write_bytes(b"PAR1" + noise + b"PAR1")
        (folder / str(number) / "j.log").write_bytes(b'{"op_code":0}\n{"op_code":4,"study_id":9}\n[]\n' + noise)
        (folder / str(number) / "s.json").write_bytes(b'[\n{"log": "step", "time": 0, "loss": "x"},\n' + noise)
        (folder / str(number) / "e.jsonl").write_bytes(b'{"timestamp": 1, "rank": [], "metrics": {}}\n' + noise)
        with zipfile.ZipFile(folder / str(number) / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("experiment.json", '{"offline_id": "../../x", "start_time": 1e400, "tags": 3}')
            upload = {
                "file_path": "../../../etc/passwd",
                "upload_type": "text-sample",
                "additional_params": {"fileName": "../x"},
            }
            archive.writestr(
                "messages.json", json.dumps({"type": "file_upload", "payload": upload}) + "\n" + "[" * 99999
            )
    with zipfile.ZipFile(folder / "0" / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("task.json", '{"id": "a", "hyperparams": 3, "tags": "x"}')
        with archive.open("metrics.jsonl", "w") as inside:
            for _ in range(96):  # a bomb: 96 MiB in 100 KB
                inside.write(b"0" * (1 << 20))
    run = folder / "mlruns" / "0" / "r"
    (run / "metrics").mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: !!python/object/apply:os.system ['touch /tmp/never']\nstatus: 3\n")
    (run / "params").mkdir()
    (run / "params" / "link").symlink_to("/etc/passwd")
    (folder / "good").mkdir()
    (folder / "good" / "metrics.csv").write_text("step,../../x\n1,2\n")
    (folder / "good" / "hparams.yaml").write_text("lr: !!python/object/apply:os.system ['touch /tmp/never']\n")
    (folder / "pipe.csv").symlink_to("/dev/zero")
    os.mkfifo(folder / "fifo.csv")
    with sqlite3.connect(folder / "views.db") as connection:
        connection.execute("CREATE VIEW runs AS SELECT 1 AS run_uuid")
        for name in ("metrics", "params", "tags", "experiments"):
            connection.execute(f"CREATE TABLE {name} (run_uuid)")
    connection.close()


def _mlflow(folder: Path) -> Path:
    run = folder / "0" / "r"
    (run / "metrics").mkdir(parents=True)
    (run / "meta.yaml").write_text(f"run_id: r\nartifact_uri: {folder.parents[1]}\n")
    return run / "metrics" / "acc"


def _trainer(folder: Path) -> Path:
    (folder / "completions").mkdir(parents=True)
    (folder / "trainer_state.json").write_text('{"log_history": [{"step": 1, "loss": 2.0}]}')
    return folder / "completions" / "completions_00001.parquet"


def _database(folder: Path) -> Path:
    folder.mkdir()
    with sqlite3.connect(folder / "x.db") as connection:
        for name in ("runs", "metrics", "params", "tags", "experiments"):
            connection.execute(f"CREATE TABLE {name} (run_uuid, start_time)")
    connection.close()
    return folder / "x.db-journal"


@pytest.mark.parametrize("make", [_mlflow, _trainer, _database])
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_no_format_waits_for_a_pipe(tmp_path: Path, make: Callable[[Path], Path], put: Callable[[Path], None]) -> None:
    """Also where a package would open a file by itself; and no folder elsewhere is looked into."""
    (tmp_path / "secret.txt").touch()
    place = make(tmp_path / "source")
    put(place)
    program = "import sys; from chiplog.cli import main; sys.exit(main(sys.argv[1:]))"
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for words in (["ls", "--dir", str(tmp_path / "source")], ["import", str(tmp_path / "source")]):
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True, text=True, timeout=30, check=False, env=environ, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not any(b"secret.txt" in path.read_bytes() for path in files)


@pytest.mark.parametrize("name", ["events.out.tfevents.1.host", "run-a.wandb", "log.jsonl", "metrics.csv", "z.parquet"])
def test_holes_of_sparse_files_are_not_read(tmp_path: Path, name: str) -> None:
    """A TiB in a few KB takes a moment, and what is before the hole is read."""
    path = tmp_path / "source" / name
    path.parent.mkdir()
    path.write_bytes(_start(name))
    os.truncate(path, 1 << 40)
    listed = _chiplog(tmp_path, "import", str(tmp_path / "source"), "--dir", str(tmp_path / "runs"))
    assert "2 points" in listed or not name.startswith(("events", "log"))


def _start(name: str) -> bytes:
    """What a tracker has written before the hole: two points."""
    if name.endswith(".jsonl"):
        return b'{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n'
    if name.endswith(".csv"):
        return b"step,loss\n1,2.0\n2,1.0\n"
    if name.endswith(".wandb"):
        return b":W&B" + struct.pack("<HB", 0xBEE1, 0) + log_of(b"not a record of W&B")[7:]
    if name.startswith("events"):
        scalars = Tags().scalars
        return version(10**9) + b"".join(scalars(10**9 + step, step, {"loss": 2.0 / step}) for step in (1, 2))
    return b"PAR1"


def _chiplog(folder: Path, *words: str) -> str:
    program = "import sys; from chiplog.cli import main; sys.exit(main(sys.argv[1:]))"
    environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True, text=True, timeout=30, check=False, env=environ, cwd=folder,
    )  # fmt: skip
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_hostile_files_run_nothing_and_write_nothing_elsewhere(tmp_path: Path) -> None:
    """An import of malformed and hostile files ends, with what is readable, and without any side effect."""
    source, target = tmp_path / "source", tmp_path / "target"
    corpus(source)
    environ = {**os.environ, "XDG_CACHE_HOME": str(target / "cache"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", GUARD, str(source), str(target)],
        capture_output=True, text=True, timeout=120, check=False, env=environ, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "1 points" in done.stdout
    assert not Path("/tmp/never").exists()
