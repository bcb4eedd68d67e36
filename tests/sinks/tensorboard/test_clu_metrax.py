"""CLU's metric writers and google-metrax's backends, from their own packages, work as sinks as they are.

They need a lot, so they have an environment of their own on top of this one: about 130 MB more than what the tests have
anyway. `clu.metric_writers` imports TensorFlow, another 1.4 GB, for one of its writers: that one is left out, but with
CHIPLOG_FAULTS=full.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.faults.harness import FULL

ROOT = Path(__file__).parents[3]
PACKAGES = ["google-metrax>=0.2.4", "clu>=0.0.12", "tensorboard>=2.17", *(["tensorflow-cpu"] if FULL else [])]
FOLDER = ROOT / ".venv" / "contract" / ("metrax-full" if FULL else "metrax")

SCRIPT = """
import logging, sys, types
from pathlib import Path

FULL = sys.argv[1] == "full"
if not FULL:  # the one writer of clu that needs TensorFlow, which the package imports with all others
    absent = sys.modules["clu.metric_writers.tf.summary_writer"] = types.ModuleType("absent")
    absent.SummaryWriter = None
import numpy
import chiplog
from absl import logging as absl_logging
from clu import metric_writers
from clu.metric_writers.torch_tensorboard_writer import TorchTensorboardWriter
from metrax import logging as metrax_logging
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

lines = []
class Keep(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
absl_logging.get_absl_logger().addHandler(Keep())
absl_logging.set_verbosity("info")

def writer():
    return metric_writers.MultiWriter([metric_writers.AsyncWriter(metric_writers.LoggingWriter())])

sinks = {"clu": writer, "metrax": lambda: metrax_logging.TensorboardBackend("tb"), "memory": {}}
sinks["torch"] = lambda: TorchTensorboardWriter("torch")  # which takes no texts
if FULL:
    sinks["summary"] = lambda: metric_writers.SummaryWriter("summary")
run = chiplog.init("p", config={"lr": 0.1, "model": {"layers": [1, 2]}}, sinks=sinks, dir="runs", alerts=False)
for step in range(50):
    run.log({"train/loss": step / 4}, step=step)
run.eval({"loss": 3.0}, step=49)
run.event("gpu", id=0, power=300)
run.log({"bad": float("nan"), "big": 10**400}, step=5)
run.log({"sample": chiplog.Text("hello"), "grads": chiplog.Histogram(numpy.arange(100.0), bins=10)}, step=5)
run.log({"picture": chiplog.Image(numpy.zeros((4, 5, 3), "uint8"))}, step=5)
done = run.finish(timeout=60)
assert done, done.missing
assert not any(one["errors"] for one in run.health()["sinks"].values()), run.health()

def scalars(folder):
    found = []
    for path in Path(folder).glob("*tfevents*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.tensor.float_val:
                    found.append((value.tag, event.step, value.tensor.float_val[0]))
    return found

for folder in ("tb", "torch", *(["summary"] if FULL else [])):
    got = scalars(folder)
    assert [row for row in got if row[0] == "train/loss"] == [("train/loss", n, n / 4) for n in range(50)], got
    assert ("eval/loss", 49, 3.0) in got and ("gpu/0/power", 49, 300.0) in got, got
    assert ("big", 5, float("inf")) in got and any(tag == "bad" and value != value for tag, _, value in got), got

said = "\\n".join(lines)
assert all(f"[{n}] train/loss={n / 4:.6g}" in lines for n in range(50)), said
assert "[Hyperparameters] {'lr': 0.1, 'model.layers': '[1, 2]'}" in lines, said
for words in ("[5] Got texts: {'sample': 'hello'}", "[5] Got images: {'picture': (4, 5, 3)}", "Histogram for 'grads'"):
    assert words in said, (words, said)
print("complete")
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of their environment, which is made when it is first needed."""
    made = FOLDER / "bin" / "python"
    if not (FOLDER / "stamp").exists():
        if not FULL and os.environ.get("CI") != "true":
            pytest.skip("their packages are installed with CI=true or CHIPLOG_FAULTS=full only")
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True, timeout=300)
        theirs = subprocess.run(
            [made, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, check=True
        )
        Path(theirs.stdout.decode().strip(), "base.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        subprocess.run([made, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=1500)
        (FOLDER / "stamp").touch()
    return made


@pytest.mark.timeout(1800)
def test_they_work_as_they_are(python: Path, tmp_path: Path) -> None:
    """Real writers and backends get every number, text, histogram, image and the config; read back from their files."""
    source = str(ROOT / "src")
    done = subprocess.run(
        [python, "-c", SCRIPT, "full" if FULL else "some"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0 and "complete" in done.stdout, done.stderr[-4000:]
