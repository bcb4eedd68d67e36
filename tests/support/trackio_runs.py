"""What is in Trackio's database."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any


def rows(tmp_path: Path, table: str, columns: str, project: str = "test") -> list[Any]:
    """What Trackio has, in the order it came."""
    path = tmp_path / "trackio" / f"{project}.db"
    if not path.exists():
        return []
    database = sqlite3.connect(path)
    try:
        return database.execute(f"select {columns} from {table} order by id").fetchall()
    except sqlite3.OperationalError:  # the relay is making the tables
        return []
    finally:
        database.close()


def steps(tmp_path: Path, name: str = "loss", project: str = "test") -> list[tuple[int, Any]]:
    """The points of a series."""
    found = [(step, json.loads(said)) for step, said in rows(tmp_path, "metrics", "step, metrics", project)]
    return [(step, row[name]) for step, row in found if name in row]
