"""`step=` opens a row, which the next higher step or a call without a step ends; the last value of a name wins."""

import wandb

run = wandb.init(project="passed_steps")
wandb.log({"a": 1}, step=5)
wandb.log({"b": 2}, step=5)
wandb.log({"c": 3})
wandb.log({"after": run.step})
wandb.log({"a": 4}, step=20)
wandb.log({"a": 5}, step=20)
wandb.log({"d": 6}, step=20, commit=True)
wandb.log({"after": run.step})
wandb.log({"a": 7}, step=100)
wandb.log({"a": 8}, step=101, commit=False)
run.finish()
