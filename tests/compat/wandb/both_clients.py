"""The same scripts, once with W&B's real client, offline, and once with the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import chiplog
from chiplog.compat.wandb.api import StoredRun
from tests.compat.wandb import wandb_file

STAND_INS = Path(chiplog.__file__).parent / "compat" / "stand_ins"
DRIVER = Path(__file__).parent / "run_scripts.py"


class Both(NamedTuple):
    """The runs of each script by its project, which is the script's name."""

    theirs: dict[str, list[wandb_file.OfflineRun]]
    ours: dict[str, list[StoredRun]]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Without anything from outside that chooses a run, a rank or a tracker."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WANDB_", "CHIPLOG_", "RANK", "WORLD_SIZE", "LOCAL_RANK"))
    }
    quiet = {
        "WANDB_SILENT": "true",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return {**inherited, **quiet, "OUTPUT_DIR": str(folder), "HOME": str(folder), **more}


def run_both(folder: Path, scripts: tuple[str, ...]) -> Both:
    """Run the scripts twice, at the same time, and read what was recorded."""
    real, ours = folder / "real", folder / "ours"
    processes = []
    for place, more in (
        (real, {"WANDB_MODE": "offline", "WANDB_DIR": str(real)}),
        (ours, {"PYTHONPATH": str(STAND_INS / "wandb"), "CHIPLOG_DIR": str(ours / "runs"), "CHIPLOG_COMPACT": "false"}),
    ):
        place.mkdir()
        output = (place / "output.txt").open("wb")
        processes.append(
            subprocess.Popen(
                [sys.executable, str(DRIVER), *scripts],
                cwd=place,
                env=environment(place, **more),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        )
        output.close()
    for process, place in zip(processes, (real, ours), strict=True):
        assert process.wait(540) == 0, (place / "output.txt").read_text()[-4000:]
    theirs: dict[str, list[wandb_file.OfflineRun]] = {}
    files = real.glob("wandb/offline-run-*/*.wandb")
    for run in sorted(map(wandb_file.load, files), key=lambda run: run.started):
        theirs.setdefault(run.project, []).append(run)
    kept: dict[str, list[StoredRun]] = {}
    for stored in chiplog.runs(ours / "runs"):
        kept.setdefault(stored.project, []).append(StoredRun(stored))
    return Both(theirs, kept)
