"""Surogate's configuration: options, files and backends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

import chiplog
from chiplog.frontends.surogate import GPUUtilInfo, training_logger_context
from chiplog.frontends.surogate.config import load
from chiplog.frontends.surogate.context import backends, log_file, options, run_name
from tests.frontends.surogate.logs import STEP, read
from tests.sinks.wandb.server import Server
from tests.support.aim_runs import points, runs
from tests.support.wandb_runs import environ

ALL = {
    "report_to": ["wandb", "aim"], "wandb_project": "my-project", "wandb_name": "my-run",
    "aim_experiment": "my-experiment", "aim_repo": "/path/to/aim/repo", "aim_name": "my-run",
    "log_file": "./output/training.json",
}  # fmt: skip


@pytest.mark.parametrize(("report_to", "wanted"), [
    (None, []), ("wandb", ["wandb"]), ("aim", ["aim"]), (["wandb", "aim"], ["wandb", "aim"]), ("wandb, aim", ["wandb", "aim"]),
    ("none", []), ([], []), ("csv", ["csv"]),
])  # fmt: skip
def test_report_to(report_to, wanted):
    """One backend, several, none; any sink of ours too."""
    assert list(backends({"report_to": report_to})) == wanted


@pytest.mark.parametrize(("key", "backend", "option"), [
    ("wandb_project", "wandb", "project"), ("wandb_name", "wandb", "name"), ("aim_experiment", "aim", "experiment"),
    ("aim_repo", "aim", "repo"), ("aim_name", "aim", "name"),
])  # fmt: skip
def test_every_option_of_a_backend(key, backend, option):
    """As the YAML names it, as the sink takes it."""
    assert backends(ALL)[backend][option] == ALL[key]


@pytest.mark.parametrize(("config", "name"), [
    ({"report_to": "wandb", "wandb_name": "a"}, "a"), ({"report_to": ["wandb", "aim"], "aim_name": "b"}, "b"),
    ({"report_to": "wandb", "wandb_name": "a", "run_name": 7}, "7"), ({"report_to": "aim", "wandb_name": "a"}, None),
    ({"run_name": ""}, None),
])  # fmt: skip
def test_a_run_has_the_name_that_its_backends_have(config, name):
    """The documented options name the run here too; `run_name`, which names it everywhere, comes first."""
    assert run_name(config, backends(config)) == name


DOCUMENTED = """
# config.yaml
report_to: {report_to}
# Weights & Biases options
wandb_project: my-project
wandb_name: my-run
# Aim options
aim_experiment: my-experiment
aim_repo: /path/to/aim/repo
aim_name: my-run
log_file: ./output/training.json # Default: {{output_dir}}/training.json
"""


@pytest.mark.parametrize(("report_to", "wanted"), [
    ("wandb # Single backend", ["wandb"]), ("[wandb, aim] # Multiple backends", ["wandb", "aim"]),
])  # fmt: skip
def test_the_documented_file(tmp_path, report_to, wanted):
    """As it is in the documentation, with one backend and with several."""
    path = tmp_path / "config.yaml"
    path.write_text(DOCUMENTED.format(report_to=report_to))
    settings = load(path)
    assert log_file(settings) == Path("output/training.json")
    assert backends(settings) == {name: backends(ALL)[name] for name in wanted}


def test_what_a_backend_is_called_by_default():
    """`Surogate`, and the name of the run."""
    assert backends({"report_to": ["wandb", "aim"], "run_name": "r"}) == {
        "wandb": {"project": "Surogate", "name": "r"}, "aim": {"experiment": "Surogate", "name": "r"},
    }  # fmt: skip


@pytest.mark.parametrize(("settings", "path"), [
    ({"log_file": "./output/x.json"}, "output/x.json"), ({"output_dir": "there"}, "there/training.json"),
    ({}, "output/training.json"),
])  # fmt: skip
def test_where_the_log_file_is(settings, path):
    """As given, or `training.json` in the output directory."""
    assert log_file(settings) == Path(path)


@pytest.mark.parametrize("form", ["file", "text", "mapping", "object"])
def test_a_config_of_any_form(tmp_path, form):
    """A YAML file, a mapping, an object."""
    path = tmp_path / "config.yaml"
    path.write_text("report_to: csv\nrun_name: mine\nlearning_rate: 0.0002\noutput_dir: out\n")
    config = {"file": path, "text": str(path), "mapping": load(path), "object": SimpleNamespace(**load(path))}[form]
    with training_logger_context(config, verbosity=-2) as logger:
        logger.log_step(1, *STEP)
    assert logger.run.name == "mine" and logger.run.config["learning_rate"] == 0.0002
    assert (logger.run.dir / "files" / "metrics.csv").exists()
    found = read("out/training.json")
    assert [record["log"] for record in found] == ["cmd", *["option"] * 4, "step"]
    assert found[0]["cmd"] == sys.argv


def test_a_backend_nobody_knows_is_named():
    """The original ignores it in silence."""
    with (
        pytest.raises(chiplog.ChiplogError, match="no sink named 'wanbd'; did you mean 'wandb'\\? available: console"),
        training_logger_context({"report_to": "wanbd"}),
    ):
        pass


def test_41_options_as_text():
    """What is not a plain value is text, nothing is an empty one, models and tokenizers are left out."""
    given = {
        "x": [1],
        "none": None,
        "model": object(),
        "tokenizer": 1,
        "model_info": {},
        "a": True,
        "b": 2,
        "c": 0.5,
        "d": "s",
    }
    assert options(given) == {"x": "[1]", "none": "", "a": True, "b": 2, "c": 0.5, "d": "s"}


def test_extra_options_and_verbosity(tmp_path, capfd):
    """`extra_config` goes over the config; the verbosity may be in the YAML too."""
    with training_logger_context({"output_dir": str(tmp_path), "verbosity": -1, "lr": 1}, {"lr": 2}) as logger:
        logger.log_step(1, *STEP)
        logger.log_eval(1, 1.5, 32768, 234, 3.5)
    assert [line[:7] for line in capfd.readouterr().out.splitlines()] == [">> eval"]
    assert logger.run.config["lr"] == 2


def test_a_failing_run_says_so(tmp_path):
    """An exception goes on, and the run has failed."""
    with (
        pytest.raises(ZeroDivisionError),
        training_logger_context({"output_dir": str(tmp_path), "verbosity": -2}) as logger,
    ):
        raise ZeroDivisionError
    assert chiplog.read(logger.run.dir).state == "failed"


CALLS = """
from chiplog.frontends.surogate import GPUUtilInfo, training_logger_context
config = {config!r}
with training_logger_context(config, verbosity=-2) as logger:
    logger.log_step(0, 0.125, 16384, 156, 0.1234, 2.3356, 2e-4)
    logger.log_eval(1, 1.5, 32768, 234, 2.1234)
    for gpu in range(2):
        logger.log_gpu_state(1, gpu, GPUUtilInfo(power=350_000 + gpu, mem_free=8589934592, pcie_rx=1 << 30, pcie_tx=1 << 29, throttle="power cap" * gpu))
    logger.log_allocator({{"weights": {{"device": 4 << 30}}}})
    logger.log_moe_stats(1, 0.0234, 0.0012, 0.9375, 1.45, 60, 0.05, 0.001, 0.3, 0.8, 0.5)
    logger.log_sol_estimate(36e9, 786432000, 1610612736, device="NVIDIA H100 80GB HBM3")
    logger.set_phase("converging")
    logger.log_step(2, 0.25, 16384, 156, float("nan"), 2.0, 2e-4)
