"""The config: attributes, namespaces, refused and allowed changes, and keys with dashes."""

import argparse

import wandb

run = wandb.init(
    project="configs", config={"lr": 0.1, "model": {"depth": 2}, "secret": 1, "seed": 0}, config_exclude_keys=["secret"]
)
wandb.config.batch = 32
wandb.config["steps"] = 10
wandb.config.update(argparse.Namespace(beta=0.9, path=None))
wandb.config.update({"lr": 0.2}, allow_val_change=True)
wandb.config.setdefaults({"lr": 5, "extra": "yes"})
wandb.config["--dashes"] = 1
try:
    wandb.config.update({"seed": 1})
except Exception:
    pass
run.log({"lr": wandb.config.lr, "depth": wandb.config["model"]["depth"], "has": int("extra" in wandb.config)})
run.finish()
