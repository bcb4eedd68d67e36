"""Tunix's values as OpenTelemetry has them: gauges of your own provider, or an OTLP endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from chiplog.frontends.tunix.metrics_logger import MetricsLogger, MetricsLoggerOptions
from chiplog.frontends.tunix.otel import gauge_name, parts
from tests.frontends.tunix.backend import Keeps
from tests.support.otlp import Endpoint
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("WANDB_", "OTEL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    made = Endpoint()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    yield made
    made.server.shutdown()
    made.server.server_close()


def gauges(reader: InMemoryMetricReader) -> dict[str, list[tuple[float, dict[str, Any]]]]:
    data = reader.get_metrics_data()
    return {
        metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        if scope.scope.name == "tunix"
        for metric in scope.metrics
    }


def test_a_provider_of_yours_has_gauges(tmp_path: Path) -> None:
    """Values, their mode and prefix, and the step beside them; the provider lives on when the logger is closed."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    options = MetricsLoggerOptions(str(tmp_path / "tb"), enable_opentelemetry=True)
    logger = MetricsLogger(options, otel_meter_provider=provider)
    logger.log("actor", "loss", 2.5, "train", 3)
    logger.log("actor", "rewards/score mean", 0.5, "eval", 4)
    logger.log("", "loss", 7.0, "train", 5)
    logger.close()
    found = gauges(reader)
    assert found["tunix.training.loss"] == [
        (2.5, {"tunix.training.mode": "train", "tunix.metrics.prefix": "actor"}),
        (7.0, {"tunix.training.mode": "train"}),
    ]
    assert [value for value, _ in found["tunix.rewards.score.mean"]] == [0.5]
    assert sorted(value for value, _ in found["tunix.training.step"]) == [3, 4, 5]
    provider.get_meter("mine").create_gauge("still").set(1)
    provider.shutdown()


def test_a_provider_stands_beside_other_backends_and_is_off_by_default(tmp_path: Path) -> None:
    """Factories have every value too; without `enable_opentelemetry` the provider has none."""
    for enabled in (True, False):
        reader, kept = InMemoryMetricReader(), Keeps()
        options = MetricsLoggerOptions(
            str(tmp_path / "tb"), backend_factories=[lambda kept=kept: kept], enable_opentelemetry=enabled
        )
        logger = MetricsLogger(options, otel_meter_provider=(provider := MeterProvider([reader])))
        logger.log("", "loss", 1.0, "train", 1)
        logger.close()
        assert kept.named("train/loss") == [(1, 1.0)] and ("tunix.training.loss" in gauges(reader)) is enabled
        provider.shutdown()


def test_without_a_provider_an_endpoint_has_them(tmp_path: Path, endpoint: Endpoint) -> None:
    """The same values over OTLP, to where the variables of OpenTelemetry say."""
    logger = MetricsLogger(MetricsLoggerOptions(str(tmp_path / "tb"), enable_opentelemetry=True))
    logger.log("actor", "loss", 2.5, "train", 3)
    logger.close()
    wait_for(lambda: endpoint.points)
    assert ("actor/train/loss", 2.5) in [(name, value) for name, _, value in endpoint.points]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loss", "tunix.training.loss"),
        ("grad_norm", "tunix.training.gradient.norm"),
        ("rewards/score mean", "tunix.rewards.score.mean"),
        ("KL/", "tunix.kl"),
        ("//", "tunix.unnamed"),
        ("", "tunix.unnamed"),
    ],
)
def test_gauges_have_the_names_of_the_original(name: str, said: str) -> None:
    assert gauge_name(name) == said


def test_a_name_is_taken_apart() -> None:
    assert parts("actor/train/kl/mean") == ("actor", "train", "kl/mean") and parts("eval/loss") == ("", "eval", "loss")
    assert parts("loss") == ("", "", "loss")
