"""Where `runs/` cannot be written, a front end's training and its backends go on, and one message says what is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sinks.wandb.server import Server
from tests.support.wandb_runs import environ

# Permissions hold for root too without CAP_DAC_OVERRIDE (1), which PR_CAPBSET_DROP (24) takes from what is executed next.
# Not in `preexec_fn`: that makes Python fork, beside the threads of whatever earlier tests imported.
LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""

SCRIPT = """
import json, os, sys
from pathlib import Path

import chiplog
from chiplog.frontends.ezpz import History
from chiplog.frontends.kempnerforge.backends import TensorBoardBackend, WandBBackend
from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, MetricsLoggerOptions

named = Path("named").absolute()
backend = TensorBoardBackend(MetricsConfig(tensorboard_dir=str(named / "kempnerforge")))
backend.log({"loss": 1.0}, step=1)
backend.close()

backend = WandBBackend(MetricsConfig(wandb_project="there"))
backend.log({"loss": 2.0}, step=1)
backend.close()

logger = TrainingRunLogger(named / "surogate" / "log.json", verbosity=LogVerbosity.SILENT)
logger.log_step(0, 0.1, 1, 1, 1.0, 1.0, 0.1)
logger.close()
assert [one["log"] for one in json.loads((named / "surogate" / "log.json").read_text())] == ["step"]

class Own:
    values = []
    def log_scalar(self, event, value, **kwargs):
        self.values.append(value)
    def close(self):
        self.values.append("closed")

logger = MetricsLogger(MetricsLoggerOptions(log_dir=str(named / "tunix"), backend_factories=[Own]))
logger.log("actor", "loss", 1.0, "train", 0)
logger.close()
assert Own.values == [1.0, "closed"], Own.values

history = History(backends="csv", outdir=named / "ezpz")
history.update({"loss": 1.0})
dataset = history.finalize(outdir=named / "ezpz", plot=False)
assert dataset["loss"].values.tolist() == [1.0]
assert (named / "ezpz" / "metrics.csv").read_text().count("\\n") == 2

try:
    chiplog.init("p")
except chiplog.core.errors.Unwritable as error:
    assert "choose another directory with init(dir=...) or CHIPLOG_DIR" in str(error)
else:
    raise AssertionError("a mistake at our own door is named there")
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("rights", [False, True], ids=["below a file", "without rights"])
def test_front_ends_go_on_where_runs_cannot_be_written(tmp_path: Path, rights: bool) -> None:
    """TensorBoard, W&B, JSON, CSV and a backend of one's own get everything; the run is readable where it is kept."""
    places = {name: tmp_path / name for name in ("runs", "named", "outputs", "tmp")}
    for place in places.values():
        place.mkdir()
    if rights:
        places["runs"].chmod(0o555)
    else:
        places["runs"].rmdir()
        places["runs"].write_text("")
    server = Server()
    world = {key: value for key, value in environ(server).items() if not key.startswith(("EZPZ_", "CHIPLOG_"))}
    try:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, SCRIPT],
            cwd=tmp_path,
            env={**world, "TMPDIR": str(places["tmp"]), "HOME": str(places["tmp"])},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    assert [run.series("loss") for run in server.runs.values()] == [[(1, 2.0)]]
    assert [path for path in (tmp_path / "named" / "kempnerforge").iterdir() if path.stat().st_size > 100]
    said = [line for line in done.stderr.splitlines() if "cannot write" in line]
    assert not [line for line in said if "init(" in line], "a script of a front end calls no init"
    assert len(said) == 5 and all(". Using " in line and "backends are not affected" in line for line in said)
    runs = sorted(places["tmp"].glob("chiplog-*/*/*/journal/*.jsonl*"))
    assert len(runs) == 5 and all(str(path.parents[3]) in done.stderr for path in runs)
