"""The calls of DeepSpeed's `WandbMonitor` (deepspeed/monitor/wandb.py): a value at a time, with the number of samples."""

import wandb


class WandbMonitor:
    def __init__(self, project, group, team):
        wandb.init(project=project, group=group, entity=team)

    def log(self, data, step=None, commit=None):
        return wandb.log(data, step=step, commit=commit)

    def write_events(self, event_list):
        for label, value, step in event_list:
            self.log({label: value}, step=step)


monitor = WandbMonitor("deepspeed_monitor", "group", None)
for samples in (8, 16, 24):
    monitor.write_events([("Train/Samples/train_loss", 1 / samples, samples)])
    monitor.write_events([("Train/Samples/lr", 0.1, samples), ("Train/Samples/loss_scale", 1.0, samples)])
wandb.finish()