"""
MOE = {
    "train/aux_loss": 0.0234, "train/z_loss": 0.0012, "train/expert_utilization": 0.9375, "train/load_imbalance": 1.45,
    "train/moe_aux_loss": 0.0234, "train/moe_active_experts": 60, "train/moe_max_expert_fraction": 0.05,
    "train/moe_min_active_expert_fraction": 0.001, "train/moe_load_cv": 0.3, "train/moe_router_entropy": 0.8,
    "train/moe_router_confidence": 0.5,
}  # fmt: skip


def train(config, world):
    Path("train.py").write_text(textwrap.dedent(CALLS.format(config=config)))
    done = subprocess.run(
        [sys.executable, "train.py"], env=world, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0 and "not complete" not in done.stderr, done.stderr


@pytest.mark.timeout(300)
def test_37_to_40_what_arrives_at_wandb():
    """Training, evals, GPUs by number, routers and memory, under the documented keys; one chart."""
    server = Server()
    try:
        train(
            {"report_to": "wandb", "wandb_project": "mine", "wandb_name": "my-run", "lr": 2e-4, "output_dir": "out"},
            environ(server),
        )
        (run,) = server.runs.values()
    finally:
        server.stop()
    assert run.project == "mine"
    assert run.values()["lr"] == 2e-4
    rows = run.rows
    step = next(row for row in rows if row.get("step") == 0 and "train/loss" in row)
    assert {key: step[key] for key in step if key.startswith("train/")} == pytest.approx({
        "train/epoch": 0.125, "train/step_tokens": 16384, "train/duration_ms": 156, "train/norm": 0.1234, "train/loss": 2.3356, "train/lr": 2e-4,
        "train/tokens_per_second": 105025.641,
    })  # fmt: skip
    evaluation = next(row for row in rows if "eval/loss" in row)
    assert {key for key in evaluation if key.startswith("eval/")} == {
        "eval/epoch",
        "eval/eval_tokens",
        "eval/duration_ms",
        "eval/loss",
        "eval/tokens_per_second",
    }
    for gpu in range(2):  # each under keys of its own, in MiB
        assert run.series(f"gpu/{gpu}/power") == [(1, 350_000 + gpu)]
        assert run.series(f"gpu/{gpu}/dram_free") == [(1, 8192.0)]
        assert run.series(f"gpu/{gpu}/pcie_rx") == [(1, 1024.0)]
        assert run.series(f"gpu/{gpu}/fan") == []
    assert run.series("gpu/1/throttle") == [(1, "power cap")] and run.series("gpu/0/throttle") == []
    assert run.series("gpu/power") == [(1, 350_000)], "the documented name is that of the first"
    assert (run.series("gpu/dram_free"), run.series("gpu/pcie_tx")) == ([(1, 8192.0)], [(1, 512.0)])
    for key, value in MOE.items():
        assert run.series(key) == [(1, value)], key
    ((_, chart),) = run.series("allocations")
    drawn = run.files[chart["path"]].decode()
    assert "<circle" in drawn and "weights  4,096.0 MiB, 100.0%" in drawn
    assert run.series("flops/blocks") == [(0, 36_000_000_000)]


TWICE = """
from chiplog.frontends.surogate import training_logger_context
for name, rate in (("first", 1e-4), ("second", 2e-4)):
    config = {"report_to": "wandb", "output_dir": "output", "wandb_name": name, "learning_rate": rate, "verbosity": -2}
    with training_logger_context(config) as logger:
        logger.log_step(0, 0.125, 16384, 156, 0.1234, rate, rate)
