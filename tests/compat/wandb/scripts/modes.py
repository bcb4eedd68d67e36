"""Disabled runs keep nothing; tags, notes, group, type and settings."""

import os

import wandb

off = wandb.init(project="modes", mode="disabled")
off.log({"x": 1})
off.config.update({"a": 1})
off.summary["b"] = 2
off.finish()
run = wandb.init(
    project="modes",
    name="a name, with signs: /#%",
    tags=["one", "two"],
    group="group",
    notes="some notes",
    job_type="train",
    dir=os.environ.get("WANDB_DIR"),
    save_code=False,
    settings=wandb.Settings(init_timeout=300),
)
run.log(
    {
        "tags": len(run.tags),
        "group": int(run.group == "group"),
        "notes": int(run.notes == "some notes"),
        "type": int(run.job_type == "train"),
    }
)
run.finish()
