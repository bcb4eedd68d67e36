"""Calls of a Surogate logger, and what they leave in the file and on the console."""

from __future__ import annotations

import io
import json
from pathlib import Path

from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, TrainingRunLogger

STEP = (0.125, 16384, 156, 0.1234, 2.3356, 2e-4)  # epoch, tokens, ms, norm, loss, lr
OPS = (36e9, 786_432_000, 1_610_612_736)
H100 = "NVIDIA H100 80GB HBM3"
MOE = (0.0234, 0.0012, 1.45, 0.9375, 60, 0.05, 0.001, 0.3, 0.8, 0.5)  # all ten of a step, in its order


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def read(path):
    """The file, as strict JSON."""
    return json.loads(Path(path).read_bytes(), parse_constant=refuse)


def shown(calls, verbosity=LogVerbosity.DEFAULT):
    """The lines on the console after these calls."""
    stream = io.StringIO()
    with TrainingRunLogger("log.json", verbosity=verbosity, stream=stream) as made:
        calls(made)
    return stream.getvalue().splitlines()


def steps(*rows):
    """Calls of `log_step` that differ in some of (epoch, tokens, ms, norm, loss, lr)."""
    names = ("epoch", "tokens", "ms", "norm", "loss", "lr")

    def call(made):
        for number, row in enumerate(rows):
            made.log_step(number, *{**dict(zip(names, STEP, strict=True)), **row}.values())

    return call


def everything(made):
    made.log_cmd(["train.py"])
    made.log_options({"lr": 2e-4})
    made.log_dataset(
        {"files": {f"part-{n:02d}.bin": 4000 for n in range(12)}, "seed": 1}, {"files": 1, "tokens": 1_800_000}
    )
    made.log_sol_estimate(*OPS, device=H100)
    made.log_gpu_model(name=H100, memory=80 << 30, free=79 << 30, cuda_driver=12080)
    made.log_step(1, *STEP)
    made.log_eval(1, 1.5, 32768, 234, 3.5)
    made.log_gpu_state(1, 0, GPUUtilInfo(clock=1800, power=350_000, temperature=72, temp_slowdown=83, mem_free=8 << 30, mem_total=80 << 30, pcie_rx=1 << 30, pcie_tx=1 << 29))  # fmt: skip
    made.log_message(1, "a word")
    made.log_section_start(1, "Saving")
    made.log_section_end(1)
