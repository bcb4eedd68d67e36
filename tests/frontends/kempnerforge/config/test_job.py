"""A job's config."""

from __future__ import annotations

from chiplog.frontends.kempnerforge.config.job import SEQ_LEN, JobConfig
from chiplog.frontends.kempnerforge.config.metrics import MetricsConfig


def test_sections_have_defaults_and_others_are_kept() -> None:
    """A tracker needs no more than the defaults."""
    config = JobConfig(optimizer={"lr": 0.1})
    assert config.train.seq_len == SEQ_LEN and config.metrics == MetricsConfig()
    assert config.optimizer == {"lr": 0.1}  # type: ignore[attr-defined]
