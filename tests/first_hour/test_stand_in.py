"""The stand-in for W&B from an installed wheel, without W&B."""

from __future__ import annotations

from tests.first_hour.environment import Environment

SCRIPT = """
import wandb

wandb.init(project="tiny-lm", config={"lr": 0.1})
for step in range(5):
    wandb.log({"train/loss": 1 / (step + 1)})
wandb.finish()
"""


def test_a_script_for_wandb_is_recorded(read: Environment) -> None:
    """`chiplog run --as wandb` needs neither W&B nor a change of the script."""
    (read.cwd / "for_wandb.py").write_text(SCRIPT)
    read.chiplog("run", "--as", "wandb", "--", "python", "for_wandb.py")
    assert "train/loss" in read.chiplog("show", "tiny-lm/latest").stdout
