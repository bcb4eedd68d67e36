"""The identity of a run: fixed in `init`, passed to sinks, written to `run.json`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chiplog.core.records import Plain


class Identity(msgspec.Struct, frozen=True):
    project: str
    id: str
    dir: Path
    name: str
    launch: str
    tags: tuple[str, ...] = ()
    rank: int = 0
    world: int = 1
    attempt: int = 0
    config: dict[str, Plain] = {}
    cwd: str = ""  # the working directory at the start
    script: str = ""  # the script; empty in a notebook or a shell
    attached: bool = False  # a worker that joined a run of another process

    @property
    def files(self) -> Path:
        """The directory for plots, tables, reports and other files of the run."""
        return self.dir / "files"
