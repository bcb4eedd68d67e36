"""At the door: the ranks of a run find each other, and rank 0 says which run it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from chiplog.core import messages
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.runtime.ranks.detect import Ranks
from chiplog.runtime.ranks.reduce import Reduce
from chiplog.runtime.ranks.reduce_options import ReduceOptions, plan_of
from chiplog.runtime.ranks.transport import group as groups
from chiplog.runtime.ranks.transport.group import Group
from chiplog.runtime.ranks.transport.late_group import LateGroup

PATIENCE = 10.0  # s that a rank waits for rank 0 to say which run this is
AGREEING = 60.0  # s, where its journal would belong to no run otherwise
WHERE = "after torch.distributed.init_process_group(), jax.distributed.initialize() or `from mpi4py import MPI`"


class Rendezvous(NamedTuple):
    """The group of this run's ranks, if there is one, and what it is for."""

    group: Group | None = None
    plan: ReduceOptions | None = None

    def agree(self, run: str, launch: str, *, must: bool = False, main: int = 0) -> tuple[str, str]:
        """The main rank's run and launch, on all; where it says nothing, this rank's own, unless they must agree."""
        if self.group is None:
            return run, launch
        try:
            words = self.group.hear(f"{run} {launch}", AGREEING if must else PATIENCE, main).split(" ")
        except Exception as error:
            if must:
                raise BadSetting(
                    f"rank {self.group.rank} has not heard from rank {main} within {AGREEING:.0f} s which run "
                    f"this is ({error}); call chiplog.init() on rank {main} too, or set CHIPLOG_RUN_ID to the same new "
                    "value for all ranks"
                ) from None
            messages.say(f"rank {self.group.rank} has not heard from rank {main} which run this is: {error}")
            return run, launch
        return words[0], words[1]

    def reduce(self, mine: Ranks, main: int = 0) -> Reduce | None:
        """What makes statistics across ranks; where rank 0, which gathers them, keeps no run, all get them."""
        if self.group is None or self.plan is None:
            return None
        plan = msgspec.structs.replace(self.plan, everyone=True) if main else self.plan
        return Reduce(self.group, plan, {"host": mine.host, "local": mine.local}, main=main)


def meet(mine: Ranks, reduce: bool | str | None, environ: Mapping[str, str], *, agree: bool) -> Rendezvous:
    """Find the other ranks, where statistics are wanted or, with `agree`, a run has to be agreed on."""
    plan = plan_of(reduce, mine.world, environ.get("CHIPLOG_NO_REDUCE", ""))
    if mine.world < 2 or (plan is None and not agree):
        return Rendezvous()
    if plan is not None and (lacks := _lacks()):
        if reduce is not None:
            raise lacks
        plan = None
    group: Group | None = groups.find(plan.deadline if plan else PATIENCE, environ)
    if group is None and plan is not None and plan.late:
        group = LateGroup(mine.rank, mine.world, partial(groups.find, plan.deadline, environ))
    if group is None and plan is not None:
        if reduce is not None:
            raise BadSetting(
                f"reduce = {reduce!r} with {mine.world} processes, which have no way to each other yet: call "
                f"chiplog.init() {WHERE}"
            )
        if mine.rank == 0:
            messages.say(
                f"no statistics across the {mine.world} ranks, which have no way to each other: call chiplog.init() "
                f"{WHERE}; reduce=False says that none are wanted"
            )
    return Rendezvous(group, plan)


def _lacks() -> MissingPackage | None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        return MissingPackage("statistics across ranks need the package 'numpy': pip install 'chiplog[read]'")
    return None
