"""Which of how many processes this is; nothing is imported that is not loaded already."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

# (rank, world size), by who sets them
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_JOBS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_STARTS = ("SLURM_STEP_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")


class Ranks(NamedTuple):
    rank: int = 0
    world: int = 1


def detect(environ: Mapping[str, str]) -> Ranks:
    """Rank and world size from torch or jax where they are set up, otherwise from the environment."""
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return Ranks(torch.get_rank(), torch.get_world_size())
    distributed = sys.modules.get("jax._src.distributed")
    if distributed is not None and getattr(distributed.global_state, "client", None) is not None:
        return Ranks(distributed.global_state.process_id, distributed.global_state.num_processes)
    for rank, world in _VARIABLES:
        if rank in environ and world in environ:
            try:
                return Ranks(int(environ[rank]), int(environ[world]))
            except ValueError:
                continue
    return Ranks()


def job_id(environ: Mapping[str, str]) -> str | None:
    """The scheduler's job, which stays the same when it is restarted; None where nobody says."""
    for name in _JOBS:
        if environ.get(name) and environ[name] != "none":  # torchrun says "none" for "not given"
            return environ[name]
    return None


def launch_id(environ: Mapping[str, str]) -> str | None:
    """What all processes of one start share and no other start has: the job, its step and its restarts."""
    job = job_id(environ)
    return job and "-".join((job, *(environ[name] for name in _STARTS if environ.get(name))))
