"""Axolotl: `plugins: [chiplog.integrations.axolotl.ChiplogPlugin]` in the YAML file."""

from __future__ import annotations

from typing import Any

from axolotl.integrations.base import BasePlugin

from chiplog.integrations.shared.hooks import Framework, hook
from chiplog.integrations.transformers import ChiplogCallback

AXOLOTL = Framework("Axolotl", "axolotl", "0.19")
NO_CALLBACKS: list[Any] = []


class ChiplogPlugin(BasePlugin):
    """Adds the callback for transformers to the trainer, and Axolotl's configuration to the run.

    The settings are `CHIPLOG_*` variables and `chiplog.toml`: Axolotl checks the names in its YAML file.
    """

    @hook(AXOLOTL, NO_CALLBACKS)
    def add_callbacks_post_trainer(self, cfg: Any, trainer: Any) -> list[Any]:
        present = trainer.callback_handler.callbacks
        if any(isinstance(one, ChiplogCallback) for one in present):
            return []
        return [ChiplogCallback(config={"axolotl": _plain(cfg)})]


def _plain(cfg: Any) -> dict[str, Any]:
    values = cfg.to_dict() if hasattr(cfg, "to_dict") else dict(cfg)
    return {str(name): value for name, value in values.items() if value is not None}
