"""Which of how many processes this is; nothing is imported that is not loaded already."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

# (rank, world size, local rank), by who sets them; the one that started this process last comes first
# (docs/decisions/0010-the-nearest-launcher.md).
_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK"),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
_JOBS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_STARTS = ("SLURM_STEP_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")
_MET = ("WORLD_SIZE", "MASTER_PORT")  # torchrun counts no restart when nodes come or go; then others meet, elsewhere


class Ranks(NamedTuple):
    rank: int = 0
    world: int = 1
    local: int = 0  # among the processes of this host
    host: str = ""


def detect(environ: Mapping[str, str]) -> Ranks:
    """Rank and world size from torch, jax or MPI where they are set up, otherwise from the environment."""
    said = _said(environ)
    rank, world = _from_torch() or _from_jax() or _from_mpi() or said[:2]
    local = said.local if said[:2] == (rank, world) else 0
    return Ranks(rank, world, local, os.uname().nodename)


def job_id(environ: Mapping[str, str]) -> str | None:
    """The scheduler's job, which stays the same when it is restarted; None where nobody says."""
    for name in _JOBS:
        if environ.get(name) and environ[name] != "none":  # torchrun says "none" for "not given"
            return environ[name]
    return None


def launch_id(environ: Mapping[str, str]) -> str | None:
    """What all processes of one start share and no other start has: the job, its step and its restarts."""
    job = job_id(environ)
    starts = (*_STARTS, *_MET) if "TORCHELASTIC_RESTART_COUNT" in environ else _STARTS
    return job and "-".join((job, *(environ[name] for name in starts if environ.get(name))))


def _from_torch() -> tuple[int, int] | None:
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    return None


def _from_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax._src.distributed")
    if jax is not None and getattr(jax.global_state, "client", None) is not None:
        return jax.global_state.process_id, jax.global_state.num_processes
    return None


def _from_mpi() -> tuple[int, int] | None:
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.size > 1:
        return mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size
    return None


def _said(environ: Mapping[str, str]) -> Ranks:
    for rank, world, local in _VARIABLES:
        if rank in environ and world in environ:
            try:
                return Ranks(int(environ[rank]), int(environ[world]), int(environ.get(local) or 0))
            except ValueError:
                continue
    return Ranks()
