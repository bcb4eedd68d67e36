"""The rank of this process and the number of ranks; nothing is imported for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chiplog.core import messages
from chiplog.core.operating_system import hostname

# (rank, world size, local rank) by launcher; the one nearest to this process comes first
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
_RENDEZVOUS = (
    "WORLD_SIZE",
    "MASTER_PORT",
)  # torchrun does not count a restart when nodes join or leave, but these change


class Ranks(NamedTuple):
    rank: int = 0
    world: int = 1
    local: int = 0  # among the processes of this host
    host: str = ""


class Keepers(NamedTuple):
    """The ranks that keep a journal; the main one has the run's sinks."""

    main: int
    ranks: frozenset[int] | None = None  # None: all

    @property
    def several(self) -> bool:
        return self.ranks is None or len(self.ranks) > 1

    def include(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks


def keepers(ranks: str | Sequence[int], mine: Ranks) -> Keepers:
    """The ranks that keep a journal according to the setting; at least one."""
    if ranks == "all":
        return Keepers(0)
    if ranks == "main":
        return Keepers(0, frozenset((0,)))
    there = {rank for rank in ranks if isinstance(rank, int) and rank < mine.world} or {mine.world - 1}
    if ranks != "last" and not there.issuperset(ranks) and mine.rank == min(there):
        messages.say(
            f"ranks={','.join(map(str, ranks))}, but there are only {mine.world} ranks: the run is kept by "
            f"{','.join(map(str, sorted(there)))}"
        )
    return Keepers(min(there), frozenset(there))


def detect(environ: Mapping[str, str]) -> Ranks:
    """Rank and world size from torch, JAX or MPI if one is set up, otherwise from the environment."""
    launched = _from_environment(environ)
    rank, world = _from_torch(launched.world) or _from_jax() or _from_mpi() or launched[:2]
    local = launched.local if launched[:2] == (rank, world) else 0
    return Ranks(rank, world, local, hostname())


def job_id(environ: Mapping[str, str]) -> str | None:
    """What the launcher calls its job; a restart has the same, and so may another launch. None if there is none."""
    for name in _JOBS:
        if environ.get(name) and environ[name] != "none":  # torchrun's default
            return environ[name]
    return None


def launch_id(environ: Mapping[str, str]) -> str | None:
    """What identifies one launch, the same in all its processes: the job, its step and its restarts."""
    job = job_id(environ)
    starts = (*_STARTS, *_RENDEZVOUS) if "TORCHELASTIC_RESTART_COUNT" in environ else _STARTS
    return job and "-".join((job, *(environ[name] for name in starts if environ.get(name))))


def restarts(environ: Mapping[str, str]) -> bool:
    """Whether the launcher may start the ranks again."""
    return environ.get("TORCHELASTIC_MAX_RESTARTS", "0") not in ("", "0")


def _from_torch(launched: int) -> tuple[int, int] | None:
    """Rank and world size; torch may claim to be set up without a group, and not know the world size."""
    torch = sys.modules.get("torch.distributed")
    try:
        if torch is None or not torch.is_available() or not torch.is_initialized():
            return None
        rank = torch.get_rank()
    except Exception:
        return None
    try:
        return rank, torch.get_world_size()
    except Exception:
        return rank, max(launched, rank + 1)


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


def _from_environment(environ: Mapping[str, str]) -> Ranks:
    for rank, world, local in _VARIABLES:
        if rank in environ and world in environ:
            try:
                return Ranks(int(environ[rank]), int(environ[world]), int(environ.get(local) or 0))
            except ValueError:
                continue
    return Ranks()
