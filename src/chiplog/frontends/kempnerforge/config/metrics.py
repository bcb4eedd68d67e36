"""The section `[metrics]` of a job's config."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from chiplog.core.errors import BadSetting


@dataclass
class MetricsConfig:
    """How often steps are logged, and where to; any object with these attributes does as well."""

    log_interval: int = 10
    enable_wandb: bool = False
    enable_tensorboard: bool = False
    wandb_project: str = "kempnerforge"
    wandb_run_name: str | None = None
    wandb_run_id: str = ""  # filled when the run begins; belongs in the checkpoint
    tensorboard_dir: str = "tb_logs"

    def __post_init__(self) -> None:
        if self.log_interval <= 0:
            raise ValueError("log_interval must be positive")

    @classmethod
    def from_toml(cls, source: str | Path) -> MetricsConfig:
        """The section of a file, or of a text with line breaks in it; what it leaves out has its default."""
        is_text = isinstance(source, str) and "\n" in source
        section = tomllib.loads(str(source) if is_text else Path(source).read_text()).get("metrics", {})
        known = [field.name for field in fields(cls)]
        for name in section:
            if name not in known:
                raise BadSetting(f"[metrics] has no {name!r}; there are: {', '.join(known)}")
        return cls(**section)
