"""`.wandb` files of the real client, against its own messages."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from wandb.proto import wandb_internal_pb2

from chiplog.core import records
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values

SCRIPT = """
import sys
import numpy as np
import wandb

run = wandb.init(mode="offline", project="My Project", name="first", dir=sys.argv[1], tags=["a", "b"], notes="a note",
                 group="g", config={"lr": 0.1, "model": {"dim": 3}, "api_key": "sk-123456789012345678901234567890"})
run.define_metric("eval/*", step_metric="eval_iter")
for step in range(30):
    row = {"loss": 1 / (step + 1), "count": 2**60 + step, "nested": {"a": step / 3}, "on": step % 2 == 0}
    if step == 3:
        row["loss"] = float("nan")
    if step == 4:
        row["loss"] = float("-inf")
    run.log(row)
run.log({"eval/acc": 0.5, "eval_iter": 5000})
run.log({"h": wandb.Histogram([1, 2, 2, 3]), "said": "hello", "picture": wandb.Image(np.zeros((4, 4, 3), np.uint8))})
run.log({"table": wandb.Table(columns=["x", "y"], data=[[1, "a"], [2, "b"]])})
run.alert("careful", "it is hot", level="ERROR")
run.summary["best"] = 7
print("printed line")
sys.exit(3)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an offline run that failed."""
    folder = tmp_path_factory.mktemp("offline")
    # A service of the client that another test has started would write the file later than this script ends.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        cwd=folder,
        env=environ,
        capture_output=True,
        timeout=300,
        check=False,
    )
    (run,) = (folder / "wandb").glob("offline-run-*")
    return run


@pytest.fixture
def source(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "wandb" / written.name))


def log_file(source: Path) -> Path:
    (file,) = source.glob("*.wandb")
    return file


def payloads(path: Path) -> Iterator[bytes]:
    """The framing by another hand: the one of LevelDB's documentation, without recovery."""
    data, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        body = data[at + 7 : at + 7 + size]
        assert crc32(body, crc32(bytes([kind]))) == crc
        record += body
        at += 7 + size
        if kind in (1, 4):
            yield record
            record = b""


def theirs(path: Path) -> dict[str, list[tuple[int, object]]]:
    """The numbers of the history, by W&B's own messages."""
    series: dict[str, list[tuple[int, object]]] = {}
    for payload in payloads(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(payload)
        if record.WhichOneof("record_type") != "history":
            continue
        row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for name, value in row.items():
            if isinstance(value, (int, float)) and not name.startswith("_"):
                series.setdefault(name, []).append((row["_step"], value))
    return series


def test_the_history_is_that_of_wandb(source: Path, tmp_path: Path) -> None:
    """Every number of every row comes over, bit by bit: NaN, infinities, large integers and booleans too."""
    (run,) = opened(source, tmp_path / "cache")
    expected = theirs(log_file(source))
    for name in ("loss", "count", "nested.a", "on"):
        series = run.series(name)
        ours = list(zip(series.steps.tolist(), series.exact, strict=True))
        assert [(step, "nan" if value != value else value) for step, value in ours] == [
            (step, "nan" if value != value else value) for step, value in expected[name]
        ]
    assert math.isnan(run.series("loss").values[3])


def test_a_metric_with_its_own_axis_is_at_its_own_step(source: Path, tmp_path: Path) -> None:
    """`define_metric(step_metric=...)`: the row was the 30th, the evaluation was of step 5000."""
    (run,) = opened(source, tmp_path / "cache")
    assert values(run)["eval/acc"] == [(5000, 0.5)]
    assert values(run)["eval_iter"] == [(30, 5000.0)] or values(run)["eval_iter"] == [(5000, 5000.0)]


def test_what_describes_the_run_comes_over(source: Path, tmp_path: Path) -> None:
    """Names, config without secrets, tags, notes, group, state, and what was set in the summary."""
    (run,) = opened(source, tmp_path / "cache")
    assert (run.project, run.name, run.tags) == ("My Project", "first", ("a", "b"))
    assert run.config["lr"] == 0.1 and run.config["model"] == {"dim": 3} and "sk-1" not in str(run.config)
    assert run.environment["source"]["notes"] == "a note" and run.environment["source"]["group"] == "g"
    assert run.state == "failed"
    assert run.summary["best"] == 7
    assert lost(run) == {}


def test_media_alerts_output_and_system_metrics_come_over(source: Path, tmp_path: Path) -> None:
    """Whatever is more than a number becomes a record of its kind."""
    (run,) = opened(source, tmp_path / "cache")
    (histogram,) = run.records("histogram")
    assert isinstance(histogram, records.HistogramRecord)
    assert sum(map(float, histogram.counts)) == 4 and len(histogram.edges) == len(histogram.counts) + 1
    (text,) = run.records("text")
    assert isinstance(text, records.TextRecord) and (text.name, text.text) == ("said", "hello")
    (picture,) = run.records("file")
    assert isinstance(picture, records.File) and (run.path / picture.path).read_bytes().startswith(b"\x89PNG")
    assert [(row["x"], row["y"]) for row in run.table("table")] == [(1, "a"), (2, "b")]
    (alert,) = run.records("alert")
    assert isinstance(alert, records.Alert) and (alert.title, alert.level) == ("careful", "error")
    assert "printed line" in [line.text for line in run.console()]
    assert any(name.startswith("system/") for name in run.names())


def test_a_file_that_grows_is_read_from_where_it_was(source: Path, tmp_path: Path) -> None:
    """A run that is being written shows what is there, whole record by whole record."""
    file = log_file(source)
    data = file.read_bytes()
    whole = values(opened(source, tmp_path / "whole")[0])
    for part in (0.3, 0.61, 0.9, 1.0):
        file.write_bytes(data[: int(len(data) * part)])
        (run,) = opened(source, tmp_path / "cache")
        foreign_stores.assert_part_of(values(run), whole)
    assert repr(values(run)) == repr(whole) and run.state == "failed" and lost(run) == {}


def test_a_cut_file_shows_what_it_holds(source: Path, tmp_path: Path) -> None:
    """Cut at any byte, a file gives the rows before it, and no others."""
    whole = values(opened(source, tmp_path / "cache")[0])
    for copy in foreign_stores.cuts(source, log_file(source).name, tmp_path, 12):
        for run in opened(copy, tmp_path / "cache"):
            foreign_stores.assert_part_of(values(run), whole)


def test_a_flipped_bit_costs_its_record_and_is_named(source: Path, tmp_path: Path) -> None:
    """A bit that is wrong never becomes a value, and most of the run is still there."""
    whole = values(opened(source, tmp_path / "cache")[0])
    for copy in foreign_stores.flips(source, log_file(source).name, tmp_path, 16):
        for run in opened(copy, tmp_path / "cache"):
            some = values(run)
            for name in set(some) - set(whole):
                del some[name]  # a row that comes before the definition of its axis was lost
            assert len(some["loss"]) >= 29 if "loss" in some else lost(run)


def test_media_outside_the_run_are_not_copied(source: Path, tmp_path: Path) -> None:
    """A path in a value leads nowhere but into the run's own files."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"\x89PNG secret")
    (picture,) = (source / "files").rglob("*.png")
    picture.unlink()
    picture.symlink_to(secret)
    (run,) = opened(source, tmp_path / "cache")
    assert list(run.records("file")) == []
    assert any("could not be copied" in reason for reason in lost(run))
