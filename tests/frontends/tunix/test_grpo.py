"""The example of a GRPO job: what it leaves behind, read by chiplog and by Perfetto's trace processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from tests.perfetto.processor import SLICES, ask

STEPS = 3
EXAMPLE = Path(__file__).parents[3] / "examples" / "grpo.py"
ACTOR = ("loss", "perplexity", "learning_rate", "step_time_sec", "steps_per_sec", "tflops_per_step")
DOCUMENTED = [
    *(f"actor/train/{name}" for name in (*ACTOR, "grad_norm", "kl", "pg_clipfrac", "loss/entropy")),
    *(f"rewards/train/{name}" for name in ("sum", "mean", "max", "min", "correct", "close")),
    *(f"{group}/train/{name}" for group in ("score", "advantages") for name in ("mean", "max", "min")),
    *(f"completions/train/{name}_length" for name in ("mean", "max", "min")),
    *("global/train/reward_kl_penalty", "global/train/actor_dequeue_time"),
    *("perf/train/global_step_time", "perf/train/weight_sync_time", "perf/train/rollout_idle_time"),
    *("perf/train/first_micro_batch_rollout_time", "perf/train/sum/refer_gap_time", "perf/train/sum/actor_gap_time"),
    *(
        f"perf/train/{word}/{name}_time"
        for word in ("sum", "mean")
        for name in ("rollout", "refer_inference", "actor_train", "actor_train_step")
    ),
    *("perf/train/rollout/device_sec", "perf/train/overlap_sec"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example was run, as a person would."""
    here = tmp_path_factory.mktemp("grpo")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(STEPS)],
        cwd=here,
        env={**os.environ, "HOME": str(here), "WANDB_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return here


@pytest.fixture
def stored(folder: Path) -> Any:
    (path,) = folder.glob("runs/grpo/*")
    return chiplog.read(path)


def test_the_metrics_have_the_documented_names(stored: Any) -> None:
    """Each at every step, and none of them missing."""
    names = set(stored.names())
    assert [name for name in DOCUMENTED if name not in names] == []
    assert [len(stored.series(name)) for name in DOCUMENTED] == [STEPS] * len(DOCUMENTED)
    assert list(stored.series("rewards/train/mean").steps) == [0, 1, 2]
    assert list(stored.series("actor/train/loss").steps) == [1, 2, 3]


def test_the_rollouts_are_a_table(stored: Any) -> None:
    """With their prompts, completions and ids, a page at a time."""
    assert sum(1 for _ in stored.table("rollouts")) == STEPS * 2 * 64
    (row,) = stored.table("rollouts", where={"step": 2}, limit=1)
    assert row["trajectory_id"] == "2_0" and row["prompt"].endswith("=") and row["completion"].isdigit()


def test_the_trace_has_the_right_nesting(folder: Path) -> None:
    """On the host groups in groups; on each role's device its own work; rollouts on a thread of their own."""
    (path,) = folder.glob("traces/perfetto_trace_v2_*.pb")
    (slices,) = ask(path, SLICES)
    by_id = {one["id"]: one for one in slices}

    def inside(name: str) -> set[tuple[str, ...]]:
        """The names around the slices of this name, outermost first."""
        found = set()
        for one in slices:
            if one["name"].startswith(name) and one["track"] == "MainThread":
                around: list[str] = []
                outer = by_id.get(one["parent_id"])
                while outer is not None:
                    around.insert(0, outer["name"].partition(" ")[0])
                    outer = by_id.get(outer["parent_id"])
                found.add(tuple(around))
        return found

    assert inside("global_step") == {()}
    assert inside("data_loading") == {("global_step",)} == inside("weight_sync")
    assert inside("reference_inference") == {("global_step", "mini_batch_step", "micro_batch_steps")}
    assert inside("peft_train") == {("global_step", "mini_batch_step", "micro_batch_steps", "actor_training")}
    assert sum(one["name"].startswith("global_step") for one in slices) == STEPS
    work = {(one["above"], one["track"], one["name"].partition(" ")[0]) for one in slices}
    assert ("Host - Rollout threads", "rollout worker", "rollout") in work
    assert ("Rollout Cluster", "cpu1", "rollout") in work and (
        "Reference Cluster",
        "cpu2",
        "reference_inference",
    ) in work
    assert ("Actor Cluster", "cpu0", "peft_train") in work


def test_device_work_ends_after_it_was_given(stored: Any) -> None:
    """And is joined with the host's span by being inside it."""
    spans = stored.spans()
    for given in spans.named("peft_train_step").host():
        (work,) = [span for span in spans.device() if span.parent == given.id]
        assert work.thread == "cpu0" and work.start >= given.start and work.step == given.step
