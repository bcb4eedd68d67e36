"""The artifacts of a run. MLflow's client copies them into the run directory; chiplog records which files they are."""

from __future__ import annotations

import mimetypes

from chiplog.compat.mlflow.run_entities import ARTIFACTS, artifact_folder
from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.run import Run

MOST = 10_000  # files that are recorded one by one


def record(run: Run) -> None:
    """Record the files that MLflow has put into a run, at its end."""
    if not artifact_folder(run.dir).is_dir():
        return
    for count, (path, about) in enumerate(reading.walk(run.dir, ARTIFACTS)):
        if count >= MOST:
            return
        name = path.removeprefix(f"{ARTIFACTS}/")
        media = mimetypes.guess_type(name)[0] or "application/octet-stream"
        run.write(records.File, name=name, path=path, media=media, size=about.st_size)
