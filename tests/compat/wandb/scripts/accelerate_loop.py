"""Accelerate with `log_with="wandb"`."""

from accelerate import Accelerator

accelerator = Accelerator(log_with="wandb", cpu=True)
accelerator.init_trackers(
    "accelerate_loop", config={"lr": 0.1, "layers": 2}, init_kwargs={"wandb": {"name": "accelerated", "tags": ["a"]}}
)
for step in range(3):
    accelerator.log({"loss": 1 / (step + 1), "lr": 0.1}, step=step)
tracker = accelerator.get_tracker("wandb")
tracker.log_table("samples", columns=["text"], data=[["one"], ["two"]], step=3)
accelerator.log({"epoch": 1}, step=3)
accelerator.end_training()
