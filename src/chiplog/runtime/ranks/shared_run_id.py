"""The runs of a launch: ids on which its ranks agree without messages, and which its restarts find again.

What launchers call their jobs is not such an id: `torchrun --rdzv-id=100` and the steps of a job repeat it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from chiplog.runtime.ranks import detect
from chiplog.runtime.ranks.run_claims import SLACK, numbered, started
from chiplog.runtime.ranks.write_once_file import WriteOnceFile
from chiplog.store.runs import liveness

OLD = 30 * 86_400.0  # s after which the file of a launch is deleted; its restarts may come late


def shared_id(new: str, folder: Path, rank: int, environ: Mapping[str, str]) -> str | None:
    """The id of this launch's next run in a project: that of the rank which asks first, by default `new`.

    Raises OSError if the folder cannot be written. None if nothing identifies the launch.
    """
    if (launch := _launch(environ)) is None:
        return None
    name, since = launch
    key = numbered(f"launch {rank} {folder}").replace(f"launch {rank} ", "")  # all ranks start the same runs
    digest = hashlib.sha256(f"{name} {key}".encode()).hexdigest()[:16]
    return WriteOnceFile(folder / f".launch-{digest}", since, OLD).offer(new)


def _launch(environ: Mapping[str, str]) -> tuple[str, float] | None:
    """What all ranks and restarts of a launch share, and when the launch started at the earliest."""
    agent = environ.get("TORCHELASTIC_ERROR_FILE", "")  # in a new folder for each start of torchrun on a host
    if agent and environ.get("LOCAL_WORLD_SIZE") == environ.get("WORLD_SIZE"):
        return f"{liveness.hostname()} {Path(agent).parent.parent.parent}", 0.0
    job = detect.job_id(environ)
    if job is None:
        return None
    if "TORCHELASTIC_RUN_ID" in environ:
        return f"{job} {environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')}", started(os.getppid()) - SLACK
    launch = detect.launch_id(environ) or job
    return launch, 0.0 if "SLURM_STEP_ID" in environ else started(os.getppid()) - SLACK
