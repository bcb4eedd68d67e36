"""The TensorBoard sink, read back by TensorBoard: its data loader, and its server."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

import chiplog
from chiplog.core.records import File, HistogramRecord, Step
from chiplog.sinks.tensorboard import sink as tensorboard
from chiplog.sinks.tensorboard.sink import FILE, Tensorboard
from tests.faults.harness import count, trainer
from tests.support.tensorboard_points import load, points
from tests.support.waiting import wait_for


def single(value: float) -> float:
    """A double as TensorBoard keeps it: in 32 bits."""
    kept: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return kept


def begin(tmp_path: Path, **more: Any) -> chiplog.Run:
    return chiplog.init("test", **{"sinks": "tensorboard", "dir": tmp_path / "runs", "id": "run", **more})


def test_scalars_come_back_identical(tmp_path: Path) -> None:
    """In value (of 32 bits), step, tag and time, each once and in order."""
    run = begin(tmp_path)
    rows = [{f"train/metric_{n}": (step - 7) * 0.1 + n for n in range(10)} for step in range(500)]
    for step, row in enumerate(rows):
        run.log(row, step=step)
    run.eval({"loss": 2.5}, step=499)
    assert run.finish()
    loaded = load(run.dir / "files" / "tensorboard")
    assert sorted(loaded.Tags()["scalars"]) == sorted([*rows[0], "eval/loss"])
    for tag in rows[0]:
        found = loaded.Scalars(tag)
        assert [(one.step, one.value) for one in found] == [(at, single(row[tag])) for at, row in enumerate(rows)]
    times = [record.time / 1e9 for record in chiplog.read(run.dir).records("step")]
    assert [one.wall_time for one in loaded.Scalars("train/metric_0")] == times
    assert [(one.step, one.value) for one in loaded.Scalars("eval/loss")] == [(499, 2.5)]


def test_the_names_and_units_are_those_of_the_services(tmp_path: Path) -> None:
    """A GPU, a router and an allocator look the same wherever they are shown."""
    run = begin(tmp_path)
    run.log({"loss": 1.0}, step=3)
    run.event("gpu", id=1, power=300, dram_free=8 << 30)
    run.event("moe", aux_loss=0.5)
    run.event("allocator", stats=[{"name": "weights", "device": 4 << 30}])
    run.finish()
    folder = run.dir / "files" / "tensorboard"
    assert points(folder, "gpu/1/dram_free") == [(3, 8192.0)]
    assert points(folder, "train/aux_loss") == points(folder, "train/moe_aux_loss") == [(3, 0.5)]
    assert points(folder, "allocator/weights_mib") == [(3, 4096.0)]


def test_media_and_the_config_come_back(tmp_path: Path) -> None:
    """Text, histograms, pictures, alerts; the config as hyperparameters and as text."""
    import numpy

    run = begin(tmp_path, config={"lr": 3e-4, "model": {"layers": 2, "name": "tiny"}, "fused": True, "mix": [1, 2]})
    picture = numpy.arange(4 * 6 * 3, dtype="uint8").reshape(4, 6, 3)
    run.log(
        {
            "sample": chiplog.Text("once upon a time"),
            "weights": chiplog.Histogram(counts=[1, 0, 5], edges=[-1.0, 0.0, 0.5, 2.0]),
            "attention": chiplog.Image(picture),
        },
        step=4,
    )
    run.alert("loss is up", text="by a lot", level="error")
    run.finish()
    loaded = load(run.dir / "files" / "tensorboard")
    (text,) = loaded.Tensors("sample")
    assert (text.step, text.tensor_proto.string_val[0]) == (4, b"once upon a time")
    assert loaded.Tensors("alerts")[0].tensor_proto.string_val[0] == b"**error: loss is up** by a lot"
    (histogram,) = loaded.Histograms("weights")
    assert histogram.histogram_value.min == -1.0
    assert histogram.histogram_value.bucket_limit == [0.0, 0.5, 2.0]
    assert histogram.histogram_value.bucket == [1.0, 0.0, 5.0]
    (image,) = loaded.Images("attention")
    (kept,) = (run.dir / "files" / "media").iterdir()
    assert (image.width, image.height, image.encoded_image_string) == (6, 4, kept.read_bytes())
    about = loaded.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hparams = HParamsPluginData.FromString(about).session_start_info.hparams
    assert {name: getattr(one, one.WhichOneof("kind")) for name, one in hparams.items()} == {
        "lr": 3e-4,
        "model.layers": 2.0,
        "model.name": "tiny",
        "fused": True,
        "mix": "[1, 2]",
    }
    assert b'"layers": 2' in loaded.Tensors("config")[0].tensor_proto.string_val[0]
    assert "_hparams_/session_end_info" in loaded.Tags()["tensors"]


def test_no_value_breaks_the_file(tmp_path: Path) -> None:
    """Non-finite numbers are floats like others; what is beyond a float is infinite; all else arrives as it is."""
    run = begin(tmp_path)
    run.log({"nan": float("nan"), "inf": float("-inf"), "huge": 10**400, "double": -1e300, "a\ud800": 1.0}, step=0)
    run.log({"loss": 1.0}, step=2.75)
    run.log({"loss": 2.0}, step=2**70)
    run.finish()
    folder = run.dir / "files" / "tensorboard"
    (nan,) = points(folder, "nan")
    assert nan[1] != nan[1]
    assert points(folder, "inf") == points(folder, "double") == [(0, float("-inf"))]
    assert points(folder, "huge") == [(0, float("inf"))]
    assert points(folder, "loss") == [(2, 1.0), (2**63 - 1, 2.0)]
    assert len(load(folder).Tags()["scalars"]) == 6


def test_what_cannot_be_shown_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A histogram that was cut, a picture that is gone or too large: the rest of the batch is written."""
    (tmp_path / "large.png").write_bytes(b"\x89PNG" + bytes(tensorboard.LARGEST))
    sink = Tensorboard(tmp_path / "tb", tmp_path)
    sink.write(
        [
            HistogramRecord(0, 0, "cut", [0.0, 1.0], [1, 2, 3], 0),
            HistogramRecord(0, 0, "wide", ["-inf", 0.0, 10**400], [1, 10**400], 0),
            HistogramRecord(0, 0, "fine", [0.0, 1.0], [2], 0),
            File(0, 0, "gone", "gone.png", "image/png", step=0),
            File(0, 0, "large", "large.png", "image/png", step=0),
            Step(0, 0, 1, {"loss": 1.0}),
        ]
    )
    sink.close()
    loaded = load(tmp_path / "tb")
    assert loaded.Tags()["histograms"] == ["fine"]
    assert loaded.Tags()["images"] == []
    assert points(tmp_path / "tb", "loss") == [(1, 1.0)]
    assert "at most 4,194,304 are read" in capfd.readouterr().err


