"""The judge of the stand-in: a script has the same history with it as with W&B's real client, row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chiplog.compat.wandb import history
from tests.compat.wandb.both_clients import Both, run_both
from tests.compat.wandb.same_rows import comparable, differences

ODD = (
    "counted_steps",
    "passed_steps",
    "nested",
    "values",
    "defined_metrics",
    "summaries",
    "configs",
    "twice",
    "media",
    "modes",
    "nanogpt",
    "deepspeed_monitor",
)
FRAMEWORKS = ("hf_trainer", "accelerate_loop", "lightning_logger", "trl_sft", "trl_grpo", "sb3_tensorboard")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}|^\d{18,}$")  # of an object in memory, or a time
OURS = {
    "hub_token": "a secret",
    "output_dir": "another folder in each run",
    "tensorboard_log": "the same",
}  # config values that differ by design


# One test for all scripts of a kind: each starts two processes, whose imports take longer than all scripts together.


@pytest.mark.timeout(600)
def test_scripts_have_the_same_history(tmp_path: Path) -> None:
    """Rows, summary and config of scripts with W&B's odd semantics are those of W&B's client."""
    both = run_both(tmp_path, ODD)
    assert {script: problems for script in ODD if (problems := differing(script, both))} == {}


@pytest.mark.timeout(600)
def test_frameworks_have_the_same_history(tmp_path: Path) -> None:
    """Rows, summary and config of frameworks that hard-code W&B are those of W&B's client."""
    both = run_both(tmp_path, FRAMEWORKS)
    assert {script: problems for script in FRAMEWORKS if (problems := differing(script, both))} == {}


def differing(script: str, both: Both) -> list[str]:
    """What differs between the runs of one script."""
    theirs, ours = both.theirs[script], both.ours[script]
    problems = [f"{len(theirs)} runs, and here {len(ours)}"] if len(theirs) != len(ours) else []
    for real, kept in zip(theirs, ours, strict=False):
        rows = comparable(real.history)
        problems += differences(rows, comparable(history.rows(kept.stored))) if rows else ["no rows to compare"]
        problems += differences(comparable([real.summary]), comparable([dict(kept.summary)]))
        config = {name: value for name, value in real.config.items() if name not in ("_wandb", *OURS)}
        here = {name: value for name, value in kept.config.items() if name not in OURS}
        problems += [
            f"config {name} is {config.get(name)!r}, and here {here.get(name)!r}"
            for name in sorted({*config, *here})
            if config.get(name, "absent") != here.get(name, "absent") and not ADDRESS.search(str(config.get(name)))
        ]
        problems += [f"tags {real.tags}, and here {kept.tags}"] if real.tags != kept.tags else []
        problems += [f"name {real.name!r}, and here {kept.name!r}"] if real.name not in ("", kept.name) else []
    return problems
