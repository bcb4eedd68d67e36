"""The completions that TRL's trainers write to Parquet files, one file per logged step."""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.core.guarded import failed
from chiplog.core.run import Run

TABLE = "completions"


class Completions:
    """Keeps the rows of new files in `<output_dir>/completions` as a table of the run.

    The trainer writes a file after it has logged the step, so the rows follow at the next hook.
    """

    def __init__(self, output_dir: str | Path) -> None:
        self._folder = Path(output_dir) / "completions"
        self._changed = self._folder_time()
        self._kept = set(self._files())  # of an earlier training

    def keep(self, run: Run) -> None:
        """Add the rows of files that have appeared."""
        changed = self._folder_time()
        if changed == self._changed:
            return
        self._changed = changed
        for name in self._files():
            if name not in self._kept:
                self._kept.add(name)
                try:
                    _keep_file(run, self._folder / name)
                except Exception as error:
                    failed(f"transformers: reading {name}", error)

    def _folder_time(self) -> int:
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _files(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(".parquet"))
        except OSError:
            return []


def _keep_file(run: Run, path: Path) -> None:
    from pyarrow import parquet  # only trainers that write such files need it

    rows = parquet.read_table(path).to_pylist()
    step = rows[0].get("step") if rows else None
    run.table(TABLE, [{name: value for name, value in row.items() if name != "step"} for row in rows], step)