def test_it_can_be_read_while_the_run_is_live(tmp_path: Path) -> None:
    """What was logged is in the file soon after, without a flush by anybody."""
    run = begin(tmp_path)
    folder = run.dir / "files" / "tensorboard"
    for step in range(3):
        run.log({"loss": float(step)}, step=step)
        wait_for(lambda: any(folder.glob("*")), 20)  # TensorBoard takes a folder that is not there for deleted
        wait_for(lambda: len(points(folder, "loss")) == step + 1, 20)  # noqa: B023
    run.finish()


def test_steps_that_go_back_are_all_in_the_file(tmp_path: Path) -> None:
    """Which of them to show is the reader's affair."""
    run = begin(tmp_path)
    for step in (0, 1, 2, 1, 2, 3):
        run.log({"loss": float(step)}, step=step)
    run.finish()
    assert [step for step, _ in points(run.dir / "files" / "tensorboard", "loss")] == [0, 1, 2, 1, 2, 3]


def test_after_kills_every_point_is_there_once(tmp_path: Path) -> None:
    """A trainer that is killed again and again, and goes on each time: nothing is lost, and nothing comes twice."""
    code = """
    first = int(sys.argv[3])
    run = init(sinks="tensorboard")
    for n in range(first, 10**6):
        run.log({"loss": n}, step=n)
        ack(n)
        time.sleep(0.0005)
    """
    first = 0
    for number in range(count(3, 20)):
        with trainer(tmp_path, code, str(first)) as victim:
            victim.until_acked(first + 700 + 150 * number, 60)
            victim.kill_tree()
            kept = [int(record.step) for record in chiplog.read(victim.run).records("step")]
            first = kept[-1] + 1
    run = chiplog.init("faults", sinks="tensorboard", dir=victim.dir, id="run")
    run.log({"loss": first}, step=first)
    assert run.finish()
    assert points(run.dir / "files" / "tensorboard", "loss") == [(n, float(n)) for n in range(first + 1)]


