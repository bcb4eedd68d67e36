"""A list of stored runs that prints as a table."""

from __future__ import annotations

from collections.abc import Iterable

from chiplog.store.reader import Stored
from chiplog.store.runs.access import UnreadableRun
from chiplog.store.runs.state import describe

SHOWN = 20  # runs; the newest


class RunList(list[Stored]):
    """Stored runs, oldest first: an ordinary list, with one run per line in a notebook or at a prompt."""

    def __init__(self, runs: Iterable[Stored] = (), unreadable: Iterable[UnreadableRun] = ()) -> None:
        super().__init__(runs)
        self.unreadable = list(unreadable)  # runs of other users

    def __repr__(self) -> str:
        count = f"{len(self):,} run{'s' * (len(self) != 1)}"
        if not self and not self.unreadable:
            return f"<{count}>"
        left_out = [f"  … {len(self) - SHOWN:,} older"] if len(self) > SHOWN else []
        lines = [
            f"  {len(self) + at:>3}  {describe(run.path)}" for at, run in enumerate(self[-SHOWN:], -len(self[-SHOWN:]))
        ]
        private = [f"       {one}" for one in self.unreadable[-SHOWN:]]
        return "\n".join([f"<{count}", *left_out, *lines, *private]) + ">"
