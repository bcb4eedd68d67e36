"""During `init`, the ranks of a run find each other, and agree on the run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from chiplog.core import messages
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.runtime.ranks.detect import Ranks
from chiplog.runtime.ranks.reduce import Reduce
from chiplog.runtime.ranks.reduce_options import ReduceOptions, options_for
from chiplog.runtime.ranks.transport.detected_group import find
from chiplog.runtime.ranks.transport.group import Group
from chiplog.runtime.ranks.transport.late_group import LateGroup

PATIENCE = 10.0  # s that a rank waits to learn the run from the main rank
AGREEING = 60.0  # s, if its journal would belong to no run otherwise
WHERE = "after torch.distributed.init_process_group(), jax.distributed.initialize() or `from mpi4py import MPI`"


class Rendezvous(NamedTuple):
    """The group of this run's ranks, if there is one, and the options of its statistics."""

    group: Group | None = None
    options: ReduceOptions | None = None

    def agree(self, run: str, launch: str, *, must: bool = False, main: int = 0) -> tuple[str, str]:
        """The main rank's run and launch; without an answer this rank's own, unless they `must` agree."""
        if self.group is None:
            return run, launch
        try:
            message = self.group.broadcast(f"{run}\n{launch}", AGREEING if must else PATIENCE, main)
        except Exception as error:
            if must:
                raise BadSetting(
                    f"rank {self.group.rank} did not receive the run id from rank {main} within {AGREEING:.0f} s "
                    f"({error}); call chiplog.init() on rank {main}, too, or set CHIPLOG_RUN_ID to the same new value "
                    "on all ranks"
                ) from None
            messages.say(
                f"rank {self.group.rank} did not receive the run id from rank {main} and uses its own: {error}"
            )
            return run, launch
        run, launch = message.split("\n")[:2]
        return run, launch

    def reduce(self, mine: Ranks, main: int = 0) -> Reduce | None:
        """The statistics across ranks; every rank gets them if rank 0, which gathers them, does not keep the run."""
        if self.group is None or self.options is None:
            return None
        options = msgspec.structs.replace(self.options, everyone=True) if main else self.options
        return Reduce(self.group, options, {"host": mine.host, "local": mine.local}, main=main)


def join(mine: Ranks, reduce: bool | str | None, environ: Mapping[str, str], *, agree: bool) -> Rendezvous:
    """Find the other ranks, for statistics or, with `agree`, to agree on a run."""
    options = options_for(reduce, mine.world, environ.get("CHIPLOG_NO_REDUCE", ""))
    if mine.world < 2 or (options is None and not agree):
        return Rendezvous()
    if options is not None and (missing := _missing_package()):
        if reduce is not None:
            raise missing
        options = None
    group: Group | None = find(options.deadline if options else PATIENCE, environ)
    if group is None and options is not None and options.late:
        group = LateGroup(mine.rank, mine.world, partial(find, options.deadline, environ))
    if group is None and options is not None:
        if reduce is not None:
            raise BadSetting(
                f"reduce={reduce!r} with {mine.world} processes, which cannot reach each other yet: call "
                f"chiplog.init() {WHERE}"
            )
        if mine.rank == 0:
            messages.say(
                f"no statistics across the {mine.world} ranks, which cannot reach each other: call chiplog.init() "
                f"{WHERE}; or pass reduce=False"
            )
    return Rendezvous(group, options)


def _missing_package() -> MissingPackage | None:
    try:
        import numpy  # noqa: F401
    except ImportError:
        return MissingPackage("statistics across ranks need the 'numpy' package: pip install 'chiplog[read]'")
    return None
