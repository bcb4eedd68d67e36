"""The shape of nanoGPT's loop: evaluations and steps in one dictionary, with the iteration as a value."""

import math

import wandb

config = {"batch_size": 12, "learning_rate": 6e-4, "max_iters": 40}
wandb_project, wandb_run_name = "nanogpt", "gpt2-mini"
wandb.init(project=wandb_project, name=wandb_run_name, config=config)
for iter_num in range(0, 41, 10):
    losses = {"train": 10 / (iter_num + 1), "val": 11 / (iter_num + 1)}
    lr = 6e-4 * 0.5 * (1 + math.cos(math.pi * iter_num / 40))
    wandb.log({"iter": iter_num, "train/loss": losses["train"], "val/loss": losses["val"], "lr": lr, "mfu": 0.3 * 100})
wandb.finish()
