"""A job of KempnerForge: its config by the documented attributes, and a loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from chiplog.frontends.kempnerforge import MetricsConfig, MetricsTracker, StepMetrics


@dataclass
class Model:
    """The documented attributes of a model's config, by the original's rules."""

    dim: int = 256
    n_layers: int = 4
    n_heads: int = 4
    vocab_size: int = 1000
    max_seq_len: int = 128
    ffn_hidden_dim: int | None = None
    n_kv_heads: int | None = None
    num_experts: int = 0
    moe_top_k: int = 2
    moe_shared_experts: int = 0
    moe_frequency: int = 1

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads

    @property
    def is_moe(self) -> bool:
        return self.num_experts > 0

    @property
    def computed_ffn_hidden_dim(self) -> int:
        return self.ffn_hidden_dim or math.ceil(int(4 * self.dim * 2 / 3) / 256) * 256


LLAMA = Model(4096, 32, 32, 32000, 2048, 11008)


@dataclass
class Job:
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    model: Any = field(default_factory=Model)
    train: Any = field(default_factory=lambda: SimpleNamespace(seq_len=128))


def job(**metrics: Any) -> Job:
    return Job(MetricsConfig(**metrics))


def train(tracker: MetricsTracker, losses: list[float], first: int = 1) -> list[StepMetrics | None]:
    found = []
    for step, loss in enumerate(losses, first):
        tracker.start_step()
        found.append(tracker.end_step(step, loss, 1.25, 3e-4, 16384))
    return found
