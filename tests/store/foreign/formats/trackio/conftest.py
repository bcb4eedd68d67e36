"""A store of trackio, written by its client: its databases, its exports, and fragments in its inbox."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import numpy as np
import trackio
from trackio.sqlite_storage import SQLiteStorage
import json

trackio.init(project="proj", name="first", config={"lr": 0.1, "model": {"dim": 3}}, embed=False, auto_log_cpu=False, auto_log_gpu=False)
for step in range(30):
    trackio.log({"loss": 1 / (step + 1), "nested": {"a": step}, "odd": float("nan") if step else float("-inf")})
trackio.log({"x": 2.5}, step=100)
trackio.log({"note": "hello", "picture": trackio.Image(np.zeros((4, 4, 3), np.uint8))})
trackio.alert("careful", "hot", level=trackio.AlertLevel.ERROR)
trackio.log_system({"gpu": 5.0})
trackio.finish()

from pathlib import Path
from trackio import fragments
static = Path("static")
SQLiteStorage.export_for_static_space("proj", static / "proj")
for name, table, column in (("proj", "metrics", "metrics"), ("proj_system", "system_metrics", "metrics"), ("proj_configs", "configs", "config")):
    database = SQLiteStorage.get_project_db_path("proj")
    SQLiteStorage._flatten_and_write_parquet(database, table, column, static / f"{name}.parquet")
entries = [
    {"project": "late", "run": "second", "run_id": "abc", "metrics": {"loss": step / 7}, "step": step, "config": {"lr": 1},
     "timestamp": f"2026-01-01T00:00:{step:02d}+00:00", "log_id": f"key{step}"} for step in range(10)
]
writer = fragments.FragmentWriter("writer")
writer.write_local([fragments.metric_record(one) for one in entries[:6]], static / "inbox")
writer.write_local([fragments.metric_record(one) for one in entries[6:]], static / "inbox")
writer.write_local([fragments.alert_record({**entries[0], "title": "careful", "alert_id": "a"})], static / "inbox")
print("LOGS" + json.dumps(SQLiteStorage.get_logs("proj", "first"), default=str))
"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, object]]]:
    """A folder of trackio, and what its own reader returns."""
    folder = tmp_path_factory.mktemp("trackio")
    environ = {"TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environ,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("LOGS")), "")
    assert line, done.stderr
    return folder, json.loads(line[4:])


@pytest.fixture(scope="module")
def written(everything: tuple[Path, list[dict[str, object]]]) -> tuple[Path, list[dict[str, object]]]:
    """Only the database and its media."""
    folder = everything[0].parent / f"{everything[0].name}-database"
    shutil.copytree(everything[0], folder, ignore=shutil.ignore_patterns("static"), dirs_exist_ok=True)
    return folder, everything[1]
