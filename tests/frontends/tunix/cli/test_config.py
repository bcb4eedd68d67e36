"""The config of a job from the command line, and as mappings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.cli import config
from chiplog.frontends.tunix.perf.metrics import PerfMetricsOptions
from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig

FILE = """
rl_training_config:
  max_steps: 3
  perf_metrics_options:
    enable_perf_v1: true
    enable_perf_v2: false
    trace_dir: "traces"
    custom_export_fn_path_v2: "path.to.my.custom_fn_v2"
"""
PERF = "rl_training_config.perf_metrics_options"


def test_words_after_a_file_override_it(tmp_path: Path) -> None:
    """A key with dots, a value as YAML has it; what is not named stays."""
    (tmp_path / "grpo.yaml").write_text(FILE)
    found = config.initialize(
        ["train.py", "grpo.yaml", f"{PERF}.custom_export_fn_path_v2=", f"{PERF}.enable_perf_v2=true"]
    )
    assert found.perf_metrics_options == PerfMetricsOptions(enable_perf_v2=True, trace_dir="traces")
    assert found.config["rl_training_config"]["max_steps"] == 3
    alone = config.initialize([f"{PERF}.trace_dir=/x", "seed=7"], seed=8)
    assert alone.perf_metrics_options == PerfMetricsOptions(trace_dir="/x") and alone.config["seed"] == 8
    assert config.initialize([]).perf_metrics_options is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["oops"], "neither a YAML file nor key=value"),
        (["missing.yaml"], "cannot be read: No such file"),
        (["a..b=1"], "names with dots between them"),
        ([f"{PERF}.typo=1"], "has no 'typo'; available: enable_perf_v1"),
        ([f"{PERF}.enable_perf_v2=maybe"], "must be a bool"),
        ([f"{PERF}.enable_perf_v1=false"], "neither perf v1 nor v2 is enabled"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], why: str) -> None:
    """Before any training."""
    with pytest.raises(BadSetting, match=why):
        config.initialize(words)


def test_the_documented_mapping_is_taken_by_a_training_config(capfd: pytest.CaptureFixture[str]) -> None:
    """The function of the version that is off is reported and not used; words of a command line do for switches."""
    given: dict[str, Any] = {
        "enable_perf_v1": "true",
        "enable_perf_v2": False,
        "enable_trace_writer": True,
        "trace_dir": "traces",
        "custom_export_fn_path": "",
        "custom_export_fn_path_v2": "path.to.my.custom_fn_v2",
    }
    training = RLTrainingConfig(perf_metrics_options=given)
    assert training.perf_metrics_options == PerfMetricsOptions(trace_dir="traces")
    assert "custom_export_fn_path_v2 = 'path.to.my.custom_fn_v2' is not used" in capfd.readouterr().err
    with RLCluster(cluster_config=ClusterConfig(training_config=training)) as cluster, cluster.global_step():
        pass
    assert [path.suffix for path in Path("traces").iterdir()] == [".pb"]


def test_a_job_is_started_with_its_options(tmp_path: Path) -> None:
    """As a person does it: both versions leave their traces where the command line says."""
    (tmp_path / "grpo.yaml").write_text(
        FILE.replace("  enable_perf_v2: false", "  enable_perf_v2: true").replace("path.to.my.custom_fn_v2", "")
    )
    (tmp_path / "train.py").write_text(
        "from chiplog.frontends.tunix.cli import config\n"
        "from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig\n"
        "training = RLTrainingConfig(**config.initialize().rl_training_config)\n"
        "assert training.max_steps == 3\n"
        "with RLCluster(cluster_config=ClusterConfig(training_config=training)) as cluster, cluster.global_step():\n"
        "    pass\n"
    )
    subprocess.run([sys.executable, "train.py", "grpo.yaml", f"{PERF}.trace_dir=elsewhere"], check=True, timeout=60)
    names = sorted(path.name.rstrip("0123456789.pb") for path in Path("elsewhere").iterdir())
    assert names == ["perfetto_trace_", "perfetto_trace_v2_"] and not Path("traces").exists()
