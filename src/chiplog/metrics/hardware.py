"""What accelerators can do at best: dense peaks by dtype, memory and link bandwidth, by the name of the device.

Never a figure with sparsity, and never a guess: a product that is not in the table has no peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from chiplog.metrics.datasheets import SHEETS

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")
_SPELLINGS = {
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
}


class Accelerator(msgspec.Struct, frozen=True):
    """One device as a framework counts them. None: the device cannot, or nobody has published it."""

    name: str
    fp32: float | None = None  # peaks in TFLOP/s
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    fp4: float | None = None
    memory_bandwidth: float | None = None  # bytes/s
    link_bandwidth: float | None = None  # bytes/s to other accelerators, both directions together, as vendors say it
    source: str = ""  # the document these figures are from

    @property
    def peaks(self) -> dict[str, float]:
        """TFLOP/s by dtype, those that are known."""
        return {dtype: value for dtype in DTYPES if (value := getattr(self, dtype)) is not None}

    def peak(self, dtype: Any = "bf16") -> float | None:
        """TFLOP/s in a dtype: `bf16`, `bfloat16`, `torch.bfloat16`, `jnp.float8_e4m3fn`, ..."""
        short = dtype_name(dtype)
        return self.peaks.get(short) if short else None


def lookup(name: str, override: Accelerator | Mapping[str, Any] | None = None) -> Accelerator | None:
    """The accelerator of a device's name, by the most specific entry; None when there is none, or two as good.

    `override` goes over the table, or stands for a device that is not in it:
    `lookup("NVIDIA X900", {"bf16": 3000.0})`.
    """
    found = _find(str(name))
    if override is None:
        return found
    if isinstance(override, Accelerator):
        return override
    return msgspec.structs.replace(found or Accelerator(str(name)), **override)


def peak(name: str, dtype: Any = "bf16") -> float | None:
    """The dense peak of a device in TFLOP/s; None when it is not known."""
    found = lookup(name)
    return None if found is None else found.peak(dtype)


def dtype_name(dtype: Any) -> str | None:
    """How the table spells a dtype of any library: `bf16`; None for one that it does not have."""
    text = str(getattr(dtype, "__name__", dtype)).lower().rpartition(".")[2].strip("'<>")
    if text.startswith(("float8", "fp8", "f8", "e4m3", "e5m2")):
        return "fp8"
    if text.startswith(("float4", "fp4", "f4", "nvfp4", "mxfp4", "e2m1")):
        return "fp4"
    text = _SPELLINGS.get(text, text)
    return text if text in DTYPES else None


# Words that make another product of what stands before them, unless the entry has them too.
_VARIANTS = frozenset(("d", "laptop", "lite", "max", "mig", "mobile", "nvl", "sff", "super", "ti"))


@cache
def _entries() -> list[tuple[frozenset[str], Accelerator]]:
    """The words of every name in the table, with what it stands for."""
    found = []
    for source, rows in SHEETS.items():
        for names, *peaks, memory, link in rows:
            alternatives = names.split(" | ")
            accelerator = Accelerator(
                alternatives[0],
                **dict(zip(DTYPES, peaks, strict=True)),
                memory_bandwidth=memory and memory * 1e9,
                link_bandwidth=link and link * 1e9,
                source=source,
            )
            found += [(_words(name), accelerator) for name in alternatives]
    return found


@cache
def _find(name: str) -> Accelerator | None:
    words = _words(name)
    fitting = [
        (len(key), accelerator) for key, accelerator in _entries() if key <= words and not (words - key) & _VARIANTS
    ]
    if not fitting:
        return None
    most = max(count for count, _ in fitting)
    best = {accelerator for count, accelerator in fitting if count == most}
    return best.pop() if len(best) == 1 else None


def _words(name: str) -> frozenset[str]:
    """`NVIDIA A100-SXM4-80GB` is nvidia, a100, sxm, 80gb; `RTX4090` is rtx, 4090."""
    text = re.sub(r"\b(rtx|gtx)(?=\d)", r"\1 ", name.lower())
    return frozenset(re.sub(r"^sxm\d$", "sxm", word) for word in re.split(r"[^a-z0-9]+", text) if word)
