"""`chiplog.mirror("wandb")`: W&B's real client goes on, and a local run is kept beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from tests.compat.wandb import wandb_file
from tests.compat.wandb.both_clients import environment
from tests.compat.wandb.same_rows import comparable, differences

SCRIPT = """
import chiplog, wandb, numpy as np
chiplog.mirror("wandb")
chiplog.mirror("wandb")
from chiplog.compat.wandb.run import Run
run = wandb.init(project="mirrored", name="a name", config={"lr": 0.1}, tags=["t"])
run.define_metric("loss", summary="min")
wandb.log({"loss": 1.0, "nested": {"a": 2}})
wandb.log({"h": wandb.Histogram([1, 2, 3]), "t": wandb.Table(columns=["a"], data=[[1]]), "i": wandb.Image(np.zeros((4, 4), "uint8"))})
original, Run.log = Run.log, lambda *args, **kwargs: 1 / 0
wandb.log({"broken": 1})
Run.log = original
wandb.config.update({"batch": 4})
wandb.config.depth = 2
wandb.run.summary["best"] = 0.5
wandb.log({"loss": 0.5}, step=7)
try:
    wandb.log([1])
except TypeError:
    wandb.log({"raised": 1})
run.finish()
"""


@pytest.mark.timeout(300)
def test_both_have_the_same_history(tmp_path: Path) -> None:
    """The local run has the client's rows, config and summary; our failure leaves the client's row whole."""
    environ = environment(
        tmp_path,
        WANDB_MODE="offline",
        WANDB_DIR=str(tmp_path),
        CHIPLOG_DIR=str(tmp_path / "runs"),
        WANDB_SILENT="false",
    )
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    real = wandb_file.load(next(tmp_path.glob("wandb/offline-run-*/*.wandb")))
    stored = chiplog.runs(tmp_path / "runs", "mirrored")[0]
    from chiplog.compat.wandb import history
    from chiplog.compat.wandb.api import StoredRun

    rows = [row for row in comparable(real.history) if "broken" not in row]
    assert {"broken": 1} in comparable(real.history)
    assert differences(rows, comparable(history.rows(stored))) == []
    assert StoredRun(stored).config == {"lr": 0.1, "batch": 4, "depth": 2}
    assert StoredRun(stored).summary["best"] == 0.5 and StoredRun(stored).summary["loss"] == {"min": 0.5}
    assert (stored.name, stored.tags, stored.state) == ("a name", ("t",), "finished")
    assert "ZeroDivisionError" in done.stderr


def test_an_unknown_tracker_is_named() -> None:
    """The message lists those that can be mirrored."""
    with pytest.raises(BadSetting, match="wandb"):
        chiplog.mirror("abacus")
