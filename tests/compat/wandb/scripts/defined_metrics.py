"""`define_metric`: the x axis is filled in, and the summary has what was asked for."""

import wandb

run = wandb.init(project="defined_metrics")
run.define_metric("epoch")
run.define_metric("val/*", step_metric="epoch")
run.define_metric("val/acc", summary="max")
run.define_metric("loss", summary="min,max,mean,last,first")
run.define_metric("hidden", summary="none")
run.define_metric("rare/*", step_metric="rare_step")
run.define_metric("free/*", step_metric="epoch", step_sync=False)
run.log({"rare/x": 1, "free/x": 1})
run.log({"val/early": 1, "table": wandb.Table(columns=["a"], data=[[1]])})
run.log({"val/table": wandb.Table(columns=["a"], data=[[1]])})
for number, loss in enumerate((3.0, 1.0, 2.0)):
    run.log({"loss": loss, "hidden": number})
run.log({"epoch": 1})
run.log({"val/loss": 0.5, "val/acc": 0.9})
run.log({"val/loss": 0.4, "epoch": 2})
run.log({"other": 1, "val/acc": 0.8})
run.log({"val/late": 1}, commit=False)
run.log({"epoch": 3})
run.finish()
