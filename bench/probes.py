"""What it costs to watch: GPUs sampled during training, and routers judged at every step."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator

import numpy

import chiplog
from bench.rows import Figure, interleaved, median, row
from tests.probes.stubs import H100, Nvml

HERTZ = 10
GPUS = 8


@row
def gpus() -> Iterator[Figure]:
    """The NVIDIA probe on 8 GPUs (a stub of NVML) ten times a second, records included: share of one core."""
    from chiplog.probes.nvidia import Nvidia

    with tempfile.TemporaryDirectory() as folder:
        nvml = Nvml()
        nvml.reset(GPUS)
        probe = Nvidia(interval=1 / HERTZ)
        run = chiplog.init("bench", sinks="none", dir=folder, compact=False)
        shares = []
        for turn in range(60):
            for gpu in range(GPUS):
                for name in ("energy", "pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx"):
                    nvml.set(gpu, name, H100[name] + turn * 1000)
            began = time.thread_time()
            for data in probe.sample():
                run.event("gpu", **data)
            shares.append((time.thread_time() - began) * HERTZ * 100)
            time.sleep(0.02)  # a thread that wakes up finds cold caches, as it will
        run.finish()
    yield Figure("of one core", median(shares), "%", 1.0)
    yield Figure("records per second", GPUS * HERTZ, "/s")


@row
def moe() -> Iterator[Figure]:
    """Router health of 64 layers with 256 experts each, numpy, and the whole `log` of it."""
    from chiplog.metrics.moe import health

    random = numpy.random.default_rng(0)
    counts = random.integers(0, 5000, (64, 256))
    probs = random.dirichlet(numpy.ones(256), 64)
    entropy, confidence, z = random.random(64), random.random(64), random.random(64)
    with tempfile.TemporaryDirectory() as folder:
        run = chiplog.init("bench", sinks="none", dir=folder, compact=False)
        router = chiplog.Router(counts, probs, entropy=entropy, confidence=confidence, z=z)
        taken = interleaved(
            {
                "health": lambda: health(counts, probs, entropy=entropy, confidence=confidence, z=z),
                "log": lambda: run.log({"moe": router}, step=1),
            },
            calls_each=10,
            rounds=31,
        )
        run.finish()
    yield Figure("health of a step", median(taken["health"]) / 1e3, "ms", 1.0)
    yield Figure("log of it, one event and one matrix of 16,384 numbers", median(taken["log"]) / 1e3, "ms")
