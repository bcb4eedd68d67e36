"""`log` without a step counts up; `commit=False` joins the next call; an empty row is a step."""

import wandb

run = wandb.init(project="counted_steps")
for number in range(3):
    wandb.log({"loss": 1 / (number + 1), "acc": number})
wandb.log({"first": 1}, commit=False)
wandb.log({"second": 2}, commit=False)
wandb.log({"third": 3})
wandb.log({})
wandb.log({"after": run.step})
wandb.log({"last": 1}, commit=False)
wandb.finish()
