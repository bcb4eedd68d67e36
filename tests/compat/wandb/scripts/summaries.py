"""The summary: the last value, what the script sets, and what is logged after that."""

import wandb

run = wandb.init(project="summaries")
run.log({"x": 1, "y": {"z": 2}, "best": 0})
run.summary["best"] = 0.25
run.summary.update({"note": "text", "nested": {"a": 1}})
wandb.summary["x"] = 99
wandb.run.summary.count = 7
run.log({"x": 3})
run.finish()
