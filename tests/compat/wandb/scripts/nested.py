"""Nested dictionaries are flattened with dots."""

import wandb

with wandb.init(project="nested") as run:
    run.log({"train": {"loss": 1.0, "layers": {"0": {"norm": 2.0}}}, "train/acc": 0.5})
    run.log({"a.b": 1, "a": {"c": 2}, "empty": {}})
