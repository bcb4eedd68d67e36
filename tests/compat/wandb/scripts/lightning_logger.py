"""Lightning's WandbLogger."""

import os

import lightning as L
import torch
import wandb
from lightning.pytorch.loggers import WandbLogger


class Model(L.LightningModule):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)

    def training_step(self, batch, number):
        loss = self.layer(batch).pow(2).mean()
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, number):
        self.log("val/loss", self.layer(batch).pow(2).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


L.seed_everything(0)
data = torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=4)
logger = WandbLogger(project="lightning_logger", name="lit", save_dir=os.environ["OUTPUT_DIR"], config={"extra": 1})
trainer = L.Trainer(
    max_epochs=2,
    logger=logger,
    log_every_n_steps=1,
    accelerator="cpu",
    enable_progress_bar=False,
    enable_checkpointing=False,
    enable_model_summary=False,
)
trainer.fit(Model(), data, data)
logger.log_text("samples", columns=["prompt", "answer"], data=[["a", "b"]])
wandb.finish()
