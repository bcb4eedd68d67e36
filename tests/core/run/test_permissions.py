"""What a person names follows the umask; the directory of a run is its owner's alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys
os.umask(int(sys.argv[1], 8))
import chiplog
from chiplog.cli import main
from chiplog.frontends.ezpz import History
from chiplog.frontends.kempnerforge.backends import TensorBoardBackend
from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, MetricsLoggerOptions
from chiplog.sinks.csv.sink import Csv
from chiplog.sinks.jsonl import Jsonl
from pathlib import Path

named = Path("named").absolute()
sinks = {
    "tensorboard": {"dir": str(named / "tb")},
    "perfetto": {"path": str(named / "trace" / "run.pftrace")},
    "csv": Csv(named / "sheets", config={"lr": 0.1}),
    "lines": Jsonl(named / "lines" / "all.jsonl"),
    "json": {},
}
run = chiplog.init("p", sinks=sinks, dir=named / "runs", id="run", config={"lr": 0.1})
with run.span("x"):
    run.log({"train/loss": 1.0}, step=0)
run.table("samples", [{"a": 1}])
inside = Csv(run.dir / "files" / "mine", config={})
inside.write([])
inside.close()
assert run.finish(), run.finish()

backend = TensorBoardBackend(MetricsConfig(tensorboard_dir=str(named / "kempnerforge")))
backend.log({"loss": 1.0}, step=1)
backend.close()

logger = TrainingRunLogger(named / "surogate" / "log.json", verbosity=LogVerbosity.SILENT)
logger.log_step(0, 0.1, 1, 1, 1.0, 1.0, 0.1)
logger.close()

options = MetricsLoggerOptions(log_dir=str(named / "tunix"), backend_kwargs={"wandb": {"mode": "disabled"}})
logger = MetricsLogger(options)
logger.log("actor", "loss", 1.0, "train", 0)
logger.close()

history = History(backends="csv", outdir=named / "ezpz", jsonl_path=named / "history" / "x.jsonl")
history.update({"loss": 1.0})
history.finalize(outdir=named / "ezpz")

for words in (
    ["report", str(run.dir), "-o", str(named / "report")],
    ["export", str(run.dir), "--to", "parquet", "-o", str(named / "run.parquet")],
    ["trace", str(run.dir), "-o", str(named / "run.json")],
    ["report", str(run.dir)],
    ["ui", "--dir", str(named / "runs"), "--export", str(named / "page")],
):
    assert main(words) == 0, words
"""


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("umask", ["022", "002", "077"])
def test_named_paths_follow_the_umask_and_runs_are_private(tmp_path: Path, umask: str) -> None:
    """By every sink, front end and command that takes a path; also where a path in the run's directory is named."""
    world = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "EZPZ_", "CHIPLOG_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, umask], cwd=tmp_path, env=world, check=False, timeout=280, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    files, folders = 0o666 & ~int(umask, 8), 0o777 & ~int(umask, 8)
    named = tmp_path / "named"
    runs = [path.parent for path in tmp_path.rglob("journal") if path.is_dir()]
    assert len(runs) == 5
    seen = set()
    for path in (named, *named.rglob("*")):
        if path.is_symlink() or any(path == run or run in path.parents for run in runs):
            continue
        assert rights(path) == (folders if path.is_dir() else files), path
        seen.add(path.relative_to(named).parts[:1])
    names = "tb", "trace", "sheets", "lines", "runs", "kempnerforge", "surogate", "tunix", "ezpz", "history"
    assert {(name,) for name in (*names, "report", "run.parquet", "run.json", "page")} <= seen
    for run in runs:
        for path in (run, *run.rglob("*")):
            assert path.is_symlink() or rights(path) == (0o700 if path.is_dir() else 0o600), path
