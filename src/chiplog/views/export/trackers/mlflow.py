"""A store of MLflow: a database in a folder, next to the files of its runs."""

from __future__ import annotations

from pathlib import Path

from chiplog.core.records import Plain
from chiplog.store.reader import Stored

OMITTED = {"histogram": "histograms", "matrix": "matrices", "spans": "spans", "console": "printed lines"}
WHOLE_STEPS = True
ALWAYS: tuple[str, ...] = ()
DATABASE = "mlflow.db"


def options(stored: Stored, folder: Path) -> dict[str, Plain]:
    return {"uri": f"sqlite:///{folder / DATABASE}", "experiment": stored.project, "system": False}


def how_to_open(folder: str) -> str:
    return f"mlflow ui --backend-store-uri sqlite:///{folder}/{DATABASE}"
