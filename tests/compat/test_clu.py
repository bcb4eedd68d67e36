"""CLU's metric writers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.compat.clu import MetricWriter


def test_what_a_writer_is_given_is_kept(tmp_path: Path) -> None:
    """By every method of CLU's interface, with its shapes: batches first, channels last."""
    with MetricWriter(project="p", dir=tmp_path) as writer:
        writer.write_hparams({"lr": 0.1})
        writer.write_scalars(3, {"train/loss": np.float32(0.5), "b": 2})
        writer.write_texts(3, {"note": "words"})
        writer.write_histograms(3, {"weights": np.arange(100.0)}, num_buckets={"weights": 10})
        writer.write_images(3, {"batch": np.zeros((2, 4, 4, 3)), "one": np.zeros((4, 4, 1))})
        writer.write_audios(3, {"sound": np.zeros((2, 50, 1))}, sample_rate=8000)
        writer.write_videos(3, {"video": np.zeros((1, 3, 4, 4, 3))})
        writer.flush()
    (run,) = chiplog.runs(tmp_path)
    assert run.state == "finished" and run.config == {"lr": 0.1}
    assert (run.series("train/loss").steps.tolist(), run.series("train/loss").values.tolist()) == ([3], [0.5])
    (histogram,) = run.records("histogram")
    assert len(histogram.counts) == 10 and sum(histogram.counts) == 100
    assert {one.text for one in run.records("text")} == {"words"}
    files = {one.name: one.media for one in run.records("file") if not one.path.startswith("files/environment")}
    assert files == {
        "batch": "image/png", "one": "image/png", "sound/0": "audio/wav", "sound/1": "audio/wav", "video": "image/gif",
    }  # fmt: skip


def test_nothing_raises_into_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And what has no place is said once."""
    with MetricWriter(project="p", dir=tmp_path) as writer:
        for _ in range(2):
            writer.write_scalars(0, None)  # type: ignore[arg-type]
            writer.write_images(0, {"i": "no image"})
            writer.write_videos(0, {"v": np.zeros(3)})
            writer.write_pointcloud(0, {})
    assert capfd.readouterr().err.count("write_pointcloud is accepted and not kept") == 1


def test_clu_is_not_needed() -> None:
    """Nor imported."""
    script = "import sys, chiplog.compat.clu; print([name for name in sys.modules if name.startswith(('clu', 'jax', 'tensorflow'))])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