with training_logger_context({**config, "resume_from_checkpoint": True}) as again:
    again.log_step(1, 0.125, 16384, 156, 0.1234, 3.0, rate)
assert again.run.id == logger.run.id
"""


@pytest.mark.timeout(300)
def test_a_second_training_in_the_same_output_folder_is_a_run_of_its_own():
    """With its own name and config, at W&B, in `chiplog show` and in the file; a checkpoint resumes the last one."""
    server = Server()
    try:
        Path("train.py").write_text(TWICE)
        subprocess.run([sys.executable, "train.py"], env=environ(server), timeout=200, check=True)
        there = {run.name: (run.values()["learning_rate"], run.series("train/loss")) for run in server.runs.values()}
    finally:
        server.stop()
    assert there == {"first": (1e-4, [(0, 1e-4)]), "second": (2e-4, [(0, 2e-4), (1, 3.0)])}
    here = {run.name: run for run in chiplog.runs("runs", "surogate")}
    assert {name: run.config["learning_rate"] for name, run in here.items()} == {"first": 1e-4, "second": 2e-4}
    steps = [record["step"] for record in read("output/training.json") if record["log"] == "step"]
    before = [record["loss"] for record in read("output/training.1.json") if record["log"] == "step"]
    assert (steps, before) == ([0, 1], [1e-4])
    shown = subprocess.run(
        [sys.executable, "-m", "chiplog", "show", "second"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "second" in shown.stdout and "0.0002" in shown.stdout and "first" not in shown.stdout


@pytest.mark.timeout(300)
def test_37_to_40_what_arrives_at_aim(tmp_path):
    """The same under the names that Aim has: `gpu/0/power`, `allocator/weights_mib`, `flops/blocks`."""
    repo = tmp_path / "aim"
    train(
        {"report_to": ["aim"], "aim_repo": str(repo), "aim_experiment": "mine", "aim_name": "my-run", "lr": 2e-4},
        dict(os.environ),
    )
    (found,) = runs(repo)
    assert (found["name"], found["experiment"]) == ("my-run", "mine")
    assert found["params"]["config"]["lr"] == 2e-4
    assert points(found, "train/loss") == [(0, 2.3356), (2, 2.0)]
    assert points(found, "train/tokens_per_second")[0] == (0, pytest.approx(105025.641))
    assert points(found, "train/step_tokens") == [(0, 16384.0), (2, 16384.0)]
    assert points(found, "eval/eval_tokens") == [(1, 32768.0)]
    assert {name: at for name, at in found["media"].items() if "throttle" in name} == {
        "gpu/1/throttle": [[1, "power cap"]]
    }
    assert points(found, "gpu/0/power") == [(1, 350_000)] and points(found, "gpu/1/power") == [(1, 350_001)]
    assert points(found, "gpu/0/dram_free") == [(1, 8192.0)] and points(found, "gpu/0/pcie_rx") == [(1, 1024.0)]
    assert "gpu/0/fan" not in found["series"]
    assert points(found, "allocator/weights_mib") == [(0, 4096.0)]
    assert [points(found, f"flops/{part}") for part in ("blocks", "lm_head", "attention")] == [
        [(0, 36e9)], [(0, 786_432_000.0)], [(0, 1_610_612_736.0)],
    ]  # fmt: skip
    for key, value in MOE.items():
        assert points(found, key) == [(1, value)], key
    assert str(points(found, "train/norm")) == "[(0, 0.1234), (2, nan)]"


def test_gpu_fields_are_those_of_the_probe():
    """What a probe of ours says can be logged as it is."""
    with training_logger_context({"output_dir": "out"}, verbosity=-2) as logger:
        logger.log_gpu_state(1, 3, {"clock": 1800, "gpu_util": 98, "dram_free": 5, "throttle": "power cap"})
        logger.log_gpu_state(2, 3, GPUUtilInfo(clock=None, fan=None))
    first, second = [record for record in read("out/training.json") if record["log"] == "gpu"]
    assert (first["id"], first["clock"], first["gpu_util"], first["throttle"]) == (3, 1800, 98, "power cap")
    assert first["power"] is None and first["fan"] == 0, "every field is there; what nobody knows is null"
    assert second["clock"] is None and json.dumps(second)
