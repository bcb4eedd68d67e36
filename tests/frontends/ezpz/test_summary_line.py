"""The line that `update` returns, character by character."""

from __future__ import annotations

import math
from typing import Any

import pytest

from chiplog.frontends.ezpz.summary_line import CONSTANTS
from chiplog.frontends.ezpz.utils import format_compact_summary, format_memory_summary
from chiplog.metrics.catalog import is_setting

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("metrics", "how", "line"),
    [
        ({"loss": 0.42}, {}, "loss=0.420000"),
        ({"loss": 0.42}, {"precision": 2}, "loss=0.42"),
        ({"loss": 0.5, "loss/std": 0.02}, {"precision": 2}, "loss=0.50(± 0.020)"),
        ({"loss": 0.5, "loss/std": 0.02, "loss/mean": 1.0, "loss/min": 1.0, "loss/max": 1.0, "loss/avg": 1.0}, {"precision": 2}, "loss=0.50(± 0.020)"),
        ({"loss": 0.289993, "loss/std": 0.157124}, {}, "loss=0.289993(±  0.16)"),
        ({"dtb": 0.027595, "dtb/std": 0.000302}, {}, "dtb=0.027595(±3.0e-4)"),
        ({"tflops": 16.778491, "tflops/std": 1.297581}, {}, "tflops=16.778491(±   1.3)"),
        ({"tps": 124000.0, "tps/std": 129.7}, {}, "tps=124000.000000(±   130)"),
        ({"x": 1.0, "x/std": 9.96}, {}, "x=1.000000(±    10)"),
        ({"x": 1.0, "x/std": 0.0996}, {}, "x=1.000000(±  0.10)"),
        ({"x": 1.0, "x/std": 123.4}, {}, "x=1.000000(±   120)"),
        ({"x": 1.0, "x/std": 1.2e7}, {}, "x=1.000000(± 1.2e7)"),
        ({"x": 1.0, "x/std": 1e-12}, {}, "x=1.000000(± 1e-12)"),
        ({"x": 1.0, "x/std": 0.00999}, {}, "x=1.000000(±1.0e-2)"),
        ({"x": 1.0, "x/std": 0.01}, {}, "x=1.000000(± 0.010)"),
        ({"x": 1.0, "x/std": 0.0}, {}, "x=1.000000(±   0.0)"),
        ({"x": 1.0, "x/std": NAN}, {}, "x=1.000000(±   nan)"),
        ({"x": 1.0, "x/std": INF}, {}, "x=1.000000(±   inf)"),
        ({"iter": 8, "loss": 0.5}, {}, "iter=8    loss=0.500000"),
        ({"iter": 180, "loss": 0.5}, {}, "iter=180  loss=0.500000"),
        ({"iter": 12345, "loss": 0.5}, {}, "iter=12345 loss=0.500000"),
        ({"step": 3, "epoch": 1, "batch": 7, "idx": 2, "bidx": 4, "loss": 1.0}, {}, "step=3    epoch=1 batch=7   idx=2     bidx=4    loss=1.000000"),
        ({"iter": 100, "iter/std": 5.0, "loss": 0.5, "loss/std": 0.02}, {"precision": 2}, "iter=100  loss=0.50(± 0.020)"),
        ({"train/iter": 5, "train/loss": 0.5}, {}, "train/iter=5    train/loss=0.500000"),
        ({"train/iter": 180, "train/loss": 0.5}, {}, "train/iter=180  train/loss=0.500000"),
        ({"lr": 0.001, "lr/std": 0.5}, {}, "lr=0.001000"),
        ({"loss": 0.078, "lr": 0.000059}, {"precision": 3}, "loss=0.078 lr=0.000059"),
        ({"lr": 1e-7}, {}, "lr=0.000000"),
        ({"lr": 1e-7}, {"scientific": True}, "lr=1.0e-07"),
        ({"my_const": 42.0, "my_const/std": 3.0, "loss": 0.5}, {"constant_keys": ["my_const"]}, "my_const=42.000000 loss=0.500000"),
        ({"iter": 5, "loss": 0.5}, {"min_widths": {"iter": 4}}, "iter=5 loss=0.500000"),
        ({"foo": 5, "loss": 0.5}, {"min_widths": {"foo": 10}}, "foo=5      loss=0.500000"),
        ({"a": 1.0, "b": 2.0}, {"keys_to_skip": ["a"]}, "b=2.000000"),
        ({"loss/mean": 0.4}, {"precision": 2}, "loss/mean=0.40"),
        ({"b/max": 1.0, "loss": 2.0, "a/min": 3.0}, {"precision": 1}, "loss=2.0 b/max=1.0 a/min=3.0"),
        ({"loss": NAN, "g": INF}, {}, "loss=nan g=inf"),
        ({"ok": True, "n": 3, "s": "abc", "none": None}, {}, "ok=True n=3 s=abc none=None"),
        ({"v": [1, 2.5]}, {}, "v[0]=1 v[1]=2.500000"),
        ({"d": {"a": 1.5}}, {"precision": 1}, "d.a=1.5"),
        ({"opt": {"lr": 1e-4, "step": 7}, "a": 1.0}, {"precision": 1}, "opt.lr=0.000100 opt.step=7    a=1.0"),
        ({"opt.beta1": 0.9, "opt.beta1/std": 0.0}, {}, "opt.beta1=0.900000"),
        ({"layers": [{"a": 1.0}]}, {"precision": 1}, "layers[0].a=1.0"),
        ({"loss": 0.5, "mem_alloc": 1.5, "mem_alloc/mean": 1.5, "train/mem_reserved": 2.0}, {"precision": 2}, "loss=0.50 memory=1.50GiB (cur)"),
        ({"loss": 0.5, "mem_alloc": 1.5, "mem_reserved": 2.0}, {"precision": 2}, "loss=0.50 memory=1.50/2.00GiB"),
        ({"100%": 0.5}, {"precision": 1}, "100%=0.5"),
        ({}, {}, ""),
    ],
)  # fmt: skip
def test_a_row_as_a_line(metrics: dict[str, Any], how: dict[str, Any], line: str) -> None:
    """Values by precision, deviations in six characters, counters in columns, the rest left out."""
    assert format_compact_summary(metrics, **how) == line


