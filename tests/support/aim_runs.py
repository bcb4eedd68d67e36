"""What is in an Aim repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# Readers see what has been indexed, which `aim up` does all the time.
READ = """
import json, sys
from aim import Repo, Run
from aim.sdk.index_manager import RepoIndexManager

index = RepoIndexManager.get_index_manager(Repo.from_path(sys.argv[1]))
for hash in Repo.from_path(sys.argv[1]).list_all_runs():
    index.index(hash)

def shown(value):
    if hasattr(value, "weights"):
        return [list(map(float, part)) for part in value.to_np_histogram()]
    if hasattr(value, "to_pil_image"):
        return [value.caption, value.to_pil_image().getpixel((0, 0))]
    return value.data

runs = []
for run in Repo(sys.argv[1]).iter_runs():
    series = {}
    for metric in run.metrics():
        steps, (values, _, times) = metric.data.items_list()
        series[metric.name] = [list(map(int, steps)), list(map(float, values)), list(map(float, times))]
    media = {}
    for name, context, _ in run.iter_sequence_info_by_type(("aim.text", "aim.image", "aim.distribution")):
        for get in (run.get_text_sequence, run.get_image_sequence, run.get_distribution_sequence):
            if (sequence := get(name, context)) is not None:
                steps, (values, *_) = sequence.data.items_list()
                media[name] = [[int(step), shown(value)] for step, value in zip(steps, values)]
    told = run.get_log_records()
    said = [one.json() for one in told.data.items_list()[1][0]] if told is not None else []
    params = {key: run.get(key) for key in ("config", "chiplog")}
    about = {"name": run.name, "experiment": run.experiment, "params": params}
    runs.append({**about, "series": series, "media": media, "said": said})
print(json.dumps(runs))
"""


def runs(repo: Path) -> list[dict[str, Any]]:
    """What Aim reads, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", READ, str(repo)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def points(run: dict[str, Any], name: str) -> list[tuple[int, float]]:
    steps, values, _ = run["series"][name]
    return list(zip(steps, values, strict=True))
