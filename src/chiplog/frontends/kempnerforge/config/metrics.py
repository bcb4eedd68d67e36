"""The section `[metrics]` of a job's config."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from chiplog.core.errors import BadSetting


@dataclass
class MetricsConfig:
    """How often steps are logged, and where; any object with these attributes works too."""

    log_interval: int = 10
    enable_wandb: bool = False
    enable_tensorboard: bool = False
    wandb_project: str = "kempnerforge"
    wandb_run_name: str | None = None
    wandb_run_id: str = ""  # set when the run starts; belongs in the checkpoint
    tensorboard_dir: str = "tb_logs"

    def __post_init__(self) -> None:
        if self.log_interval <= 0:
            raise ValueError("log_interval must be positive")

    @classmethod
    def from_toml(cls, source: str | Path) -> MetricsConfig:
        """Read the section from a file, or from a text with line breaks; missing options have their defaults."""
        is_text = isinstance(source, str) and "\n" in source
        section = tomllib.loads(str(source) if is_text else Path(source).read_text()).get("metrics", {})
        names = [field.name for field in fields(cls)]
        for name in section:
            if name not in names:
                raise BadSetting(f"[metrics] has no {name!r}; available: {', '.join(names)}")
        return cls(**section)
