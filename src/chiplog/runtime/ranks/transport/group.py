"""How ranks reach each other: through what is there already, never by sockets of ours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias


class GroupBroken(Exception):
    """The group is no more; `form` may make another."""


Pause: TypeAlias = Callable[[], None]  # sleeps a little, and raises to give up
# Waits until a round is over, with a pause in between or, where the group `waits`, without; gives the members' chunks,
# None where nothing is received.
Finish: TypeAlias = Callable[[Pause | None], list[bytes] | None]


class Group(Protocol):
    """The ranks of a run. A round needs two methods: `form` until the group is whole, then `exchange`."""

    rank: int
    world: int

    @property
    def waits(self) -> bool:
        """Whether a round that is late ends by itself, so that it may be waited for without a `pause`."""
        ...

    def form(self) -> Sequence[int] | None:
        """The ranks that are in the group, once it is whole; None while it is not, nobody where it never will be.

        Raises `GroupBroken`.
        """
        ...

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        """Begin a round: every member gives a chunk of the same length, and rank 0 or everyone gets them all.

        What it returns completes the round. Both raise `GroupBroken` when the group is.
        """
        ...

    def hear(self, word: str, seconds: float, main: int = 0) -> str:
        """The main rank's word, at the door; raises where it has not been said in time."""
        ...

    def leave(self, rank: int) -> None:
        """A rank has finished."""
        ...

    def left(self) -> Collection[int]:
        """The ranks that have finished, as far as they have left a word of it, which a broken round does not take."""
        ...

    def close(self) -> None: ...


def find(seconds: float, environ: Mapping[str, str]) -> Group | None:
    """The group of what is set up in this process: torch.distributed, JAX, MPI; None where nothing is.

    Collective where MPI is meant: its communicator is duplicated.
    """
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        from chiplog.runtime.ranks.transport.torch_gloo import TorchGroup

        return TorchGroup(seconds, environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    jax = sys.modules.get("jax._src.distributed")
    if jax is not None and getattr(jax.global_state, "client", None) is not None:
        from chiplog.runtime.ranks.transport.jax_store import JaxGroup

        return JaxGroup()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.size > 1:
        from chiplog.runtime.ranks.transport.mpi import MpiGroup

        return MpiGroup()
    return None
