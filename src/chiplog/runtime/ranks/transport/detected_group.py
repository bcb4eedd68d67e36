"""Finds the process group that is set up in this process."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from chiplog.runtime.ranks.transport.group import Group
from chiplog.runtime.ranks.transport.jax_store import JaxGroup
from chiplog.runtime.ranks.transport.mpi import MpiGroup
from chiplog.runtime.ranks.transport.torch_gloo import TorchGroup


def find(seconds: float, environ: Mapping[str, str]) -> Group | None:
    """The group of torch.distributed, JAX or MPI; None if none of them is set up.

    With MPI the call is collective: its communicator is duplicated.
    """
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return TorchGroup(seconds, environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    jax = sys.modules.get("jax._src.distributed")
    if jax is not None and getattr(jax.global_state, "client", None) is not None:
        return JaxGroup()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.size > 1:
        return MpiGroup()
    return None
