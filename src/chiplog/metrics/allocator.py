"""An allocator's report: how much memory of each kind every segment of the training has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KINDS = ("device", "managed", "pinned", "pageable")  # bytes of each
SEGMENTS = {
    "weights": "model weights",
    "gradients": "gradient buffers",
    "optimizer": "optimizer state: momentum, variance",
    "activations": "what the forward pass keeps for the backward pass",
    "lora": "LoRA adapter weights",
    "qlora": "QLoRA quantized weights and scales",
}


def report(stats: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of an event `allocator`, from bytes by kind, by segment: `{"weights": {"device": 4 << 30}}`.

    Kinds that are not given are 0. Segments of any name may come; what is no amount of bytes (a stack) is left out.
    """
    named = stats.items() if isinstance(stats, Mapping) else ((one.get("name", ""), one) for one in stats)
    return {"stats": [{"name": str(name), **{kind: _bytes(one.get(kind)) for kind in KINDS}} for name, one in named]}


def _bytes(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and value - value == 0 else 0
