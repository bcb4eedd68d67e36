"""A second `init` returns the open run; `reinit` ends it and starts another."""

import wandb

first = wandb.init(project="twice", name="first", config={"a": 1})
first.log({"x": 1})
again = wandb.init(project="twice", name="again", config={"b": 2})
again.log({"x": 2, "same": int(again is first)})
second = wandb.init(project="twice", name="second", reinit="finish_previous")
second.log({"x": 3, "same": int(second is first)})
third = wandb.init(project="twice", name="third", reinit="create_new")
third.log({"x": 4})
wandb.log({"x": 5})
third.finish()
second.finish()