def test_the_sample_of_the_documentation() -> None:
    """All of its rules in one line."""
    row = {
        "iter": 180, "loss": 0.078, "loss/std": 0.026, "accuracy": 0.984, "accuracy/std": 0.0099, "dtf": 0.014,
        "dtf/std": 0.00074, "lr": 0.000059,
    }  # fmt: skip
    assert format_compact_summary(row, 3) == (
        "iter=180  loss=0.078(± 0.026) accuracy=0.984(±9.9e-3) dtf=0.014(±7.4e-4) lr=0.000059"
    )


@pytest.mark.parametrize(
    ("std", "text"), [(0.157124, "(±0.16)"), (0.000302, "(±3.0e-4)"), (1.2976, "(±1.3)"), (0.0, "")]
)
def test_deviations_may_be_as_long_as_they_are(std: float, text: str) -> None:
    """The tight form is an option."""
    assert format_compact_summary({"x": 1.0, "x/std": std}, 1, std_width=0) == f"x=1.0{text}"


def test_numbers_of_other_libraries() -> None:
    """Arrays of one element are numbers; short vectors are shown, longer ones and matrices have their shape: one line."""
    import numpy as np
    import torch

    row = {"a": np.float32(0.5), "b": torch.tensor(0.25), "c": np.int64(3)}
    assert format_compact_summary(row, 2) == "a=0.50 b=0.25 c=3"
    arrays = {"v": np.array([1.5, 2.0]), "m": np.eye(2), "t": torch.zeros(2, 3, 4), "long": [0.0] * 17, "l": [[1], [2]]}
    assert format_compact_summary(arrays, 1) == "v[0]=1.5 v[1]=2.0 m=<2x2> t=<2x3x4> long=<17> l=<2x1>"


MEM = {
    "train/mem_alloc": 8.0,
    "train/mem_peak_alloc": 10.0,
    "train/mem_reserved": 12.0,
    "train/mem_peak_reserved": 12.8,
}


@pytest.mark.parametrize(
    ("metrics", "how", "text"),
    [
        (MEM, {"total": 16.0}, "8.00/12.00GiB (80%)"),
        (MEM, {}, "8.00/12.00GiB"),
        ({"mem_alloc": 0.01, "mem_peak_alloc": 0.01, "mem_reserved": 0.01, "mem_peak_reserved": 0.01}, {"total": 80.0}, "0.01/0.01GiB (0%)"),
        (MEM, {"total": 16.0, "style": "peak"}, "8.00/10.00GiB (cur/peak, 50% of 16.0GiB)"),
        ({"mem_alloc": 1.5}, {"style": "peak"}, "1.50GiB (cur)"),
        ({"mem_peak_alloc": 2.0}, {"style": "peak", "total": 16.0}, "2.00GiB (peak)"),
        ({"mem_alloc": 1.5, "mem_peak_alloc": 2.25}, {}, "1.50/2.25GiB (cur/peak)"),
        ({"loss": 1.0}, {}, ""),
    ],
)  # fmt: skip
def test_memory(metrics: dict[str, float], how: dict[str, Any], text: str) -> None:
    """Allocated and reserved, with the share of the device that was needed at most; the other form is an option."""
    assert format_memory_summary(metrics, **how) == text


def test_every_constant_of_the_line_has_no_statistics_across_ranks() -> None:
    """What is bare in the line is not sent to the other ranks either."""
    assert all(is_setting(name) for name in CONSTANTS)
