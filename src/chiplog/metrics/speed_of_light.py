"""Speed of light: the time per token if every operation ran at its dtype's peak, and how close a step came to it.

time of a part = FLOPs per token / peak of its dtype
ns per token   = (blocks + LM head + attention) / devices
SOL            = ns per token * tokens / time of the step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeGuard

import msgspec

from chiplog.core.records import Number, Plain, Row
from chiplog.metrics import hardware

PARTS = {"blocks": "Blocks", "lm_head": "LM-Head", "attention": "Attention"}
PEAKS = {"tf32": "TF32", "bf16": "BF16", "fp16": "FP16", "fp8": " FP8", "fp4": " FP4"}  # as printed
LOW = 0.6  # a step below this share has a bottleneck worth finding


class ModelPart(NamedTuple):
    """The FLOPs of one part of the model per token, and their dtype."""

    flops: float
    dtype: str = "bf16"


class Estimate(msgspec.Struct, frozen=True):
    """The best speed that the hardware allows; unknown if one of the parts has no peak."""

    parts: Mapping[str, ModelPart]
    peaks: Mapping[str, float | None]  # TFLOP/s by dtype
    ns_per_token: float | None
    devices: int = 1

    @property
    def tokens_per_sec(self) -> float | None:
        return 1e9 / self.ns_per_token if self.ns_per_token else None

    def data(self) -> dict[str, Plain]:
        """The data of an event `sol`: FLOPs per token by part, the rate, the peaks, and the dtypes."""
        rate = self.tokens_per_sec
        return {
            **{name: int(part.flops) for name, part in self.parts.items()},
            "tps": None if rate is None else int(rate),
            **{f"{dtype}_peak": self.peaks.get(dtype) for dtype in PEAKS},
            "ns_per_token": self.ns_per_token,
            "devices": self.devices,
            "dtypes": {name: part.dtype for name, part in self.parts.items()},
        }


def work(
    *,
    layers: int,
    hidden: int,
    intermediate: int,
    qkv: int,
    vocab: int,
    attention: int,
    context: int,
    dtype: str = "bf16",
) -> dict[str, ModelPart]:
    """The three parts of a dense transformer with a gated MLP, forward and backward, causal attention.

    `qkv` is the width of the joint query, key and value projection, `attention` the width of all query heads.
    """
    return {
        "blocks": ModelPart(6 * layers * hidden * (3 * intermediate + hidden + qkv), dtype),
        "lm_head": ModelPart(6 * vocab * hidden, dtype),
        "attention": ModelPart(6 * layers * attention * context, dtype),
    }


def peaks_of(device: str | None, override: Mapping[str, float | None] | None = None) -> dict[str, float | None]:
    """The peaks of a device by its name, in TFLOP/s; None for those that are not known."""
    accelerator = hardware.lookup(device) if device else None
    peaks: dict[str, float | None] = {dtype: accelerator.peak(dtype) if accelerator else None for dtype in PEAKS}
    return {**peaks, **{hardware.dtype_name(dtype) or dtype: peak for dtype, peak in (override or {}).items()}}


def estimate(
    parts: Mapping[str, ModelPart], peaks: Mapping[str, float | None], *, devices: int = 1, whole: bool = False
) -> Estimate:
    """The speed of light of a model on some devices; `whole` rounds each part to nanoseconds, as Surogate does."""
    spelled = {name: ModelPart(flops, hardware.dtype_name(dtype) or dtype) for name, (flops, dtype) in parts.items()}
    taken = [_nanoseconds(flops, peaks.get(dtype), whole) for flops, dtype in spelled.values()]
    if not taken or any(time is None for time in taken):
        return Estimate(spelled, peaks, None, devices)
    total = sum(time for time in taken if time is not None)
    per_token = total // devices if whole else total / devices
    return Estimate(spelled, peaks, per_token or None, devices)


def share(ns_per_token: float | None, tokens: float, seconds: float) -> float | None:
    """The share of the speed of light that a step reached, at best 1; None if it is not known."""
    if not ns_per_token or not seconds > 0:
        return None
    return ns_per_token * tokens / 1e9 / seconds


class Light:
    """A stage that adds `train/sol` to every row with tokens per second, or with tokens and the time of the step."""

    def __init__(self, best: Estimate) -> None:
        self._ns_per_token = best.ns_per_token

    def __call__(self, row: Row, step: int | float) -> Row:  # noqa: ARG002
        tokens, took = row.get("train/tokens_per_sec"), 1.0
        if tokens is None:
            tokens, took = row.get("train/tokens"), row.get("train/step_time_sec", 0.0)
        sol = None if tokens is None else share(self._ns_per_token, tokens, took)
        return row if sol is None else {**row, "train/sol": sol}


def share_in_ms(ns_per_token: float | None, tokens: object, milliseconds: object) -> float | None:
    """The same in whole milliseconds, which is what a line of Surogate shows in percent."""
    if not ns_per_token or not _is_number(tokens) or not _is_number(milliseconds) or not milliseconds > 0:
        return None
    return float(ns_per_token * tokens // 1e6 / milliseconds)


def rate(tokens: object, milliseconds: object) -> float | None:
    """Tokens per second; 0 for a step without a time, None if either is not a number."""
    if not _is_number(tokens) or not _is_number(milliseconds) or milliseconds != milliseconds:
        return None
    return float(tokens / milliseconds * 1000) if milliseconds > 0 else 0.0


def block(data: Mapping[str, Plain]) -> Iterator[str]:
    """The lines of the block `[Speed of Light]`, from an event `sol`."""
    dtypes = data.get("dtypes") or {}
    yield "[Speed of Light]"
    for dtype, label in PEAKS.items():
        if dtype in dtypes.values():
            peak = data.get(f"{dtype}_peak")
            yield f"  Peak {label}: " + ("unknown" if peak is None else f"{peak:8.1f} TFLOP/s")
    for name, label in PARTS.items():
        if (flops := data.get(name)) is not None:
            scale, unit = (1e9, "GFLOP") if flops > 2e9 else (1e6, "MFLOP")
            yield f"  {label + ':':<10} {flops / scale:8.1f} {unit}   in {dtypes.get(name, 'bf16')}"
    tps = data.get("tps")
    yield "  SOL:       " + ("unavailable" if tps is None else f"{tps:8d} tok/s")


def _is_number(value: object) -> TypeGuard[Number]:
    return isinstance(value, (int, float))


def _nanoseconds(flops: float, peak: float | None, whole: bool) -> float | None:
    if not peak or peak <= 0:
        return None
    return int(int(flops / 1000) / peak) if whole else flops / 1000 / peak
