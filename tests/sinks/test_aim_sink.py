"""The Aim sink, through a run and its relay, read back from a real repository by Aim itself."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.sinks import registry

pytestmark = pytest.mark.timeout(300)  # a new repository takes seconds to make, and many on a busy machine

# Readers see what has been indexed, which `aim up` does all the time.
READ = """
import json, sys
from aim import Repo, Run
from aim.sdk.index_manager import RepoIndexManager

index = RepoIndexManager.get_index_manager(Repo.from_path(sys.argv[1]))
for hash in Repo.from_path(sys.argv[1]).list_all_runs():
    index.index(hash)
runs = []
for run in Repo(sys.argv[1]).iter_runs():
    series = {}
    for metric in run.metrics():
        steps, (values, _, times) = metric.data.items_list()
        series[metric.name] = [list(map(int, steps)), list(map(float, values)), list(map(float, times))]
    params = {key: run.get(key) for key in ("config", "chiplog")}
    runs.append({"name": run.name, "experiment": run.experiment, "params": params, "series": series})
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


def test_a_run_arrives_and_a_new_attempt_goes_on(tmp_path: Path) -> None:
    """All numbers by the names of the services, the config as parameters; of a step logged again the newer value."""
    repo = tmp_path / "aim"
    sinks = {"aim": {"repo": str(repo), "experiment": "tiny", "name": "one"}}

    def begin(**more: Any) -> chiplog.Run:
        return chiplog.init("test", sinks=sinks, dir=tmp_path / "runs", id="run", **more)

    run = begin(config={"lr": 0.1, "model": {"layers": [1, 2]}, "seed": 10**30})
    for step in range(10):
        run.log({"loss": step / 7}, step=step)
    run.log({"nan": float("nan"), "huge": 10**400, "on": True, "a\ud800": 1.0}, step=9)
    run.eval({"loss": 2.5}, step=9)
    run.event("gpu", id=1, dram_free=8 << 30, power=300)
    run.event("moe", aux_loss=0.5)
    run.event("allocator", stats=[{"name": "weights", "device": 4 << 30}])
    assert run.finish(timeout=120)
    again = begin(config={"lr": 0.2})
    for step in range(8, 12):
        again.log({"loss": step * 10}, step=step)
    assert again.finish(timeout=120)

    (found,) = runs(repo)
    assert (found["name"], found["experiment"]) == ("one", "tiny")
    assert found["params"]["config"] == {"lr": 0.2, "model": {"layers": [1, 2]}, "seed": str(10**30)}
    assert found["params"]["chiplog"] == {"id": "run", "project": "test"}
    assert points(found, "loss") == [(step, step / 7) for step in range(8)] + [(n, n * 10.0) for n in range(8, 12)]
    assert points(found, "eval/loss") == [(9, 2.5)]
    assert points(found, "gpu/1/dram_free") == [(9, 8192.0)]
    assert points(found, "gpu/1/power") == [(9, 300.0)]
    assert points(found, "train/aux_loss") == points(found, "train/moe_aux_loss") == [(9, 0.5)]
    assert points(found, "allocator/weights_mib") == [(9, 4096.0)]
    assert points(found, "huge") == [(9, float("inf"))]
    assert points(found, "on") == points(found, "a\\ud800") == [(9, 1.0)]
    assert str(points(found, "nan")) == "[(9, nan)]"
    assert not [name for name in found["series"] if name.startswith("__system")]
    (first, *_) = chiplog.read(run.dir).records("step")
    assert abs(found["series"]["loss"][2][0] - first.time / 1e9) < 0.001


def test_the_options_are_those_of_the_sink(tmp_path: Path) -> None:
    """The registry knows them without importing it; another one is refused at the door."""
    source = ast.parse((Path(registry.__file__).parent / "aim.py").read_text())
    (door,) = (one for one in source.body if isinstance(one, ast.FunctionDef) and one.name == "open_sink")
    assert tuple(one.arg for one in door.args.kwonlyargs) == registry.SERVICES["aim"].options
    with pytest.raises(BadSetting, match="no option 'rebo'"):
        chiplog.init("test", sinks={"aim": {"rebo": "x"}}, dir=tmp_path)
