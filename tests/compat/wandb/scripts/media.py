"""Tables, images, histograms, pages and sound among numbers."""

import numpy as np
import wandb

run = wandb.init(project="media")
table = wandb.Table(columns=["id", "text"], data=[[1, "a"]])
table.add_data(2, "b")
run.log({"loss": 1.0, "table": table})
run.log({"image": wandb.Image(np.zeros((4, 6, 3), np.uint8), caption="black"), "loss": 0.5})
run.log({"images": [wandb.Image(np.zeros((4, 4), np.uint8)), wandb.Image(np.ones((4, 4), np.uint8))]})
run.log({"histogram": wandb.Histogram([1, 2, 2, 3])})
run.log({"counts": wandb.Histogram(np_histogram=([1, 2], [0.0, 0.5, 1.0]))})
run.log({"html": wandb.Html("<b>bold</b>"), "loss": 0.25})
run.finish()
