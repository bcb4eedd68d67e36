"""W&B's callback for Stable-Baselines3: the hyperparameters of the model, its gradients, and its checkpoints."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

wandb: Any = import_module("chiplog.compat.wandb")  # `wandb.config` is the open run's, and not the submodule


class WandbCallback(BaseCallback):  # type: ignore[misc]  # untyped where it is not installed
    """Metrics come from `init(sync_tensorboard=True)`; this adds what W&B's callback adds."""

    def __init__(
        self,
        verbose: int = 0,
        model_save_path: str | None = None,
        model_save_freq: int = 0,
        gradient_save_freq: int = 0,
        log: str | None = "all",
    ) -> None:
        super().__init__(verbose)
        self.model_save_path, self.model_save_freq = model_save_path, model_save_freq
        self.gradient_save_freq, self.log = gradient_save_freq, log

    def _init_callback(self) -> None:
        plain = (int, float, str)
        values = {name: one if type(one) in plain else str(one) for name, one in vars(self.model).items()}
        wandb.config.setdefaults({"algo": type(self.model).__name__, **values})
        if self.gradient_save_freq > 0:
            wandb.watch(self.model.policy, log_freq=self.gradient_save_freq, log=self.log)

    def _on_step(self) -> bool:
        if self.model_save_freq > 0 and self.n_calls % self.model_save_freq == 0:
            self.save_model()
        return True

    def _on_training_end(self) -> None:
        self.save_model()

    def save_model(self) -> None:
        """Save the model, and keep a copy with the run."""
        if self.model_save_path is not None:
            path = Path(self.model_save_path) / "model.zip"
            path.parent.mkdir(parents=True, exist_ok=True)
            self.model.save(path)
            wandb.save(path, base_path=self.model_save_path)
