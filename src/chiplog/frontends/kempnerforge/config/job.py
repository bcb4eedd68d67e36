"""A job's config: the sections that the metrics read, and any others unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from chiplog.frontends.kempnerforge.config.metrics import MetricsConfig

SEQ_LEN = 2048  # without a `train` section


@dataclass(init=False)
class JobConfig:
    """`JobConfig(model=..., train=..., metrics=..., optimizer=...)`; the tracker reads the first three."""

    model: Any
    train: Any
    metrics: Any

    def __init__(self, model: object = None, train: object = None, metrics: object = None, **others: object) -> None:
        self.model = SimpleNamespace() if model is None else model
        self.train = SimpleNamespace(seq_len=SEQ_LEN) if train is None else train
        self.metrics = MetricsConfig() if metrics is None else metrics
        for name, section in others.items():
            setattr(self, name, section)