def test_bytes_behind_the_last_stored_state_are_cut_off(tmp_path: Path) -> None:
    """As a writer leaves them that was killed in the middle of an event."""
    run = begin(tmp_path)
    run.log({"loss": 1.0}, step=1)
    run.finish()
    path = run.dir / "files" / "tensorboard" / FILE
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-40:-3])
    again = begin(tmp_path)
    again.log({"loss": 2.0}, step=2)
    again.finish()
    assert path.read_bytes().startswith(whole)
    assert points(path.parent, "loss") == [(1, 1.0), (2, 2.0)]


def test_a_file_that_somebody_cut_begins_anew(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is said, and what comes can be read."""
    run = begin(tmp_path)
    run.log({"loss": 1.0}, step=1)
    run.finish()
    path = run.dir / "files" / "tensorboard" / FILE
    os.truncate(path, 30)
    again = begin(tmp_path)
    again.log({"loss": 2.0}, step=2)
    again.finish()
    assert "was changed by another program" in capfd.readouterr().err
    assert points(path.parent, "loss") == [(2, 2.0)]


def test_a_common_log_directory_has_a_folder_a_run(tmp_path: Path) -> None:
    """With the option `dir`."""
    run = begin(tmp_path, sinks={"tensorboard": {"dir": str(tmp_path / "board")}})
    run.log({"loss": 1.0}, step=1)
    run.finish()
    assert points(tmp_path / "board" / "run", "loss") == [(1, 1.0)]
    assert not (run.dir / "files" / "tensorboard").exists()


def test_neither_tensorboard_nor_torch_is_imported(tmp_path: Path) -> None:
    """The writer is our own."""
    code = """
    run = init(sinks="tensorboard")
    run.log({"loss": 1.0})
    run.finish()
    print(*(set(sys.modules) & {"tensorboard", "torch", "tensorflow", "google.protobuf", "numpy"}), file=sys.stderr)
    """
    with trainer(tmp_path, code) as process:
        assert process.wait() == 0
    assert process.said.strip() == ""


@contextmanager
def served(folder: Path, tmp_path: Path, fast: str) -> Iterator[str]:
    """A TensorBoard server on these logs; its address."""
    log = tmp_path / f"server-{fast}"
    words = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", "0", "--samples_per_plugin", "scalars=9999"]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tensorboard.main", *words, "--load_fast", fast],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        found = wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+/", log.read_text()) or server.poll(), 90)
        assert isinstance(found, re.Match), log.read_text()
        yield found.group()
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:  # what it has not loaded yet it does not find
        error.close()
        return None


@pytest.mark.parametrize("fast", ["true", "false"])
def test_a_tensorboard_server_shows_the_run(tmp_path: Path, fast: str) -> None:
    """Scalars and hyperparameters over its HTTP interface, with both of its data loaders."""
    run = begin(tmp_path, config={"lr": 0.5, "model": {"name": "tiny"}})
    for step in range(1500):
        run.log({"train/loss": step / 7, "lr": 0.5}, step=step)
    assert run.finish()
    with served(tmp_path / "runs", tmp_path, fast) as url:
        name = "test/run/files/tensorboard"
        where = f"{url}data/plugin/scalars/scalars?run={name.replace('/', '%2F')}&tag=train%2Floss"
        shown = wait_for(lambda: (got := ask(where)) and len(got) == 1500 and got, 60)
        assert [(step, value) for _, step, value in shown] == [(step, single(step / 7)) for step in range(1500)]
        experiment = ask(f"{url}data/plugin/hparams/experiment", {"experimentName": ""})
        assert {one["name"] for one in experiment["hparamInfos"]} == {"lr", "model.name"}


def test_a_folder_of_ones_own_has_the_event_file_itself(tmp_path: Path) -> None:
    """Called after the run, so that several share a folder."""
    for name in ("one", "two"):
        run = begin(tmp_path, sinks={"tensorboard": {"folder": str(tmp_path / "logs")}}, id=name)
        run.log({name: 1.0}, step=3)
        assert run.finish()
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [f"{FILE}.one", f"{FILE}.two"]
    assert points(tmp_path / "logs", "one") == [(3, 1.0)] == points(tmp_path / "logs", "two")
