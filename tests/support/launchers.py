"""Ranks, started as their launchers do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.support.ports import free_port

CLEAN = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(("CHIPLOG_", "SLURM_", "OMPI_", "PMI", "RANK", "WORLD"))
} | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def start(words: Sequence[str], **environ: str) -> None:
    done = subprocess.run(words, env={**CLEAN, **environ}, capture_output=True, text=True, timeout=290, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def start_jax(world: int, *words: str) -> None:
    environ = {
        **CLEAN, "JAX_PLATFORMS": "cpu", "COORDINATOR": f"127.0.0.1:{free_port()}", "WORLD": str(world)
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, *words],
            env={**environ, "ME": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(world)
    ]
    said = [rank.communicate(timeout=100)[0].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world, "\n".join(said)
